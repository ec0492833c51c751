"""The options of requests, which are checked before the body is read."""

import pytest

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
MERGE = {"Content-Type": "application/merge-patch+json"}


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("dryRun=x", 'dryRun: Unsupported value: ["x"]: supported values: "All"'),
        (f"fieldManager={'m' * 129}", "fieldManager: Too long: may not be more than 128 bytes"),
        ("fieldManager=a%07", 'fieldManager: Invalid value: "a\\u0007": invalid character U+0007 (at position 1)'),
        (
            "fieldValidation=Loose",
            'fieldValidation: Unsupported value: "Loose": supported values: "", "Ignore", "Strict", "Warn"',
        ),
    ],
    ids=["dry run", "long manager", "unprintable manager", "validation"],
)
@pytest.mark.parametrize(
    ("method", "kind"), [("POST", "CreateOptions"), ("PUT", "UpdateOptions"), ("PATCH", "PatchOptions")]
)
async def test_invalid_option_is_rejected_before_the_body(client, method, kind, query, message):
    path = CONFIG_MAPS if method == "POST" else f"{CONFIG_MAPS}/none"
    headers = MERGE if method == "PATCH" else {"Content-Type": "application/json"}
    status, error = await client(method, f"{path}?{query}", "{not json", **headers)

    assert (status, error["reason"]) == (422, "Invalid")
    assert error["message"] == f'{kind}.meta.k8s.io "" is invalid: {message}'


async def test_all_invalid_options_are_reported(client):
    query = f"dryRun=x&fieldManager={'m' * 129}"
    _, error = await client("POST", f"{CONFIG_MAPS}?{query}", {}, **{"Content-Type": "application/json"})

    assert [cause["field"] for cause in error["details"]["causes"]] == ["fieldManager", "dryRun"]


async def test_force_is_for_apply_only(client):
    _, error = await client("PATCH", f"{CONFIG_MAPS}/none?force=true", {}, **MERGE)

    message = 'PatchOptions.meta.k8s.io "" is invalid: force: Forbidden: may not be specified for non-apply patch'
    assert error["message"] == message


async def test_manager_of_128_bytes_is_accepted(client, make_config_map):
    await client.create(f"{CONFIG_MAPS}?fieldManager={'m' * 128}", make_config_map())


@pytest.mark.parametrize("body", [{"dryRun": ["x"]}, {"propagationPolicy": "Odd"}], ids=["dry run", "propagation"])
async def test_invalid_delete_options_are_rejected(client, make_config_map, body):
    await client.create(CONFIG_MAPS, make_config_map())
    error = await client.delete(f"{CONFIG_MAPS}/m", body, status=422)

    assert error["message"].startswith('DeleteOptions.meta.k8s.io "" is invalid: ')
    await client.get(f"{CONFIG_MAPS}/m")


async def test_list_of_a_version_that_is_no_number_is_a_bad_request(client):
    error = await client.get(f"{CONFIG_MAPS}?resourceVersion=abc", status=400)

    assert error["reason"] == "BadRequest"
    assert error["message"] == (
        'invalid resource version: resourceVersion: Invalid value: "abc": strconv.ParseUint: parsing "abc": '
        "invalid syntax"
    )


async def test_get_of_a_future_version_times_out(client, make_config_map):
    await client.create(CONFIG_MAPS, make_config_map())
    error = await client.get(f"{CONFIG_MAPS}/m?resourceVersion=999999", status=504)

    assert error["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"

"""The options of requests, which are checked before the body is read."""

import json

import pytest
from tests.support.tables import cases

from bayplan_devcluster.apiserver import HttpRequest

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
MERGE = {"Content-Type": "application/merge-patch+json"}


@cases(
    "query, message",
    {
        "dry run": ("dryRun=x", 'dryRun: Unsupported value: ["x"]: supported values: "All"'),
        "long manager": (f"fieldManager={'m' * 129}", "fieldManager: Too long: may not be more than 128 bytes"),
        "unprintable manager": (
            "fieldManager=a%07",
            'fieldManager: Invalid value: "a\\u0007": invalid character U+0007 (at position 1)',
        ),
        "validation": (
            "fieldValidation=Loose",
            'fieldValidation: Unsupported value: "Loose": supported values: "", "Ignore", "Strict", "Warn"',
        ),
    },
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


@cases("body", {"dry run": {"dryRun": ["x"]}, "propagation": {"propagationPolicy": "Odd"}})
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


@cases(
    "token, problem",
    {
        "not ASCII": ("é", "illegal base64 data at input byte 0"),
        "padding": ("abc=", "illegal base64 data at input byte 3"),
        "length": ("abcde", "illegal base64 data at input byte 4"),
        "not JSON": ("YQ", "invalid character 'a' looking for beginning of value"),
        "no version": ("e30", "server does not recognize this encoded version "),
        "no revision": (
            "eyJ2IjoibWV0YS5rOHMuaW8vdjEifQ",
            "incorrect encoded start resourceVersion (version meta.k8s.io/v1)",
        ),
        "no key": ("eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MX0", "encoded start key empty (version meta.k8s.io/v1)"),
        "path": ("eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiIuLi94In0", "../x"),
        "list": ("WzFd", "json: "),
    },
)
async def test_invalid_continue_token_is_400(in_memory, token, problem):
    response = await in_memory.handle(HttpRequest("GET", "/api/v1/pods", {"limit": "1", "continue": token}))
    message = json.loads(response.body)["message"]

    assert response.status == 400
    assert message.startswith(f"invalid continue token: continue key is not valid: {problem}")


@pytest.mark.parametrize("method", ["TRACE", "OPTIONS", "CONNECT", "PROPFIND"])
@pytest.mark.parametrize("path", ["/api/v1/pods", "/api/v1/nodes/n", "/version", "/api/v1/namespaces/default/bindings"])
async def test_other_methods_are_not_allowed(in_memory, method, path):
    response = await in_memory.handle(HttpRequest(method, path))

    assert (response.status, json.loads(response.body)["reason"]) == (405, "MethodNotAllowed")


@pytest.mark.parametrize("media", ["application/json", "application/yaml", "application/merge-patch+json"])
@pytest.mark.parametrize(
    "body", [b"[" * 100_000, b"\xff", b"1" * 5000, b"a: &a [1]\nb: !!binary x"], ids=lambda b: b[:9]
)
async def test_body_that_cannot_be_decoded_is_a_client_error(in_memory, media, body):
    method = "PATCH" if "patch" in media else "POST"
    path = "/api/v1/namespaces/default/configmaps" + ("/m" if "patch" in media else "")
    await in_memory.handle(HttpRequest("POST", path, body=b'{"metadata":{"name":"m"}}'))
    response = await in_memory.handle(HttpRequest(method, path, headers={"Content-Type": media}, body=body))

    assert 400 <= response.status < 500, response.body

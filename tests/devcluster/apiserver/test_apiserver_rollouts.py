"""Validation of how Deployments roll out."""

from tests.support.tables import cases

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
TEMPLATE = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
NOT_A_PERCENTAGE = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for "
    "validation is '[0-9]+%')"
)


def deployment(rolling_update, **spec):
    strategy = {"rollingUpdate": rolling_update}
    selector = {"matchLabels": {"app": "web"}}
    return {
        "metadata": {"name": "web"},
        "spec": {"selector": selector, "template": TEMPLATE, "strategy": strategy, **spec},
    }


@cases(
    "rolling_update, field, message",
    {
        "text": ({"maxUnavailable": "a/b"}, "maxUnavailable", f'Invalid value: "a/b": {NOT_A_PERCENTAGE}'),
        "number as text": ({"maxSurge": "5"}, "maxSurge", f'Invalid value: "5": {NOT_A_PERCENTAGE}'),
        "negative": ({"maxSurge": -1}, "maxSurge", "Invalid value: -1: must be greater than or equal to 0"),
        "more than all": (
            {"maxUnavailable": "101%"},
            "maxUnavailable",
            'Invalid value: "101%": must not be greater than 100%',
        ),
        "both zero": (
            {"maxUnavailable": 0, "maxSurge": "0%"},
            "maxUnavailable",
            "Invalid value: 0: may not be 0 when `maxSurge` is 0",
        ),
    },
)
async def test_invalid_limit_of_a_rolling_update_is_rejected(client, rolling_update, field, message):
    error = await client.create(DEPLOYMENTS, deployment(rolling_update), status=422)

    assert error["details"]["causes"] == [
        {"reason": "FieldValueInvalid", "message": message, "field": f"spec.strategy.rollingUpdate.{field}"}
    ]


async def test_progress_deadline_exceeds_the_minimum_of_ready_seconds(client):
    bad = deployment({}, minReadySeconds=10, progressDeadlineSeconds=10)
    error = await client.create(DEPLOYMENTS, bad, status=422)

    message = "spec.progressDeadlineSeconds: Invalid value: 10: must be greater than minReadySeconds"
    assert message in error["message"]

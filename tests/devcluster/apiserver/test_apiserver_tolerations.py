"""Tolerations that compare numbers, with and without the feature gate TaintTolerationComparisonOperators."""

import pytest
from tests.support.tables import cases

from bayplan.client import ApiError, ClusterAccess, HttpClient
from bayplan.core.api.kinds import POD
from bayplan.core.versions import DEFAULT_GATES
from bayplan_devcluster.apiserver import ApiServer

COMPARING = DEFAULT_GATES.but("TaintTolerationComparisonOperators")
WHERE = "spec.tolerations[0]"
CANONICAL = "must be a valid decimal integer in canonical form"


async def create(gates, **toleration):
    """The stored toleration of a pod, or the errors of the server."""
    pod = {
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {
            "containers": [{"name": "c", "image": "i"}],
            "tolerations": [{"key": "sla", "effect": "NoSchedule", **toleration}],
        },
    }
    async with ApiServer(gates=gates) as server, HttpClient(ClusterAccess(server=server.url)) as client:
        try:
            return (await client.create(POD, pod)).spec.tolerations[0].operator
        except ApiError as error:
            return str(error)


@cases(
    "operator, value",
    {"below": ("Lt", "3"), "above": ("Gt", "-3"), "zero": ("Gt", "0"), "the largest": ("Lt", "9223372036854775807")},
)
async def test_numbers_are_accepted_with_the_gate(operator, value):
    assert await create(COMPARING, operator=operator, value=value) == operator


@cases(
    "value, problems",
    {
        "empty": ("", ['Invalid value: "": must be non-empty', 'parsing "": invalid syntax']),
        "a word": ("x", [CANONICAL, 'parsing "x": invalid syntax']),
        "a leading zero": ("03", [CANONICAL]),
        "a plus": ("+3", [CANONICAL]),
        "a fraction": ("1.5", [CANONICAL, 'parsing "1.5": invalid syntax']),
        "too large": ("9223372036854775808", ['parsing "9223372036854775808": value out of range']),
    },
)
async def test_other_values_are_rejected_with_the_gate(value, problems):
    found = await create(COMPARING, operator="Lt", value=value)
    assert all(problem in found for problem in problems)
    assert found.count("Invalid value") == len(problems)
    assert f"{WHERE}.value" in found


@pytest.mark.parametrize("operator", ["Lt", "Gt"])
async def test_they_are_not_supported_without_the_gate(operator):
    found = await create(DEFAULT_GATES, operator=operator, value="3")
    assert f"{WHERE}.operator" in found
    assert f'Unsupported value: "{operator}": supported values: "Equal", "Exists"' in found

"""The preemption policies of nodes, in the embedded API server of 1.37 with and without their gate."""

import pytest
from tests.support.tables import cases

from bayplan.client import ApiError
from bayplan.core.api.kinds import NODE
from bayplan.core.cluster.resizes import RESIZES_PREEMPT
from bayplan.core.versions import gates_of
from bayplan.testing.in_memory import InMemoryClient
from bayplan_devcluster.apiserver import ApiServer
from bayplan_devcluster.apiserver.kinds.strategies import strategy_of

OFF, ON = gates_of("1.37"), gates_of("1.37").but(RESIZES_PREEMPT)
FIELD = "spec.podPreemptionPolicy.disableResizePreemption"


def client_of(gates):
    return InMemoryClient(ApiServer(address=None, version="1.37", gates=gates))


def node(*owners):
    return {"metadata": {"name": "n"}, "spec": {"podPreemptionPolicy": {"disableResizePreemption": [*owners]}}}


@cases("gates, stored", {"on": (ON, ["example.com/a", "b"]), "off": (OFF, None)})
async def test_policies_are_stored_only_with_the_gate(gates, stored):
    made = await client_of(gates).create(NODE, node("example.com/a", "b"))
    policy = made.spec.podPreemptionPolicy
    assert (policy and policy.disableResizePreemption) == stored


def test_an_update_keeps_the_policy_that_a_node_had():
    for old, kept in (({}, False), (node("a")["spec"], True)):
        new = node("b")
        strategy_of(NODE, OFF.on).prepare_for_update(new, {"spec": old})
        assert ("podPreemptionPolicy" in new["spec"]) is kept


PROBLEMS = {
    "twice": (["a", "a"], f'{FIELD}[1]: Duplicate value: "a"'),
    "no name": (["a b"], f'{FIELD}[0]: Invalid value: "a b": name part must consist of alphanumeric characters'),
    "too many": ([f"n{number}" for number in range(21)], f"{FIELD}: Too many: 21: must have at most 20 items"),
}


@cases("owners, message", PROBLEMS)
async def test_policies_are_validated(owners, message):
    with pytest.raises(ApiError) as caught:
        await client_of(ON).create(NODE, node(*owners))
    assert message in str(caught.value)

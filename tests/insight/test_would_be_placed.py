"""One definition of "would be placed" for all questions: what plugins say after the filters counts, too."""

import asyncio

import pytest
from bayplan_documents import document, node, pod
from tests.support.tables import cases

from bayplan import SKIP, Plugin, Status
from bayplan.core.api.kinds import CONFIG_MAP
from bayplan.core.config import KubeSchedulerConfiguration, read_configuration
from bayplan.core.framework.interface import Wait
from bayplan.insight import Changes, Insight, Snapshot

CLUSTER = (node("n1"), node("n2"), pod("p"))


class Closed(Plugin):
    """Rejects all pods at the points that a subclass names."""

    name = "Closed"


class ReserveCloses(Closed):
    def reserve(self, cycle, pod, node_name):
        return Status.unschedulable("the shop is closed")

    def unreserve(self, cycle, pod, node_name):
        return None


class PermitCloses(Closed):
    def permit(self, cycle, pod, node_name):
        return Status.unschedulable("the shop is closed")


class PermitWaits(Closed):
    def permit(self, cycle, pod, node_name):
        return Wait(5)


class PreBindCloses(Closed):
    async def pre_bind(self, cycle, pod, node_name):
        return Status.unschedulable("the shop is closed")


class PreBindFails(Closed):
    def pre_bind(self, cycle, pod, node_name):
        raise ValueError("no key for the shop")


class PreBindRaises(Closed):
    async def pre_bind(self, cycle, pod, node_name):
        raise RuntimeError("no key for the shop")


class PreBindCalls(Closed):
    """Waits for a service, and makes a status of each error, as plugins that fail closed do."""

    async def pre_bind(self, cycle, pod, node_name):
        try:
            await asyncio.sleep(1)
        except Exception as error:  # noqa: BLE001 - as such plugins do
            return Status.error(f"no approval: {error}")


class PreBindReads(Closed):
    """Reads an object that snapshots don't have."""

    def __init__(self, handle):
        self._handle = handle

    async def pre_bind(self, cycle, pod, node_name):
        await self._handle.client.get(CONFIG_MAP, "shop", "default")


class PreBindSkips(PreBindCloses):
    def pre_bind_pre_flight(self, cycle, pod, node_name):
        return SKIP


REJECTING = {
    ReserveCloses: "the shop is closed",
    PermitCloses: "the shop is closed",
    PermitWaits: "rejected due to timeout after waiting 5s at plugin Closed",
    PreBindCloses: "the shop is closed",
    PreBindFails: 'running PreBind plugin "Closed": ValueError: no key for the shop',
    PreBindRaises: 'running PreBind plugin "Closed": RuntimeError: no key for the shop',
}
ACCEPTING = (PreBindCalls, PreBindReads, PreBindSkips)


def outcomes(insight, node_name="n1"):
    """What each question says of the pod: the texts in which a reason must be, or the node that it gets."""
    pending = insight.explain_all()
    explained = insight.explain("default/p")
    asked = insight.why_not("default/p", node_name)
    fits = insight.fit([pod("q")])
    return {
        "explain": explained.node or explained.message,
        "explain_all": pending.causes[0].message,
        "why_not": "accepted" if asked.feasible else asked.blockers[0].text,
        "fit": fits.pods[0].node or fits.pods[0].message,
        "capacity": insight.capacity([pod("q")], most=1).message,
        "what_if": insight.what_if(Changes(cordon=["n2"])).pending,
        "balance": insight.balance(most=1).gang.message,
        "largest": insight.balance(most=1).largest[0].node,
    }


@pytest.mark.parametrize("plugin", REJECTING, ids=lambda plugin: plugin.__name__)
def test_all_questions_know_what_rejects_a_pod_after_the_filters(plugin):
    found = outcomes(Insight(Snapshot.of(CLUSTER), plugins=[plugin]))

    assert (found.pop("what_if"), found.pop("largest")) == (1, None)
    assert {question: REJECTING[plugin] in text for question, text in found.items()} == dict.fromkeys(found, True)


@pytest.mark.parametrize("plugin", ACCEPTING, ids=lambda plugin: plugin.__name__)
def test_pre_bind_that_waits_for_something_else_is_taken_to_succeed(plugin):
    found = outcomes(Insight(Snapshot.of(CLUSTER), plugins=[plugin]))

    assert "it would be placed now" in found["explain_all"]
    assert (found["why_not"], found["what_if"], found["capacity"]) == ("accepted", 0, "")
    assert {found["explain"], found["fit"], found["largest"]} <= {"n1", "n2"}


def test_why_not_asks_about_the_node_and_not_about_the_one_that_is_chosen():
    class Picky(Closed):
        def permit(self, cycle, pod, node_name):
            return Status.unschedulable(f"not on {node_name}") if node_name == "n2" else None

    insight = Insight(Snapshot.of(CLUSTER), plugins=[Picky])

    assert insight.why_not("default/p", "n1").feasible
    assert insight.why_not("default/p", "n2").blockers[0].text == "not on n2"


GROUP = {**document("PodGroup", "crew", "scheduling.x-k8s.io/v1alpha1"), "spec": {"minMember": 2}}


def member(name, cpu="1"):
    found = pod(name, cpu=cpu)
    found["metadata"]["labels"] = {"scheduling.x-k8s.io/pod-group": "crew"}
    return found


@cases(
    "pods, placed",
    {
        "complete": ([member("a"), member("b")], True),
        "one is too large": ([member("a"), member("b", cpu="9")], False),
        "one is missing": ([member("a")], False),
    },
)
def test_members_of_a_coscheduling_group_are_placed_together_or_not_at_all(pods, placed, tmp_path):
    insight = Insight(Snapshot.of([node("n1"), GROUP, *pods]), coscheduling(tmp_path))

    said = [cause.message for cause in insight.explain_all().causes]

    assert any("it would be placed now" in message for message in said) is placed
    assert insight.why_not("default/a", "n1").feasible is placed
    assert (insight.explain("default/a").outcome == "placed") is placed


def coscheduling(folder) -> KubeSchedulerConfiguration:
    path = folder / "config.yaml"
    path.write_text(
        """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - schedulerName: default-scheduler
    plugins:
      multiPoint: {enabled: [{name: Coscheduling}]}
      queueSort: {disabled: [{name: "*"}], enabled: [{name: Coscheduling}]}
"""
    )
    return read_configuration(path).configuration

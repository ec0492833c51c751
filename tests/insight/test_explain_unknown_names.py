"""Pods that name a node or a scheduler that doesn't exist."""

import pytest
from bayplan_documents import document
from tests.support.tables import cases

from bayplan.insight import Changes, Insight, QuestionError, Snapshot

ROOM = {"cpu": "4", "memory": "8Gi", "pods": "110"}


def node(name):
    return document("Node", name, namespace="", status={"allocatable": ROOM, "capacity": ROOM})


def pod(name, **spec):
    return document("Pod", name, spec={"containers": [{"name": "c", "image": "i"}], **spec})


@cases(
    "on, note",
    {
        "unknown": ("n9999", "there is no node n9999"),
        "similar": ("worker-nod-1", "there is no node worker-nod-1: did you mean 'worker-node-1'?"),
    },
)
def test_a_node_that_does_not_exist_is_said(on, note):
    assert note in Insight(Snapshot.of([node("worker-node-1"), pod("lost", nodeName=on)])).explain("default/lost").notes


@cases(
    "name, note",
    {
        "another name": ("my-scheduler", "'my-scheduler'; there are profiles for default-scheduler, bayplan-scheduler"),
        "typing error": ("default-schedular", "'default-schedular'; did you mean default-scheduler?"),
        "comment": ("default-scheduler // mine", "'default-scheduler // mine'; did you mean default-scheduler?"),
    },
)
def test_schedulers_with_another_name_are_not_taken_for_typing_errors(name, note):
    (found,) = Insight(Snapshot.of([node("n1"), pod("new", schedulerName=name)])).explain("default/new").notes

    assert found == f"no scheduler here has the pod's schedulerName {note}"


@cases(
    "ask",
    {
        "why-not": lambda insight: insight.why_not("default/new", "worker-nod-1"),
        "drain": lambda insight: insight.drain(["worker-nod-1"]),
        "what-if": lambda insight: insight.what_if(Changes(cordon=["worker-nod-1"])),
    },
)
def test_a_node_with_a_similar_name_is_offered(ask):
    with pytest.raises(QuestionError, match=r"there is no node worker-nod-1.*: did you mean 'worker-node-1'\?"):
        ask(Insight(Snapshot.of([node("worker-node-1"), pod("new")])))


def test_a_priority_class_with_its_letters_in_another_order_is_offered():
    known = document("PriorityClass", "high", "scheduling.k8s.io/v1", namespace="", value=1)
    fits = Insight(Snapshot.of([node("n1"), known])).fit([pod("new", priorityClassName="hihg")])

    assert (
        fits.pods[0].message
        == "pods \"new\" is forbidden: no PriorityClass with name hihg was found: did you mean 'high'?"
    )

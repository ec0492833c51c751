import pytest
from lightkube.models.core_v1 import (
    Affinity,
    Container,
    ContainerPort,
    Node,
    NodeAffinity,
    NodeCondition,
    NodeSpec,
    NodeStatus,
    Pod,
    PodExtendedResourceClaimStatus,
    PodResourceClaimStatus,
    PodSchedulingGate,
    PodSpec,
    PodStatus,
    ResourceRequirements,
    Taint,
    Toleration,
)
from lightkube.models.meta_v1 import ObjectMeta
from tests.support.tables import cases

from bayplan.core.api.objects import encode
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.framework import changes
from bayplan.core.framework.changes import node_changes, object_event, pod_changes
from bayplan.core.framework.events import ALL_EVENTS, ANY, NODE, POD, Action, ClusterEvent


def _pod(
    *, node=None, labels=None, requests=None, gates=(), tolerations=0, claims=None, extended=None, phase="Pending"
):
    return PodInfo(
        Pod(
            metadata=ObjectMeta(name="a", namespace="ns", uid="u", labels=labels),
            spec=PodSpec(
                containers=[Container(name="c", resources=ResourceRequirements(requests=requests or {}))],
                nodeName=node,
                schedulingGates=[PodSchedulingGate(name=gate) for gate in gates],
                tolerations=[Toleration(key=str(number)) for number in range(tolerations)],
            ),
            status=PodStatus(
                phase=phase,
                resourceClaimStatuses=[
                    PodResourceClaimStatus(name=name, resourceClaimName=claim) for name, claim in claims
                ]
                if claims is not None
                else None,
                extendedResourceClaimStatus=PodExtendedResourceClaimStatus(
                    requestMappings=[], resourceClaimName=extended
                )
                if extended
                else None,
            ),
        )
    )


POD_CASES = {
    "nothing": ({}, {}, ["Update"]),
    "status only": ({}, {"phase": "Running"}, ["Update"]),
    "label added": ({}, {"labels": {"a": "b"}}, ["UpdatePodLabel"]),
    "label removed": ({"labels": {"a": "b"}}, {}, ["UpdatePodLabel"]),
    "no labels, written in two ways": ({"labels": {}}, {"labels": None}, ["Update"]),
    "scaled down": ({"requests": {"cpu": "2"}}, {"requests": {"cpu": "1"}}, ["UpdatePodScaleDown"]),
    "scaled up": ({"requests": {"cpu": "1"}}, {"requests": {"cpu": "2"}}, ["Update"]),
    "same amount": ({"requests": {"cpu": "1"}}, {"requests": {"cpu": "1000m"}}, ["Update"]),
    "one up, one down": (
        {"requests": {"cpu": "1", "memory": "2Gi"}},
        {"requests": {"cpu": "2", "memory": "1Gi"}},
        ["UpdatePodScaleDown"],
    ),
    "request removed": ({"requests": {"cpu": "1"}}, {}, ["UpdatePodScaleDown"]),
    "request added": ({}, {"requests": {"cpu": "1"}}, ["Update"]),
    "all gates gone": ({"gates": ["g", "h"]}, {"gates": []}, ["UpdatePodSchedulingGatesEliminated"]),
    "some gates gone": ({"gates": ["g", "h"]}, {"gates": ["h"]}, ["Update"]),
    "toleration added": ({}, {"tolerations": 1}, ["UpdatePodToleration"]),
    "claim generated": ({}, {"claims": [("c", "c-1")]}, ["UpdatePodGeneratedResourceClaim"]),
    "claim not needed": ({"claims": [("c", "c-1")]}, {"claims": [("c", None)]}, ["UpdatePodGeneratedResourceClaim"]),
    "no claims, written in two ways": ({"claims": []}, {"claims": None}, ["Update"]),
    "extended resource claim": ({}, {"extended": "e"}, ["UpdatePodGeneratedResourceClaim"]),
    "several": (
        {"gates": ["g"]},
        {"labels": {"a": "b"}, "tolerations": 2},
        ["UpdatePodLabel", "UpdatePodSchedulingGatesEliminated", "UpdatePodToleration"],
    ),
}


@cases("old, new, expected", POD_CASES)
@pytest.mark.parametrize(("node", "prefix"), [(None, "UnschedulablePod"), ("n1", "AssignedPod")])
def test_pod_changes_returns_events(old, new, expected, node, prefix):
    events = pod_changes(_pod(**old), _pod(node=node, **new))
    assert [event.label for event in events] == [prefix + label for label in expected]
    assert {event.resource for event in events} == {POD}


def _with(gates=(), ports=None, **fields):
    gated = [PodSchedulingGate(name=gate) for gate in gates]
    containers = [Container(name="c", image=fields.pop("image", "i"), ports=ports)]
    return PodInfo(
        Pod(metadata=ObjectMeta(name="a"), spec=PodSpec(containers=containers, schedulingGates=gated, **fields))
    )


@cases(
    "old, new, activates",
    {
        "node selector": ({"nodeSelector": {"a": "b"}}, {"nodeSelector": {"a": "c"}}, True),
        "affinity": ({}, {"affinity": Affinity(nodeAffinity=NodeAffinity())}, True),
        "host port": ({}, {"ports": [ContainerPort(containerPort=1, hostPort=2)]}, True),
        "priority": ({"priority": 1}, {"priority": 2}, True),
        "of a gated pod": ({"gates": ["g"]}, {"gates": ["g"], "nodeSelector": {"a": "c"}}, False),
        "image": ({}, {"image": "j"}, False),
        "deadline": ({}, {"activeDeadlineSeconds": 3}, False),
        "nothing": ({"nodeSelector": {"a": "b"}}, {"nodeSelector": {"a": "b"}}, False),
    },
)
def test_pending_pod_that_was_read_wrongly_before_is_tried_again(old, new, activates):
    assert (changes.FORCE_ACTIVATE in pod_changes(_with(**old), _with(**new))) == activates
    assert changes.FORCE_ACTIVATE not in pod_changes(_with(**old, nodeName="n"), _with(**new, nodeName="n"))


def test_pod_changes_compares_an_old_version_whose_object_was_released():
    before = _pod(node="n", tolerations=1)
    old = PodInfo.from_raw(encode(before.object))
    old.release()
    assert pod_changes(old, _pod(node="n", tolerations=1)) == [changes.ASSIGNED_POD_UPDATE]
    assert [event.action for event in pod_changes(old, _pod(node="n"))] == [Action.UPDATE_POD_TOLERATION]


def _node(
    *, labels=None, annotations=None, unschedulable=None, taints=None, allocatable=None, conditions=None, features=None
):
    return Node(
        metadata=ObjectMeta(name="n", labels=labels, annotations=annotations),
        spec=NodeSpec(unschedulable=unschedulable, taints=taints),
        status=NodeStatus(
            allocatable=allocatable,
            declaredFeatures=features,
            conditions=[NodeCondition(type=name, status=status, reason=why) for name, status, why in conditions or ()],
        ),
    )


TAINTED = [Taint(key="k", effect="NoSchedule")]

NODE_CASES = {
    "nothing": ({}, {}, []),
    "no labels, written in two ways": ({"labels": {}}, {"labels": None}, []),
    "labels": ({}, {"labels": {"a": "b"}}, ["UpdateNodeLabel"]),
    "annotations": ({}, {"annotations": {"a": "b"}}, ["UpdateNodeAnnotation"]),
    "tainted": ({}, {"taints": TAINTED}, ["UpdateNodeTaint"]),
    "taint removed": ({"taints": TAINTED}, {"taints": []}, ["UpdateNodeTaint"]),
    "no taints, written in two ways": ({"taints": None}, {"taints": []}, []),
    "uncordoned": ({"unschedulable": True}, {}, ["UpdateNodeTaint"]),
    "cordoning is no event": ({}, {"unschedulable": True}, []),
    "uncordoned and its taint removed": ({"unschedulable": True, "taints": TAINTED}, {}, ["UpdateNodeTaint"]),
    "more cpu": ({"allocatable": {"cpu": "1"}}, {"allocatable": {"cpu": "2"}}, ["UpdateNodeAllocatable"]),
    "same cpu": ({"allocatable": {"cpu": "1"}}, {"allocatable": {"cpu": "1000m"}}, []),
    "another": ({"allocatable": {"cpu": "1"}}, {"allocatable": {"gpu": "1"}}, ["UpdateNodeAllocatable"]),
    "nonsense": ({"allocatable": {"cpu": "1"}}, {"allocatable": {"cpu": "?"}}, ["UpdateNodeAllocatable"]),
    "ready": (
        {"conditions": [("Ready", "False", "")]},
        {"conditions": [("Ready", "True", "")]},
        ["UpdateNodeCondition"],
    ),
    "heartbeat": ({"conditions": [("Ready", "True", "a")]}, {"conditions": [("Ready", "True", "b")]}, []),
    "declared features": ({}, {"features": ["F"]}, ["UpdateNodeDeclaredFeature"]),
    "several": (
        {"unschedulable": True},
        {"labels": {"a": "b"}, "allocatable": {"cpu": "1"}},
        ["UpdateNodeAllocatable", "UpdateNodeLabel", "UpdateNodeTaint"],
    ),
}


@cases("old, new, expected", NODE_CASES)
def test_node_changes_returns_events(old, new, expected):
    events = node_changes(_node(**old), _node(**new))
    assert [event.label for event in events] == [NODE + label for label in expected]


def test_node_changes_compares_empty_nodes():
    assert node_changes(Node(), Node()) == []
    assert [event.label for event in node_changes(Node(), _node(labels={"a": "b"}))] == ["NodeUpdateNodeLabel"]


@pytest.mark.parametrize(
    ("resource", "action", "label"),
    [
        (NODE, Action.ADD, changes.NODE_ADD.label),
        (NODE, Action.DELETE, changes.NODE_DELETE.label),
        ("PersistentVolumeClaim", Action.UPDATE, "PersistentVolumeClaimUpdate"),
        ("widgets.v1.example.com", Action.ADD, "widgets.v1.example.comAdd"),
        (NODE, Action.UPDATE_NODE_TAINT, "NodeUpdateNodeTaint"),
    ],
)
def test_object_event_is_labeled_by_kind_and_action(resource, action, label):
    event = object_event(resource, action)
    assert (event.resource, event.action, event.label) == (resource, action, label)


@cases(
    "registered, happened, matches",
    {
        "all events": (ALL_EVENTS, changes.NODE_ADD, True),
        "all events cover an event for all kinds": (ALL_EVENTS, changes.FORCE_ACTIVATE, True),
        "a kind's event does not cover an event for all kinds": (changes.NODE_ADD, changes.FORCE_ACTIVATE, False),
        "any kind, this action": (ClusterEvent(ANY, Action.ADD), changes.NODE_ADD, True),
        "any kind, another action": (ClusterEvent(ANY, Action.ADD), changes.NODE_DELETE, False),
        "this kind, any action": (ClusterEvent(NODE, Action.ALL), changes.NODE_DELETE, True),
        "less specific update": (ClusterEvent(POD, Action.UPDATE_POD_LABEL), changes.ASSIGNED_POD_UPDATE, False),
        "every action of pods": (ClusterEvent(POD, Action.ALL), changes.UNSCHEDULED_POD_UPDATE, True),
    },
)
def test_registered_event_matches(registered, happened, matches):
    assert registered.matches(happened) is matches

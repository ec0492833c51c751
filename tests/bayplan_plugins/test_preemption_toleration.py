"""PreemptionToleration: upstream's tables, preemption in a cluster, and the contract."""

from datetime import UTC, datetime, timedelta

import pytest
from tests.support.tables import cases
from tests.support.vectors import vectors

from bayplan.core.api.kinds import PRIORITY_CLASS
from bayplan.core.api.objects import convert
from bayplan.testing import check_contract, make_cluster, make_node, make_pod
from bayplan_plugins.preemption_toleration import (
    MINIMUM_PRIORITY,
    SECONDS,
    PreemptionToleration,
    Toleration,
    UnknownPriorityClass,
    exempted,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)
"""The time of a cluster in memory."""


def priority_class(value, minimum=None, seconds=None, name="dummy"):
    annotations = {MINIMUM_PRIORITY: minimum, SECONDS: seconds}
    metadata = {"name": name, "annotations": {key: text for key, text in annotations.items() if text is not None}}
    return convert(PRIORITY_CLASS.type, {"metadata": metadata, "value": value})


def placed(name, node, priority, seconds_ago=None, class_name="dummy", cpu="1"):
    status = {}
    if seconds_ago is not None:
        moment = (NOW - timedelta(seconds=seconds_ago)).isoformat()
        status = {"conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": moment}]}
    requests = {"requests": {"cpu": cpu}}
    spec = {"priorityClassName": class_name, "containers": [{"name": "c", "resources": requests}]}
    return make_pod(name, node=node, priority=priority, spec=spec, status=status)


@cases("case", vectors("preemption_toleration", "TestParsePreemptionTolerationPolicyToleration"))
def test_upstreams_policies(case):
    made = priority_class(*case["class"])
    if case["wanted"] is None:
        with pytest.raises(ValueError, match="'a' is not an integer"):
            Toleration.of(made)
    else:
        assert list(Toleration.of(made)) == case["wanted"]


@cases("case", vectors("preemption_toleration", "TestExemptedFromPreemption"))
def test_upstreams_exemptions(case):
    victim = placed("v", "n", case["victim"], case.get("scheduled"))
    policy = case.get("policy", "PreemptLowerPriority")
    preemptor = make_pod("p", priority=case["preemptor"], spec={"preemptionPolicy": policy})
    classes = {"dummy": priority_class(*case["class"])} if case["class"] else {}
    if case["exempted"] is None:
        with pytest.raises(UnknownPriorityClass, match=r'priorityclass\.scheduling\.k8s\.io "dummy" not found'):
            exempted(victim, preemptor, classes, NOW)
    else:
        assert exempted(victim, preemptor, classes, NOW) is case["exempted"]


def test_a_pod_without_a_class_tolerates_nothing():
    victim = make_pod("v", node="n", priority=1)
    assert not exempted(victim, make_pod("p", priority=2), {}, NOW)


CONFIGURATION = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    postFilter:
      enabled: [{name: PreemptionToleration}]
      disabled: [{name: DefaultPreemption}]
"""


@pytest.fixture
def victims(tmp_path):
    """Where a pod would preempt, and which pods, with upstream's configuration."""
    path = tmp_path / "scheduler.yaml"
    path.write_text(CONFIGURATION, encoding="utf-8")
    return lambda *objects, priority=150: preempted(path, *objects, priority=priority)


def preempted(path, *objects, priority):
    cluster = make_cluster(*objects, configuration=path)
    decision = cluster.decide(make_pod("new", cpu="1", priority=priority))
    return decision.nominated_node or None, [victim.name for victim in decision.victims]


@pytest.mark.parametrize(("seconds_ago", "nominated"), [(10, "b"), (101, "a")])
def test_a_pod_is_protected_as_long_as_its_class_says(victims, seconds_ago, nominated):
    node = [make_node(name, cpu="1") for name in "ab"]
    tolerant = placed("tolerant", "a", 50, seconds_ago)
    other = placed("other", "b", 100, 10, "")
    found, gone = victims(*node, priority_class(50, "200", "100"), tolerant, other)
    assert found == nominated
    assert len(gone) == 1


def test_a_preemptor_of_enough_priority_is_not_kept_off(victims):
    objects = make_node("a", cpu="1"), priority_class(50, "200", "-1"), placed("tolerant", "a", 50, 10)
    assert victims(*objects) == (None, [])
    assert victims(*objects, priority=200) == ("a", ["tolerant"])


def test_a_node_with_a_pod_of_an_unknown_class_is_left_alone(victims):
    nodes = [make_node(name, cpu="1") for name in "ab"]
    assert victims(*nodes, placed("x", "a", 1, 10), placed("y", "b", 100, 10, "")) == ("b", ["y"])


def test_the_contract_holds():
    objects = [make_node("a", cpu="1"), priority_class(50, "200", "100"), placed("tolerant", "a", 50, 10)]
    check_contract(PreemptionToleration, objects=objects, pods=[make_pod("p", cpu="1", priority=100)], examples=10)

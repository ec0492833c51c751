"""PreemptionToleration: upstream's tables, victims that are spared, and the contract."""

import logging
from datetime import timedelta

import pytest
from recorded_scenarios import check, objects_of, recorded
from tests.support.tables import cases
from tests.support.vectors import vectors

from bayplan.answers.simulation.handle import OfflineHandle
from bayplan.core.api.kinds import PRIORITY_CLASS
from bayplan.core.api.objects import convert
from bayplan.core.api.times import rfc3339
from bayplan.core.config import parse_configuration
from bayplan.plugin import DefaultPreemptionArgs
from bayplan.testing import check_contract, make_cluster, make_node, make_pod
from bayplan_plugins.preemption_toleration import (
    MINIMUM,
    SECONDS,
    InvalidToleration,
    PreemptionToleration,
    toleration_of,
)

NAME = "tolerant"
CONFIGURATION = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - plugins: {postFilter: {enabled: [{name: PreemptionToleration}], disabled: [{name: "*"}]}}
"""


def priority_class(value, minimum=None, seconds=None, name=NAME):
    given = {MINIMUM: minimum, SECONDS: seconds}
    annotations = {key: text for key, text in given.items() if text is not None}
    return convert(PRIORITY_CLASS.type, {"metadata": {"name": name, "annotations": annotations}, "value": value})


def victim(priority, placed=None, name="victim", **fields):
    """A pod, placed so many seconds before the time of the cluster."""
    conditions = []
    if placed is not None:
        at = rfc3339(OfflineHandle(make_cluster().state).now() - timedelta(seconds=placed))
        conditions = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": at}]
    return make_pod(
        name,
        node="n",
        cpu="4",
        spec={"priorityClassName": NAME, "priority": priority},
        status={"conditions": conditions},
        **fields,
    )


@cases("case", vectors("preemption_toleration", "TestParsePreemptionTolerationPolicyToleration"))
def test_annotations_are_read(case):
    if "toleration" in case:
        found = toleration_of(priority_class(*case["class"]))
        assert [found.minimum, found.seconds] == case["toleration"]
    else:
        with pytest.raises(InvalidToleration, match="'a', expected an integer"):
            toleration_of(priority_class(*case["class"]))


@cases("case", vectors("preemption_toleration", "TestExemptedFromPreemption"))
def test_who_is_spared(case):
    there = [priority_class(*case["class"])] if "class" in case else []
    plugin = PreemptionToleration(OfflineHandle(make_cluster(*there).state), DefaultPreemptionArgs())
    spec = {"preemptionPolicy": "Never"} if case.get("never") else {}
    policy = plugin.victim_policy(make_pod("new", priority=case["preemptor"], spec=spec))
    assert policy.tolerates(victim(case["victim"], case.get("placed"))) is case["spared"]


@pytest.fixture
def cluster(tmp_path):
    path = tmp_path / "scheduler.yaml"
    path.write_text(CONFIGURATION, encoding="utf-8")

    def make(*objects):
        return make_cluster(make_node("n"), *objects, configuration=path)

    return make


def test_a_pod_that_tolerates_preemption_is_spared(cluster):
    made = cluster(priority_class(100, "200", "60"), victim(100, 30))
    decision = made.decide(make_pod("new", cpu="4", priority=150))
    assert decision.victims == ()
    why = "1 No victims found on node n for preemptor pod new."
    assert decision.message.endswith(f"preemption: 0/1 nodes are available: {why}")


@pytest.mark.parametrize(("placed", "priority"), [(61, 150), (30, 200)])
def test_a_pod_is_preempted_later_or_by_a_higher_priority(cluster, placed, priority):
    made = cluster(priority_class(100, "200", "60"), victim(100, placed))
    assert [each.name for each in made.decide(make_pod("new", cpu="4", priority=priority)).victims] == ["victim"]


def test_an_odd_annotation_is_told_once_and_costs_its_class_only(cluster, caplog):
    made = cluster(priority_class(100, "many"), victim(100))
    with caplog.at_level(logging.WARNING, "bayplan.preemptiontoleration"):
        for _ in range(2):
            assert made.decide(make_pod("new", cpu="4", priority=150)).nominated_node == "n"
    assert [record.getMessage() for record in caplog.records] == [
        f"PriorityClass tolerant: annotation {MINIMUM} is 'many', expected an integer; its pods tolerate no preemption"
    ]


def test_arguments_are_those_of_default_preemption():
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    args = {"kind": "PreemptionTolerationArgs", "minCandidateNodesPercentage": 101}
    with pytest.raises(
        ValueError, match=r"minCandidateNodesPercentage: Invalid value: 101: not in valid range \[0, 100\]"
    ):
        parse_configuration(
            head | {"profiles": [{"pluginConfig": [{"name": PreemptionToleration.name, "args": args}]}]}
        )


@pytest.mark.parametrize("each", recorded("preemption_toleration"), ids=lambda each: each["scenario"]["name"])
def test_a_recorded_scenario_is_decided_alike(each, tmp_path):
    path, scenario = tmp_path / "scheduler.yaml", each["scenario"]
    path.write_text(CONFIGURATION, encoding="utf-8")
    classes = [convert(PRIORITY_CLASS.type, priority_class) for priority_class in scenario["classes"]]
    check(scenario, each["decisions"], make_cluster(*objects_of(scenario), *classes, configuration=path))


def test_the_contract_holds():
    objects = [make_node("n"), priority_class(100, "200", "60"), victim(100, 30)]
    check_contract(PreemptionToleration, objects=objects, pods=[make_pod("p", cpu="4", priority=150)], examples=40)

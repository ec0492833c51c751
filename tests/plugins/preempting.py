"""Clusters to preempt in, for the tests of DefaultPreemption."""

import random

from lightkube.models.policy_v1 import PodDisruptionBudget

from bayplan.core.api.kinds import POD_DISRUPTION_BUDGET
from bayplan.core.api.objects import convert
from bayplan.core.scheduling.decision import Outcome
from bayplan.core.versions import DEFAULT_GATES
from bayplan.testing.builders import make_cluster, make_node, make_pod

LOW, MIDDLE, HIGH = 0, 100, 1000


def running(name, node, priority=LOW, cpu="1", started=None, **others):
    """A pod on a node. `started`: seconds after noon; None if it has not started."""
    status = {} if started is None else {"startTime": f"2026-01-01T12:00:{started:02}Z"}
    return make_pod(name, node=node, priority=priority, cpu=cpu, status=status | others.pop("status", {}), **others)


def budget(name, app, allowed=0, disrupted=(), namespace="default", selector=None):
    selector = {"matchLabels": {"app": app}} if selector is None else selector
    processed = dict.fromkeys(disrupted, "2026-01-01T00:00:00Z")
    document = {
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"selector": selector},
        "status": {"disruptionsAllowed": allowed, "disruptedPods": processed},
    }
    return convert(PodDisruptionBudget, document)


def cluster_of(*objects, cpu="2", nodes="ab", budgets=(), plugins=(), gates=DEFAULT_GATES):
    cluster = make_cluster(*(make_node(name, cpu=cpu) for name in nodes), *objects, plugins=plugins, gates=gates)
    for each in budgets:
        cluster.state.objects[POD_DISRUPTION_BUDGET].set(f"{each.metadata.namespace}/{each.metadata.name}", each)
    return cluster


def preempted(cluster, pod):
    """The node, and the names of the victims, most important first."""
    decision = cluster.decide(pod)
    assert decision.outcome is Outcome.UNSCHEDULABLE, decision
    return decision.nominated_node, [victim.name for victim in decision.victims]


def vip(cpu="2", priority=HIGH, **others):
    return make_pod("vip", cpu=cpu, priority=priority, **others)


class Rolls(random.Random):
    """A generator that returns fixed offsets."""

    def __init__(self, offset):
        super().__init__(0)
        self.offset = offset

    def randrange(self, *_):
        return self.offset


def labelled(app):
    return {"labels": {"app": app}}

"""Random queues, and which pods come first in them, by plugins of scheduler-plugins compiled for Kubernetes 1.35.4.

A scenario has queued pods with the seconds at which they were queued, and AppGroups. Upstream's answer is a table of
digits: whether the pod of a row comes before that of a column; p where it panics.
"""

from itertools import combinations

from recorded_scenarios import pod_of
from recorded_scores import alone, objects_of

from bayplan.core.api.kinds import POD
from bayplan.core.framework.profile import Point
from bayplan.testing import make_cluster
from bayplan_plugins.network_aware.groups import GROUP_LABEL


def differences(plugin, scenario, table, folder):
    """The pairs of pods that Bayplan orders otherwise: what it says, and what upstream says."""
    cluster = make_cluster(*objects_of(scenario), configuration=alone(plugin, scenario["args"], folder))
    pods = [pod_of(each["pod"]) for each in scenario["queue"]]
    for pod in pods:
        cluster.state.objects[POD].set(pod.key, pod)
    (sorts,) = cluster.profile.at(Point.QUEUE_SORT)
    keys = [sorts.sort_key(pod, float(each["at"])) for pod, each in zip(pods, scenario["queue"], strict=True)]
    for first, second in combinations(range(len(pods)), 2):
        ours = f"{keys[first] < keys[second]:d}{keys[second] < keys[first]:d}"
        theirs = table[first][second] + table[second][first]
        if ours != theirs and (plugin != "TopologicalSort" or is_order(pods[first], pods[second], theirs)):
            yield (scenario["queue"][first], scenario["queue"][second], ours), theirs


def is_order(first, second, theirs):
    """Whether TopologicalSort of upstream has an order of two pods that no third pod contradicts."""
    groups = {pod.labels.get(GROUP_LABEL, "") for pod in (first, second)}
    if len(groups) > 1:
        return first.priority != second.priority
    if groups == {""}:
        return True
    return first.priority == second.priority and theirs in {"01", "10"}

"""Random groups of pods, and what Coscheduling of scheduler-plugins, compiled for Kubernetes 1.35.4, says of them.

A scenario has PodGroups, nodes, pods that are bound and pods that are pending. Upstream's answer has steps: what
PreFilter says of a pod that it rejects; what PostFilter says of one that has no node; and how Permit ends for one that
has a node, and for those that wait. A pod that waits may also be unreserved, and a bound one may be removed. `less` is
the order of the pending pods afterwards, as in `recorded_queues.py`.
"""

import re
from datetime import timedelta
from itertools import combinations

from recorded_scenarios import pod_of
from recorded_scores import objects_of

from bayplan.answers.simulation.handle import OfflineHandle
from bayplan.core.api.kinds import NODE, POD
from bayplan.core.api.objects import convert
from bayplan.plugin import CycleState, Diagnosis, Status, Wait
from bayplan.testing import make_cluster
from bayplan_plugins.coscheduling.arguments import CoschedulingArgs
from bayplan_plugins.coscheduling.groups import key_of
from bayplan_plugins.coscheduling.plugin import Coscheduling


class Gangs:
    """The cluster of a scenario, and the plugin there."""

    def __init__(self, scenario):
        bound, pending = ([pod_of(each) for each in scenario[field]] for field in ("pods", "pending"))
        nodes = [convert(NODE.type, each) for each in scenario["nodes"]]
        self.state = make_cluster(*nodes, *bound, *objects_of(scenario)).state
        self.handle = OfflineHandle(self.state)
        self.handle.time += timedelta(days=1)  # after everything was created
        self.plugin = Coscheduling(self.handle, CoschedulingArgs(**scenario["args"]))
        self.pods = {pod.key: pod for pod in (*bound, *pending)}
        for pod in pending:
            self.state.objects[POD].set(pod.key, pod)

    def take(self, step):
        """Do what a step says. Returns it with what the plugin says."""
        self.handle.time += timedelta(seconds=1)
        pod, found = self.pods[step["pod"]], {field: step[field] for field in ("op", "pod", "node") if field in step}
        ask = {"preFilter": self.pre_filter, "postFilter": self.post_filter, "permit": self.permit}
        ask |= {"unreserve": self.unreserve, "remove": self.remove}
        said = ask[step["op"]](pod, step) | self.settle()
        return found | {field: value for field, value in said.items() if value or field == "said"}

    def pre_filter(self, pod, step):
        answer = self.plugin.pre_filter(CycleState(), pod, self.state.nodes)
        return {"said": "" if answer is None else gap(answer.message)}

    def post_filter(self, pod, step):
        refused = self.pre_filter(pod, step)
        if refused["said"]:
            return refused
        result = self.plugin.post_filter(CycleState(), pod, Diagnosis(1, absent=Status.unschedulable("full")), None)
        return {"said": result.status.message}

    def permit(self, pod, step):
        refused = self.pre_filter(pod, step)
        if refused["said"]:
            return refused
        assumed = self.state.assume(pod, step["node"])
        answer = self.plugin.permit(CycleState(), assumed, step["node"])
        if isinstance(answer, Wait):
            self.handle.waiting_pods.add(assumed, {self.plugin.name: answer.seconds})
            return {"said": "wait", "wait": answer.seconds}
        if answer is not None:
            self.drop(pod)
        return {"said": answer or "success"}

    def unreserve(self, pod, step):
        self.handle.waiting_pods.remove(pod.uid)
        self.drop(pod)
        return {"said": ""}

    def remove(self, pod, step):
        self.state.objects[POD].remove(pod.key)
        self.state.remove_pod(pod.uid)
        return {"said": ""}

    def drop(self, pod):
        self.state.forget(pod.uid)
        self.plugin.unreserve(CycleState(), pod, "")

    def settle(self):
        """Let the waiting pods go that are allowed or rejected."""
        gone = [each for each in self.handle.waiting_pods if each.status is not None]
        for each in gone:
            self.handle.waiting_pods.remove(each.pod.uid)
        rejected = [each.pod for each in gone if each.status.rejected]
        allowed = [each.pod for each in gone if not each.status.rejected]
        for pod in rejected:
            self.drop(self.pods[pod.key])
        return {"allowed": sorted(pod.key for pod in allowed), "rejected": sorted(pod.key for pod in rejected)}


def gap(message):
    """Of a message about missing resources, their names: upstream writes the amounts as Go has them in memory."""
    if not message.startswith("resource gap"):
        return message
    names = re.findall(r"[\w./-]+(?=:\{\{)", message) if "map[" in message else re.findall(r"[\w./-]+(?=: \d)", message)
    return f"resource gap: {', '.join(sorted(names))}"


def differences(plugin, scenario, answer, folder):
    """The steps, and the pairs of queued pods, of which Bayplan says something else; and what upstream says."""
    gangs = Gangs(scenario)
    for step in answer["steps"]:
        theirs = step | {"said": gap(step["said"])}
        if step["op"] == "postFilter" and key_of(gangs.pods[step["pod"]]) is None:
            theirs["said"] = ""  # upstream says of pods without a group that it can't find theirs
        ours = gangs.take(step)
        if ours != theirs:
            yield ours, theirs
            return
    pods = [gangs.pods[pod_of(each).key] for each in scenario["pending"]]
    keys = [gangs.plugin.sort_key(pod, 0.0) for pod in pods]
    for first, second in combinations(range(len(pods)), 2):
        ours = f"{keys[first] < keys[second]:d}{keys[second] < keys[first]:d}"
        theirs = answer["less"][first][second] + answer["less"][second][first]
        if ours != theirs:
            yield (pods[first].key, key_of(pods[first]), pods[second].key, key_of(pods[second]), ours), theirs

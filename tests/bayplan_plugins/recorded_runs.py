"""Random runs of gangs, and which pods kube-scheduler 1.35.4 with Coscheduling of scheduler-plugins had bound.

A run has steps, in each of which nodes, PodGroups and pods come, pods lose their gate, are deleted or finish. Seven
seconds later, it is looked which pods are bound. `acceptable` has what was seen then, in three runs. Which members of a
group are bound is left to chance, so their number is compared.
"""

import asyncio
from collections import Counter
from datetime import timedelta
from itertools import pairwise

from tests.support.stories import in_virtual_time, scheduling

from bayplan.core.api.kinds import NODE, POD
from bayplan.core.config import build_profiles, parse_configuration
from bayplan.plugin import POD_GROUP_LABEL, POD_GROUPS
from bayplan.testing.in_memory import load

GATE = {"name": "example.com/gate"}
EVERY = 7.0


def configuration(args):
    """As the manifests of scheduler-plugins have it: Coscheduling sorts, and is the only PostFilter plugin."""
    only = {"enabled": [{"name": "Coscheduling"}], "disabled": [{"name": "*"}]}
    plugins = {"multiPoint": {"enabled": [{"name": "Coscheduling"}]}, "queueSort": only, "postFilter": only}
    profile = {"schedulerName": "default-scheduler", "plugins": plugins}
    profile["pluginConfig"] = [{"name": "Coscheduling", "args": args}]
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    return parse_configuration({**head, "profiles": [profile]})


class GangRun:
    """The cluster of a run, in virtual time."""

    def __init__(self, here, begin):
        self.here, self.begin = here, begin
        self.client = here.client
        self.pods = {}

    async def take(self, what):
        """Do one thing."""
        ((name, given),) = what.items()
        await {
            "Node": self.node,
            "Group": self.group,
            "Pod": self.pod,
            "Ungate": self.ungate,
            "Delete": self.delete,
            "Finish": self.finish,
        }[name](given)

    def create(self, kind, document):
        """Create an object at once, so that the scheduler sees all pods of a step together."""
        load(self.client.server, {"apiVersion": kind.api_version, "kind": kind.kind, **document})

    async def node(self, given):
        room = {"cpu": str(given["Cpu"]), "memory": "64Gi", "pods": "110"}
        metadata = {"name": given["Name"], "labels": {"pool": given["Pool"]}}
        self.create(NODE, {"metadata": metadata, "status": {"allocatable": room, "capacity": room}})

    async def group(self, given):
        created = self.begin - timedelta(hours=1) + timedelta(seconds=given["Created"])
        spec = {"minMember": given["MinMember"]}
        spec |= {"minResources": {"cpu": str(given["Cpu"])}} if "Cpu" in given else {}
        spec |= {"scheduleTimeoutSeconds": given["Timeout"]} if "Timeout" in given else {}
        metadata = {"name": given["Name"], "namespace": "default", "creationTimestamp": f"{created:%Y-%m-%dT%H:%M:%SZ}"}
        load(self.client.server, (POD_GROUPS, {"metadata": metadata, "spec": spec}))

    async def pod(self, given):
        self.pods[given["Name"]] = given.get("Group") or given["Name"]
        labels = {POD_GROUP_LABEL: given["Group"]} if "Group" in given else {}
        containers = [{"name": "c", "image": "i", "resources": {"requests": {"cpu": str(given["Cpu"])}}}]
        spec = {"containers": containers, "terminationGracePeriodSeconds": 0, "priority": given["Priority"]}
        spec |= {"nodeSelector": {"pool": given["Pool"]}} if "Pool" in given else {}
        spec |= {"schedulingGates": [GATE]} if given.get("Gated") else {}
        self.create(POD, {"metadata": {"name": given["Name"], "labels": labels}, "spec": spec})

    async def ungate(self, name):
        await self.client.patch(POD, name, {"spec": {"schedulingGates": []}}, "default")

    async def delete(self, name):
        await self.client.delete(POD, name, "default")

    async def finish(self, name):
        await self.client.patch(POD, name, {"status": {"phase": "Succeeded"}}, "default", subresource="status")
        self.pods.pop(name)  # it is no pod of the scheduler any more

    def bound(self):
        return sorted(name for name in self.here.nodes() if name in self.pods)


def looks(run):
    """Which pods are bound after each step, here; and the group, or the name, of each pod."""

    async def story():
        parsed = configuration(run["Args"])
        found, clock = [], asyncio.get_running_loop()
        other = (POD_GROUPS, {"metadata": {"name": "other", "namespace": "default"}, "spec": {"minMember": 1}})
        async with scheduling(other, build=lambda handle: build_profiles(parsed, handle)) as here:
            gangs = GangRun(here, clock.now())
            groups = gangs.pods
            for step in run["Steps"]:
                for before, what in pairwise([{}, *step["Do"]]):
                    if "Pod" in what and "Pod" not in before:
                        await asyncio.sleep(0.3)  # each kind has a watch of its own
                    await gangs.take(what)
                    groups = {**groups, **gangs.pods}
                await asyncio.sleep(EVERY)
                found.append(gangs.bound())
        return found, groups

    return in_virtual_time(story())


def counted(bound, groups):
    """How many pods of each group are bound; a pod without one is its own."""
    return dict(sorted(Counter(groups[name] for name in bound).items()))

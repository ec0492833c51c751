"""Random stories of NodeResourceTopologyMatch and SySched: agents tell what the zones of their nodes have left.

Their topologies have fingerprints of the pods that they counted. They see pods run before or after the scheduler does.
"""

import asyncio
from dataclasses import replace

from tests.bayplan_plugins.numa_clusters import topology
from tests.bayplan_plugins.test_redacted_plugins import MARK, configuration, profile

from bayplan.client import kind_of
from bayplan.core.api.kinds import NODE, POD
from bayplan.core.config import parse_configuration
from bayplan_plugins.node_resource_topology.fingerprints import fingerprint
from bayplan_plugins.node_resource_topology.plugin import NodeResourceTopologyMatch
from bayplan_plugins.node_resource_topology.topologies import (
    FINGERPRINT,
    FINGERPRINT_ANNOTATION,
    FINGERPRINT_METHOD,
    TOPOLOGIES,
)

OF_NODES = replace(kind_of(TOPOLOGIES), namespaced=False)
PROFILES = "seccompprofiles.v1beta1.security-profiles-operator.x-k8s.io"
ANNOTATION = "seccomp.security.alpha.kubernetes.io"
GPU = "example.com/gpu"
ROOM = {"cpu": 4, "memory": 2**34, GPU: 2}


def drawn_arguments(rng):
    """Arguments of NodeResourceTopologyMatch: with one of its three caches."""
    strategy = rng.choice(["LeastAllocated", "MostAllocated", "BalancedAllocation", "LeastNUMANodes"])
    found = {"scoringStrategy": {"type": strategy, "resources": [{"name": "cpu", "weight": 1}]}}
    kind = rng.choice(["passthrough", "discard", "over", "over"])
    if kind == "discard":
        found["discardReservedNodes"] = True
    if kind == "over":
        cache = {
            "foreignPodsDetect": rng.choice(["All", "None", "OnlyExclusiveResources"]),
            "resyncMethod": rng.choice(["Autodetect", "All"]),
            "informerMode": rng.choice(["Dedicated", "Shared"]),
            "resyncScope": rng.choice(["All", "OnlyResources"]),
        }
        preempting = rng.choice(["Enabled", "Disabled"])
        found |= {"cacheResyncPeriodSeconds": 5, "cache": cache, "preemptionMode": preempting}
    return found


class Agents:
    """The agents and the kubelets of a cluster. `rng` chooses what they do, and how late they are."""

    def __init__(self, here, rng):
        self.here, self.rng = here, rng
        self.running = {}
        """node -> pod -> its requests"""
        self.told = {name: self.rng.choice(["attribute", "annotation", "exclusive", "none"]) for name in self.names()}

    def names(self):
        return [f"{MARK}-n{number}" for number in range(3)]

    def topology(self, name):
        """What the agent of a node tells now."""
        pods, zones = self.running.get(name, {}), [dict(ROOM), dict(ROOM)]
        for number, wanted in enumerate(pods.values()):
            for resource, amount in wanted.items():
                zones[number % 2][resource] = max(zones[number % 2][resource] - amount, 0)
        exclusive = [pod for pod, wanted in pods.items() if wanted.get("cpu", 0) or wanted.get(GPU, 0)]
        how = self.told[name]
        hashed = fingerprint(("default", pod) for pod in (exclusive if how == "exclusive" else pods))
        attributes = {FINGERPRINT: hashed} if how in {"attribute", "exclusive"} else {}
        attributes |= {FINGERPRINT_METHOD: "with-exclusive-resources"} if how == "exclusive" else {}
        annotations = {FINGERPRINT_ANNOTATION: hashed} if how == "annotation" else {}
        shown = [{"available": {each: str(amount) for each, amount in zone.items()}} for zone in zones]
        return topology(name, shown, attributes=attributes, annotations=annotations)

    async def tell(self, name):
        document = self.topology(name)
        changes = {field: document[field] for field in ("attributes", "zones")}
        annotations = document["metadata"].get("annotations", {})
        await self.here.client.patch(OF_NODES, name, changes | {"metadata": {"annotations": annotations}})

    async def start(self, name, node, wanted):
        """A kubelet starts a pod; its agent may tell that before the scheduler sees the pod run."""
        early = self.rng.random() < 0.4
        self.running.setdefault(node, {})[name] = wanted
        if early and self.rng.random() < 0.8:
            await self.tell(node)
        await self.here.client.patch(POD, name, {"status": {"phase": "Running"}}, "default", subresource="status")
        if not early and self.rng.random() < 0.8:
            await self.tell(node)

    async def stop(self, name, node):
        """A pod goes, and its agent tells that before or after."""
        del self.running[node][name]
        early = self.rng.random() < 0.5
        if early:
            await self.tell(node)
        await self.here.client.delete(POD, name, "default")
        if not early and self.rng.random() < 0.8:
            await self.tell(node)


def drawn_pod(rng, number):
    """A pod with its requests: guaranteed or not, with seccomp profiles in its spec or in annotations."""
    wanted = rng.choice([{}, {"cpu": 1}, {"cpu": 2}, {"cpu": 3}, {"cpu": 1, GPU: 1}, {GPU: 1}])
    amounts = {each: str(amount) for each, amount in (wanted | {"memory": 2**30}).items()}
    resources = {"requests": amounts, "limits": amounts} if wanted else {"requests": {"cpu": "100m"}}
    container = {"name": f"{MARK}-c", "image": "i", "resources": resources}
    metadata, spec = {"name": f"{MARK}-p{number}"}, {"containers": [container], "terminationGracePeriodSeconds": 0}
    path = f"operator/default/{MARK}-{rng.choice('xyz')}.json"
    where = rng.choice(["pod", "container", "annotation", "annotations", ""])
    if where == "pod":
        spec["securityContext"] = {"seccompProfile": {"type": "Localhost", "localhostProfile": path}}
    elif where == "container":
        container["securityContext"] = {"seccompProfile": {"type": "Localhost", "localhostProfile": path}}
    elif where:
        metadata["annotations"] = {f"container.{ANNOTATION}/{MARK}-c": f"localhost/{path}"}
    if where == "annotations":
        metadata["annotations"][f"container.{ANNOTATION}/b-{MARK}"] = f"localhost/operator/default/{MARK}-x.json"
    if rng.random() < 0.15:
        spec |= {"schedulerName": "other", "nodeName": f"{MARK}-n{rng.randrange(3)}"}
    return {"metadata": metadata, "spec": spec}, wanted


def drawn_story(rng):
    """A configuration, the objects that are there already, and a story that returns how many pods were placed."""
    plugins = {"multiPoint": {"enabled": [{"name": "NodeResourceTopologyMatch"}, {"name": "SySched", "weight": 50}]}}
    parsed = parse_configuration(configuration(plugins, {"NodeResourceTopologyMatch": drawn_arguments(rng)}))
    profiles = [(PROFILES, profile(name, *calls)) for name, calls in zip("xyz", ("ab", "bcd", "e"), strict=True)]

    async def story(here):
        agents = Agents(here, rng)
        for name in agents.names():
            room = {"cpu": "8", "memory": "32Gi", "pods": "20", GPU: "4"}
            labels = {"kubernetes.io/hostname": name}
            await here.create(
                NODE, {"metadata": {"name": name, "labels": labels}, "status": {"allocatable": room, "capacity": room}}
            )
            await agents.tell(name)
        started = {}
        for number in range(30):
            document, wanted = drawn_pod(rng, number)
            await here.create(POD, document)
            await asyncio.sleep(rng.choice([0, 0.1, 1, 15]))
            bound = here.nodes()
            for name, node in bound.items():
                if name not in started and rng.random() < 0.7:
                    started[name] = node
                    await agents.start(name, node, wanted if name == document["metadata"]["name"] else {"cpu": 1})
            if started and rng.random() < 0.3:
                name = rng.choice(sorted(started))
                await agents.stop(name, started.pop(name))
        await here.settle()
        return len(here.nodes())

    names = [f"{MARK}-n{number}" for number in range(3)]
    topologies = [*NodeResourceTopologyMatch.definitions()]
    topologies += [(TOPOLOGIES, topology(name, [{"available": {"cpu": "4"}}])) for name in names]
    return parsed, (*profiles, *topologies), story

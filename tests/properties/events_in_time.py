"""Random events in the time of a running scheduler: its cluster, its slow API server and its slow selectors."""

import asyncio
from contextlib import suppress

import msgspec
from tests.support.slow_selectors import slow_selectors
from tests.support.stories import scheduling

from bayplan.client import ApiError
from bayplan.core.api.kinds import DEVICE_CLASS, NODE, POD, PRIORITY_CLASS, RESOURCE_CLAIM, RESOURCE_SLICE
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.framework.calling import call
from bayplan.core.framework.pod_run import PodRun
from bayplan.testing.builders import make_cluster, make_node
from bayplan.testing.documents import typed
from bayplan.testing.in_memory import stored
from bayplan_devcluster.apiserver.faults import Fault
from bayplan_devcluster.in_memory import InMemoryClient

HOSTNAME, DRIVER = "kubernetes.io/hostname", "drv.example.com"
NAMES = ["n0", "n1", "n2", "n3"]
API = "resource.k8s.io/v1"
KINDS = NODE, POD, RESOURCE_CLAIM, RESOURCE_SLICE, DEVICE_CLASS
PRIORITIES = {"lowest": 0, "low": 10, "middle": 100, "high": 1000, "never": 1000}
MODEL = f"device.attributes['{DRIVER}'].model"
SELECTORS = {
    "any": f"device.driver == '{DRIVER}'",
    "slow": f"{MODEL} != '' && device.attributes['{DRIVER}'].index >= 0",
    "a": f"{MODEL} == 'a'",
}
"""By the name of their class. The slow one reads what differs between devices, so that it runs for each of them."""
RESTING = 12.0
"""Seconds after which every backoff has expired."""


class Events:
    """Makes events, one after the other. `user` is the client of everything but the scheduler."""

    def __init__(self, rng, here, user):
        self.rng, self.here, self.user = rng, here, user
        self.server = user.server
        self.number = 0
        self.progress = 0.0
        self.with_claims = rng.choice([0.0, 0.0, 0.2, 0.8])
        self.slow_verbs = rng.choice([["delete"], ["delete", "patch"], ["delete", "patch", "create"], ["create"], []])
        self.with_grace = rng.choice([0.2, 0.9])

    async def run(self, length):
        """The classes, some nodes, and a number of random events with pauses."""
        await self.prepare()
        usual = self.usual()
        weights = [weight * self.rng.choice([0.3, 1, 2]) for weight in usual.values()]
        pauses = self.rng.choice([[0, 0.01, 0.05, 0.3], [0.05, 0.3, 1.0, 3.0], [0, 0, 0.3, 1.0, RESTING]])
        for number in range(length):
            self.progress = number / length
            if self.rng.random() < 0.1:
                self.change_delays()
            event = self.rng.choices(list(usual), weights)[0]
            with suppress(ApiError):  # another event was quicker
                await event()
            await asyncio.sleep(self.rng.choice(pauses))
        await self.rest()

    async def prepare(self):
        """The classes, and some nodes."""
        for name, expression in SELECTORS.items():
            spec = {"selectors": [{"cel": {"expression": expression}}]}
            await self.user.create(DEVICE_CLASS, {"metadata": {"name": name}, "spec": spec})
        for name, value in PRIORITIES.items():
            policy = "Never" if name == "never" else "PreemptLowerPriority"
            await self.user.create(
                PRIORITY_CLASS, {"metadata": {"name": name}, "value": value, "preemptionPolicy": policy}
            )
        self.change_delays()
        for name in NAMES[: self.rng.randint(1, 3)]:
            await self.add_node(name)

    def usual(self):
        """Each event, and how often it happens."""
        return {
            self.add_pod: 12,
            self.add_pods: 3,
            self.delete_pod: 4,
            self.delete_nominated_pod: 4,
            self.finish_deletion: 6,
            self.change_node: 1,
            self.change_slice: 3,
            self.open_gate: 2,
        }

    async def rest(self):
        """Let everything end that has begun."""
        self.here.client.transport.faults.clear()
        calm = 0
        while calm < 3:
            await asyncio.sleep(RESTING)
            calm = 0 if self.terminating() else calm + 1
            for pod in self.terminating():
                await self.finish(pod)

    # Pods

    async def add_pods(self):
        """Several at once, which compete."""
        for _ in range(self.rng.randint(2, 4)):
            await self.add_pod()

    async def add_pod(self):
        rng, self.number = self.rng, self.number + 1
        name, containers = f"p{self.number}", {"name": "c", "image": "i"}
        requests = {"cpu": rng.choice(["500m", "1", "1", "2", "2"])}
        spec = {"terminationGracePeriodSeconds": 30 if rng.random() < self.with_grace else 0}
        if rng.random() < self.with_claims:
            await self.user.create(RESOURCE_CLAIM, _claim(name, rng.choice(list(SELECTORS)), rng.choice([1, 1, 2])))
            spec["resourceClaims"] = [{"name": "d", "resourceClaimName": name}]
            requests = {"cpu": "100m"}
        if rng.random() < 0.3:
            spec["nodeSelector"] = {HOSTNAME: rng.choice(NAMES)}
        if rng.random() < 0.15:
            containers["ports"] = [{"containerPort": 80, "hostPort": rng.choice([8080, 8081])}]
        if rng.random() < 0.08:
            spec["schedulingGates"] = [{"name": "example.com/gate"}]
        spec["priorityClassName"] = list(PRIORITIES)[min(int(3 * rng.random() + 2.5 * self.progress), 4)]
        containers["resources"] = {"requests": requests}
        await self.here.create(POD, {"metadata": {"name": name}, "spec": {**spec, "containers": [containers]}})

    async def delete_pod(self):
        """A running pod, one that preempts, or one that is preempted: any."""
        if pods := stored(self.server, POD):
            metadata = self.rng.choice(pods)["metadata"]
            await self.user.delete(POD, metadata["name"], "default")
            await self.drop_unused_claims()

    async def delete_nominated_pod(self):
        """One that preempts, or has preempted."""
        nominated = [pod for pod in stored(self.server, POD) if pod["status"].get("nominatedNodeName")]
        pending = [pod for pod in nominated if not pod["spec"].get("nodeName")]
        if pending:
            await self.user.delete(POD, self.rng.choice(pending)["metadata"]["name"], "default")
            await self.drop_unused_claims()

    async def finish_deletion(self):
        """The kubelet has ended a pod."""
        if pods := self.terminating():
            await self.finish(self.rng.choice(pods))

    async def finish(self, pod):
        with suppress(ApiError):
            await self.user.delete(POD, pod["metadata"]["name"], "default", grace_period_seconds=0)
        await self.drop_unused_claims()

    def terminating(self):
        return [pod for pod in stored(self.server, POD) if pod["metadata"].get("deletionTimestamp")]

    async def drop_unused_claims(self):
        """The controller of claims: they go with their pods."""
        pods = {pod["metadata"]["name"] for pod in stored(self.server, POD)}
        for claim in stored(self.server, RESOURCE_CLAIM):
            name = claim["metadata"]["name"]
            if name not in pods:
                with suppress(ApiError):
                    unused = {"status": {"allocation": None, "reservedFor": None}}
                    await self.user.patch(RESOURCE_CLAIM, name, unused, "default", subresource="status")
                    await self.user.patch(RESOURCE_CLAIM, name, {"metadata": {"finalizers": None}}, "default")
                    await self.user.delete(RESOURCE_CLAIM, name, "default")

    async def open_gate(self):
        gated = [pod for pod in stored(self.server, POD) if pod["spec"].get("schedulingGates")]
        if gated:
            name = self.rng.choice(gated)["metadata"]["name"]
            await self.user.patch(POD, name, {"spec": {"schedulingGates": None}}, "default")

    # What pods need

    async def add_node(self, name):
        node = make_node(name, cpu=self.rng.choice(["2", "4"]))
        await self.here.create(NODE, msgspec.to_builtins(node))
        if self.rng.random() < 0.7:
            await self.add_slice(name)

    async def change_node(self):
        name = self.rng.choice(NAMES)
        nodes = {node["metadata"]["name"]: node for node in stored(self.server, NODE)}
        if name not in nodes:
            await self.add_node(name)
        elif self.rng.random() < 0.6:
            await self.user.patch(NODE, name, {"spec": {"unschedulable": not nodes[name]["spec"].get("unschedulable")}})
        else:
            await self.user.delete(NODE, name)
            for pod in stored(self.server, POD):  # the garbage collector of pods
                if pod["spec"].get("nodeName") == name:
                    await self.finish(pod)

    async def change_slice(self):
        name = self.rng.choice(NAMES)
        if any(each["metadata"]["name"] == name for each in stored(self.server, RESOURCE_SLICE)):
            await self.user.delete(RESOURCE_SLICE, name)
        else:
            await self.add_slice(name)

    async def add_slice(self, node):
        devices = [
            {"name": f"d{at}", "attributes": {"model": {"string": self.rng.choice("ab")}, "index": {"int": at}}}
            for at in range(self.rng.randint(1, 3))
        ]
        pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": devices}
        await self.user.create(RESOURCE_SLICE, {"metadata": {"name": node}, "spec": spec})

    def change_delays(self):
        """From now on, the API server takes its time for requests of the scheduler."""
        faults = self.here.client.transport.faults
        faults.clear()
        for verb in self.slow_verbs:
            faults.add(Fault(verb=verb, resource="pods", delay=self.rng.choice([0.1, 1.0, 2.0, 5.0])))


def _claim(name, device_class, count):
    exactly = {"deviceClassName": device_class, "allocationMode": "ExactCount", "count": count}
    return {"metadata": {"name": name}, "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}}


async def story(rng, length):
    """Run random events, and return what is wrong: what lower priorities took, and who waits for nothing at rest."""
    async with scheduling() as here:
        with slow_selectors(asyncio.get_running_loop(), rng.choice([0.001, 0.03, 0.06, 0.2])):
            taken = watch_placements(here.scheduler)
            async with InMemoryClient(here.client.server) as user:
                await Events(rng, here, user).run(length)
        return [*taken, *_waiting_for_nothing(here)]


def watch_placements(scheduler):
    """Note the pods that take what a pod of higher priority could use whose attempt began before."""
    taken = []
    executor, queue, state = scheduler._executor, scheduler.queue, scheduler.state
    place = executor._assume

    def checked(queued, decision, times):
        pod = decision.pod
        above = [
            each.pod
            for each in queue
            if each.place.value == "in-flight"
            and each.uid not in queue.unit
            and state.pod(each.uid) is None
            and executor._known(each) is not None
            and each.pod.priority > pod.priority
        ]
        able = [each for each in above if fits(scheduler, each)]
        placed = place(queued, decision, times)
        taken.extend(
            f"pod {pod.name} of priority {pod.priority} takes what {each.name} of priority {each.priority} could use"
            for each in able
            if not fits(scheduler, each)
        )
        return placed

    executor._assume = checked
    return taken


def fits(scheduler, pod):
    """Whether a node is feasible for a pod now."""
    profile, state = scheduler.profiles[pod.scheduler_name], scheduler.state
    run = PodRun.start(profile, state, pod, call, lambda error, _: None)
    if run.pre_filter().refusal is not None:
        return False
    return bool(len(run.filter(state.nodes).feasible()))


def _waiting_for_nothing(here):
    """At rest, the pods that a new scheduler would place, or let preempt others."""
    objects = {kind: [typed(kind, each) for each in stored(here.client.server, kind)] for kind in KINDS}
    pods = [PodInfo(each) for each in objects.pop(POD)]
    cluster = make_cluster(*(each for found in objects.values() for each in found), *(p for p in pods if p.node_name))
    pending = [pod for pod in pods if not pod.node_name]
    for pod in pending:
        cluster.state.objects[POD].set(pod.key, pod)
        if pod.nominated_node_name:
            cluster.state.nominations.add(pod, pod.nominated_node_name)
    for pod in pending:
        if pod.scheduling_gates:
            continue
        decision = cluster.decide(pod)
        queued = here.scheduler.queue.get(pod.uid)
        if decision.node or (decision.victims and _may_preempt(pod, queued)):
            what = f"be placed on {decision.node}" if decision.node else f"preempt {[v.name for v in decision.victims]}"
            where = None if queued is None else (queued.place, queued.gating_plugin, queued.message)
            yield f"pod {pod.name} could {what}, but is {where}"


def _may_preempt(pod, queued):
    """Whether it is known when preemption may help a pod: events are those of the plugins that rejected it.

    Where victims have to be gone *and* devices or ports to become free, kube-scheduler misses events of the latter.
    """
    ports = any(port.hostPort for container in pod.spec.containers for port in container.ports or ())
    return (queued is not None and queued.gated) or not (pod.spec.resourceClaims or ports)

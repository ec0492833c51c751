"""Pods that a change places where they may stay for a time only: they tolerate a NoExecute taint for so many seconds.

The rest of what-if shows the cluster when all pods have been placed. These pods are evicted after that; those of
workloads are created again, and may be placed there again, for as long as the taint stays.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from lightkube.models.core_v1 import Taint
from lightkube.models.resource_v1 import DeviceTaint

from bayplan.answers.insight.questions.device_evictions import DeviceEvictions
from bayplan.answers.simulation.owners import is_replaced
from bayplan.answers.simulation.world import World
from bayplan.answers.snapshots import Snapshot
from bayplan.core.api.kinds import DEVICE_TAINT_RULE, NODE, POD, RESOURCE_CLAIM, RESOURCE_SLICE
from bayplan.core.api.tolerations import NO_EXECUTE, tolerated_seconds
from bayplan.core.cluster.pod_info import PodInfo


@dataclass(frozen=True, slots=True)
class ToleratedForATime:
    """A pod that is placed and would be evicted after some seconds.

    `where`: the node or the device that has the taint. `again`: whether the pod is created again then.
    """

    pod: str
    seconds: float
    taint: str
    where: str
    again: bool

    def __str__(self) -> str:
        then = " and created again" if self.again else ""
        limit = f"only for {self.seconds:g} s" if self.seconds else "no longer"
        return (
            f"{self.pod} would be evicted {_after(self.seconds)}{then}: "
            f"it tolerates the NoExecute taint {self.taint} of {self.where} {limit}"
        )


def tolerated_for_a_time(world: World, before: Snapshot, after: Snapshot) -> Iterator[ToleratedForATime]:
    """Yield the pods of a world, with their soonest eviction, that weren't where they are in the snapshot `before`.

    `after`: the changed snapshot, which the world holds with its pending pods placed.
    """
    tainted = _evicting_nodes(world)
    kinds = RESOURCE_SLICE, DEVICE_TAINT_RULE
    has_devices = bool(world.state.objects[RESOURCE_CLAIM]) and any(after.of_kind(kind) for kind in kinds)
    if not tainted and not has_devices:
        return
    devices = DeviceEvictions(world, after) if has_devices else None
    known = before.of_kind(POD)
    for pod in world.state.objects[POD].values():
        if pod.node_name and not pod.terminating:
            taints = tainted.get(pod.node_name, ())
            found = list(_evictions(world, pod, taints, devices))
            if found and pod.raw is not known.get(pod.key):
                yield ToleratedForATime(pod.key, *min(found), again=is_replaced(pod))


def _evicting_nodes(world: World) -> dict[str, list[Taint]]:
    """The nodes with NoExecute taints, and these."""
    nodes = world.state.nodes
    if not nodes.tainted:
        return {}
    rows = np.flatnonzero(nodes.live & nodes.taints_where(lambda taints: any(each[2] == NO_EXECUTE for each in taints)))
    known = ((name, world.state.objects[NODE][name]) for name in map(nodes.name, rows.tolist()))
    return {name: [each for each in node.spec.taints if each.effect == NO_EXECUTE] for name, node in known}


def _evictions(
    world: World, pod: PodInfo, taints: Sequence[Taint], devices: DeviceEvictions | None
) -> Iterator[tuple[float, str, str]]:
    """Yield in how many seconds a pod is evicted, by which taint, and of what."""
    spec = pod.object.spec if taints else None
    if spec is not None:
        tolerations = spec.tolerations or ()
        for taint in taints:
            seconds = tolerated_seconds([taint], tolerations)
            if math.isfinite(seconds):
                yield seconds, _text(taint), f"node {pod.node_name}"
    if devices is not None:
        for each in devices.of(pod):
            seconds = max((each.at - world.handle.time).total_seconds(), 0.0)
            yield seconds, _text(each.taint), f"device {each.device}"


def _text(taint: Taint | DeviceTaint) -> str:
    return f"{taint.key}={taint.value}" if taint.value else str(taint.key)


def _after(seconds: float) -> str:
    return f"after {seconds:g} s" if seconds else "at once"

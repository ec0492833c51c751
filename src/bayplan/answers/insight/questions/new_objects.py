"""New objects of a world: claims that controllers bind, and pods that no scheduler decides."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from bayplan.answers.simulation import volumes
from bayplan.answers.simulation.results import Fate, Result
from bayplan.answers.simulation.world import World
from bayplan.answers.snapshots.documents import identify
from bayplan.core.api.kinds import NODE, PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, STORAGE_CLASS
from bayplan.core.api.objects import Document
from bayplan.core.api.suggestions import did_you_mean
from bayplan.core.api.volumes import (
    NO_PROVISIONER,
    WAIT_FOR_FIRST_CONSUMER,
    claim_name,
    class_of_claim,
    full_name,
    is_bound_to,
    is_fully_bound,
    volume_name,
)
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.expansion.volume_matching import best_match, mismatch


def add_objects(world: World, documents: Iterable[Document]) -> None:
    """Add objects to the world, and bind claims that don't wait for a pod: new ones, and others to new volumes."""
    claims, new_volumes = [], False
    for document in documents:
        kind, key, raw = identify(document)
        world.add(kind, key, raw)
        new_volumes |= kind is PERSISTENT_VOLUME
        if kind is PERSISTENT_VOLUME_CLAIM:
            claims.append(key)
    for key in list(world.state.objects[PERSISTENT_VOLUME_CLAIM]) if new_volumes else claims:
        bind_immediately(world, key)


def bind_claims(world: World, pod: PodInfo) -> None:
    """Bind those claims of a pod that exist and don't wait for a pod."""
    for volume in pod.volumes:
        key = f"{pod.namespace}/{claim_name(pod.name, volume)}"
        if key in world.state.objects[PERSISTENT_VOLUME_CLAIM]:
            bind_immediately(world, key)


def bind_immediately(world: World, key: str) -> None:
    """Bind a claim as the volume controller does if that doesn't wait for a pod.

    It gets a volume that matches; else its storage class provisions one.
    """
    objects = world.state.objects
    claim = objects[PERSISTENT_VOLUME_CLAIM][key]
    if is_fully_bound(claim):
        return
    storage_class = objects[STORAGE_CLASS].get(class_of_claim(claim))
    waits = storage_class is not None and storage_class.volumeBindingMode == WAIT_FOR_FIRST_CONSUMER
    known = objects[PERSISTENT_VOLUME]
    static = _named_volume(claim, known) if volume_name(claim) else best_match(claim, known.values(), delayed=waits)
    if static is not None:
        volume, bound = volumes.bound(volumes.claimed(static, claim), claim)
        world.change(PERSISTENT_VOLUME, full_name(volume), volume)
        world.change(PERSISTENT_VOLUME_CLAIM, key, bound)
        return
    if volume_name(claim) or storage_class is None or storage_class.provisioner == NO_PROVISIONER:
        return
    if not waits:
        volume, bound = volumes.provisioned(claim, objects)
        world.change(PERSISTENT_VOLUME, full_name(volume), volume)
        world.change(PERSISTENT_VOLUME_CLAIM, key, bound)


def _named_volume(claim: Any, known: Mapping[str, Any]) -> Any:
    """The volume that a claim names, if the claim may have it. Mirrors syncUnboundClaim of pv_controller.go."""
    volume = known.get(volume_name(claim))
    if volume is None or mismatch(volume, claim) is not None:
        return None
    return volume if volume.spec.claimRef is None or is_bound_to(volume, claim) else None


def given(world: World, pod: PodInfo) -> Result:
    """The result of a pod that no profile of the world schedules."""
    if pod.node_name and world.state.nodes.position(pod.node_name) is None:
        message = (
            f"spec.nodeName is {pod.node_name}, and there is no such node: the pod garbage collector deletes the pod"
        )
        return Result(pod, Fate.PENDING, message=f"{message}{did_you_mean(pod.node_name, world.state.objects[NODE])}")
    if pod.node_name:
        return Result(pod, Fate.PLACED, pod.node_name, message=f"spec.nodeName is {pod.node_name}")
    message = f"no scheduler here has the pod's schedulerName {pod.scheduler_name!r}"
    return Result(pod, Fate.PENDING, message=message)

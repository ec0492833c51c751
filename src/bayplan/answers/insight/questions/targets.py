"""The pods that a question about the future means: one pod, the pending ones of a workload or a gang, or all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

import msgspec

from bayplan.answers.insight.answers import QuestionError, listed
from bayplan.answers.insight.owners import WORKLOADS, kind_called, others_called, owned_by
from bayplan.answers.insight.questions.admission import AskedWorkload, pods_of_workload
from bayplan.answers.insight.questions.kueue_objects import QueuedObject
from bayplan.answers.insight.questions.new_objects import add_objects
from bayplan.answers.simulation.owners import workload_of
from bayplan.answers.simulation.world import World
from bayplan.answers.snapshots import Snapshot
from bayplan.answers.snapshots.documents import identify
from bayplan.core.api.coscheduling import POD_GROUP_LABEL
from bayplan.core.api.kinds import COMPOSITE_POD_GROUP, POD, POD_GROUP, WORKLOAD, Kind, custom_kind
from bayplan.core.api.pod_groups import COMPOSITES, POD_GROUPS
from bayplan.core.api.times import rfc3339
from bayplan.core.cluster.group_trees import GroupTrees
from bayplan.core.cluster.objects import ObjectStore
from bayplan.core.cluster.pod_groups import pod_group_of
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.expansion.expansion import Expansion

Pods = Mapping[str, PodInfo]


def named(reference: str, namespace: str) -> tuple[str, str, str]:
    """Return the type, the namespace and the name in `NAME`, `NAMESPACE/NAME`, `TYPE/NAME` or `TYPE/NAMESPACE/NAME`.

    The type is `pod` where none is given, or the first part is none.
    """
    parts = reference.split("/")
    if not all(parts) or len(parts) > 3:
        raise QuestionError(f"{reference}: expected a pod or TYPE/NAME, as in web-0 or job/train")
    typed = len(parts) > 1 and kind_of_target(parts[0].lower()) is not None
    kind = parts.pop(0).lower() if typed else "pod"
    if len(parts) > 2:
        raise QuestionError(f"{reference}: {parts[0]} is no type; expected a pod or TYPE/NAME, as in job/train")
    return kind, parts[0] if len(parts) == 2 else namespace, parts[-1]


def existing(
    world: World, snapshot: Snapshot, what: str, namespace: str, pod_of: Callable[[str], PodInfo]
) -> tuple[str, list[PodInfo]]:
    """Return the name for people and the pods of what a reference names. Raises QuestionError if there are none.

    `pod_of`: returns the pod `namespace/name`.
    """
    kind, space, name = named(what, namespace)
    if kind_called(kind) is not POD:
        return _members(world, snapshot, kind, space, name)
    pod = pod_of(f"{space}/{name}")
    return f"pod {pod.key}", [pod]


def admission_asked(snapshot: Snapshot, what: str, namespace: str, pods: Sequence[PodInfo]) -> AskedWorkload | None:
    """Return the Workload of Kueue that a reference is about and that isn't admitted; None if there is none."""
    if not what:
        return None
    kind_name, space, name = named(what, namespace)
    kind = kind_of_target(kind_name)
    return AskedWorkload.of(snapshot, QueuedObject("" if kind is None else kind.kind, space, name), pods)


def _members(world: World, snapshot: Snapshot, kind_name: str, namespace: str, name: str) -> tuple[str, list[PodInfo]]:
    """Return the name for people of a workload or a group of pods, and its pods, ordered by name.

    Raises QuestionError if there is none, or it has no pods, unless Kueue doesn't admit it.
    """
    pods: Pods = world.state.objects[POD]
    kind, key = kind_of_target(kind_name), f"{namespace}/{name}"
    if kind in {POD_GROUP, COMPOSITE_POD_GROUP, WORKLOAD}:
        groups = {key} if kind is POD_GROUP else set(_groups_of_workload(snapshot, namespace, name))
        groups = _groups_in(world, key) if kind is COMPOSITE_POD_GROUP else groups
        queued = pods_of_workload(snapshot, key, pods.values()) if kind is WORKLOAD else []
        found = sorted([*queued, *(pod for pod in pods.values() if _group_of(pod) in groups)], key=lambda pod: pod.key)
        hint = ""
    elif kind in WORKLOADS:
        found = owned_by(snapshot, pods, kind, namespace, name)
        hint = others_called(snapshot, pods, kind, namespace, name)
    else:
        kinds = ", ".join(each.singular for each in (*WORKLOADS, POD_GROUP, COMPOSITE_POD_GROUP, WORKLOAD))
        raise QuestionError(f"{kind_name}/{name}: expected a pod, or one of {kinds}")
    if not found and admission_asked(snapshot, f"{kind_name}/{key}", namespace, ()) is None:
        raise QuestionError(f"there is no {kind.singular} {key} with pods in {snapshot.title}{hint}")
    return f"{kind.singular} {key}", found


def created(world: World, expansion: Expansion) -> tuple[str, list[PodInfo]]:
    """Add what manifests lead to, created after all else. Return a name for people, and the new pods.

    Raises QuestionError if there are none, or only controllers know them.
    """
    if expansion.unknown and not expansion.pods:
        raise QuestionError(
            f"only their controllers know the pods of {listed(expansion.unknown)}: pass the pods themselves, or the "
            "workloads that the controllers make"
        )
    if not expansion.pods:
        raise QuestionError("the manifests have no pods; expected a pod or a workload")
    add_objects(world, expansion.objects)
    now = rfc3339(world.handle.time + timedelta(seconds=1))
    keys = []
    for document in expansion.pods:
        kind, key, raw = identify({**document, "metadata": {**document["metadata"], "creationTimestamp": now}})
        if world.pod(key) is not None:
            raise QuestionError(f"pod {key} exists already")
        world.add(kind, key, raw)
        keys.append(key)
    pods = [pod for pod in map(world.pod, keys) if pod is not None]
    title = f"pod {keys[0]}" if len(keys) == 1 else "the manifests"
    workloads = dict.fromkeys(filter(None, map(workload_of, pods)))
    return next(iter(workloads)) if len(workloads) == 1 else title, pods


def _group_of(pod: PodInfo) -> str | None:
    """Return `namespace/name` of the group of a pod, by its spec or by the label of the coscheduling plugin."""
    label = pod.labels.get(POD_GROUP_LABEL)
    return pod_group_of(pod) or (f"{pod.namespace}/{label}" if label else None)


def _groups_of_workload(snapshot: Snapshot, namespace: str, name: str) -> Iterator[str]:
    """Yield the keys of the PodGroups that were made for a Workload of Kubernetes."""
    for key, raw in snapshot.of_kind(custom_kind(POD_GROUPS)).items():
        if key.startswith(f"{namespace}/") and name.encode() in raw:
            spec: dict[str, Any] = msgspec.json.decode(raw).get("spec") or {}
            template = spec.get("podGroupTemplateRef") or {}
            reference = spec.get("workloadRef") or template.get("workload") or {}
            if reference.get("workloadName") == name:
                yield key


def _groups_in(world: World, composite: str) -> set[str]:
    """Return the keys of the PodGroups below a CompositePodGroup, at any level."""
    copies = []
    for kind in (POD_GROUPS, COMPOSITES):
        copies.append(ObjectStore())
        for key, group in world.state.objects[custom_kind(kind)].items():
            copies[-1].set(key, group)
    trees = GroupTrees(*copies)
    return {key for key in trees.pod_groups if composite in trees.path(key).above}


def kind_of_target(name: str) -> Kind | None:
    """Return the kind of what may be asked about that is called so; None if there is none."""
    versioned = (POD_GROUP, COMPOSITE_POD_GROUP, WORKLOAD)
    return kind_called(name) or next((kind for kind in versioned if name in {kind.singular, kind.plural}), None)

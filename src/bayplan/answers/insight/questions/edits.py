"""Hypothetical changes of a cluster: nodes that come, go or change, workloads that scale, objects that are added.

    edited(world, snapshot, changes).snapshot      # another snapshot, made by `Snapshot.but`

what-if, the page's basket and the changes of serve's transactions come here; the world then moves to the changed
snapshot, which costs as much as the difference. What controllers do then is in `following.py`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from bayplan.answers.insight.answers import QuestionError, first_line, listed, plural
from bayplan.answers.insight.limits import AdditionLimit
from bayplan.answers.insight.owners import WORKLOADS, kind_called, newest_replica_set, others_called, owned_by
from bayplan.answers.insight.questions.draft import Draft
from bayplan.answers.insight.questions.following import let_controllers_follow
from bayplan.answers.insight.questions.node_changes import (
    add_nodes,
    change_nodes,
    cordon,
    label,
    remove_node,
    taint,
    taints_without,
    uncordon,
)
from bayplan.answers.insight.questions.portable import Patch, PortableChange, checked, patched
from bayplan.answers.insight.questions.request_changes import RequestChange, plan_requests
from bayplan.answers.insight.questions.rolling_out import ComingPods
from bayplan.answers.simulation.owners import controller_of
from bayplan.answers.simulation.world import World
from bayplan.answers.snapshots import Snapshot
from bayplan.answers.snapshots.documents import identify
from bayplan.core.api import kinds
from bayplan.core.api.kinds import Kind
from bayplan.core.api.objects import encode
from bayplan.core.api.status import StatusError
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.expansion.expansion import Expansion
from bayplan.foundations.lazy import on_use

with on_use():
    from bayplan.core.expansion import scale_down, stateful_pods


NOT_READY = "node.kubernetes.io/not-ready"
_SCALE = re.compile(r"([^/=]+)/([^/=]+)=([0-9]{1,30})")
_SCALABLE = (kinds.DEPLOYMENT, kinds.REPLICA_SET, kinds.REPLICATION_CONTROLLER, kinds.STATEFUL_SET)


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """Changes of a cluster. They are made in the order of these fields; each entry is written as for `bayplan what-if`.

    Nodes are given by name, or by a label selector such as `pool=web`. Pods of removed nodes, pods that a NoExecute
    taint of a node or a device evicts, and deleted pods are created again by their controllers, without a node; pods
    without a controller are gone. Pods that are being deleted have been replaced already: to delete one is to force its
    deletion. DaemonSets get and lose pods as their nodes change, and pods that a quota refused are created if it allows
    them now.
    """

    remove_nodes: Sequence[str] = ()
    """Nodes."""
    add_nodes: Sequence[str] = ()
    """`3xlike:node-a`: new nodes with the labels, taints and size of another one, and the pods of its DaemonSets. They
    are called `node-a-new-1` and so on."""
    uncordon: Sequence[str] = ()
    """Nodes."""
    cordon: Sequence[str] = ()
    """Nodes."""
    labels: Sequence[tuple[str, str]] = ()
    """A node, and `key=value`, or `key-` to remove the label."""
    taints: Sequence[tuple[str, str]] = ()
    """A node, and `key=value:Effect` or `key:Effect`; with `-` at the end, or as `key-`, to remove the taint."""
    delete_pods: Sequence[str] = ()
    """Pods: `namespace/name`, or a name in `namespace`."""
    scale: Sequence[str] = ()
    """`deployment/web=40`; also ReplicaSets, ReplicationControllers and StatefulSets, in `namespace`."""
    objects: Iterable[Mapping[str, Any]] = ()
    """Objects, as documents, with the pods of new workloads. Those that exist are changed as by `kubectl apply`, and
    changed workloads are rolled out as their strategy says."""
    requests: Sequence[Mapping[str, Any]] = ()
    """Recommendations, as documents (see `bayplan.answers.insight.recommendations`): what containers request then."""
    scale_requests: Sequence[str] = ()
    """`deployment/web=0.7`, or `web=0.7`: cpu and memory of all containers of a workload times that, in `namespace`."""
    portable: Sequence[PortableChange] = ()
    """Changes of single objects, such as those that `explain` has found to help."""
    replace_all: bool = False
    """Whether placed pods are placed anew, but for those of DaemonSets, static pods and pods of other schedulers."""
    namespace: str = "default"

    def __bool__(self) -> bool:
        return any(getattr(self, field.name) for field in fields(self) if field.name != "namespace")


@dataclass(frozen=True, slots=True)
class Edited:
    """A changed snapshot. `steps` describes the changes; `new_claims` are the keys of claims that may be bound now.

    `coming`: the rollouts of changed workloads, which a world that holds the snapshot carries out (`rolling_out.py`).
    `requests`: the changes of requests that were made. `problems`: recommendations that can't be used.
    `replaces_all`: whether all pods are placed anew.
    """

    snapshot: Snapshot
    steps: tuple[str, ...]
    new_claims: tuple[str, ...]
    coming: ComingPods
    requests: tuple[RequestChange, ...] = ()
    problems: tuple[str, ...] = ()
    replaces_all: bool = False


def edited(
    world: World,
    snapshot: Snapshot,
    changes: Changes,
    seed: int = 0,
    room: AdditionLimit | None = None,
    requests_of: Container[str] | None = None,
) -> Edited:
    """Return the snapshot with the changes. `world` holds the snapshot, and `room` is what may be created.

    `requests_of`: the workloads whose requests change, as in `deployment shop/web`, if not all. Raises QuestionError
    for impossible changes, and LimitError.
    """
    draft = Draft(world, snapshot, room or AdditionLimit(), seed)
    for node in changes.remove_nodes:
        change_nodes(draft, "remove node", node, remove_node)
    for text in changes.add_nodes:
        add_nodes(draft, text)
    for node in changes.uncordon:
        change_nodes(draft, "uncordon", node, uncordon)
    for node in changes.cordon:
        change_nodes(draft, "cordon", node, cordon)
    for node, text in changes.labels:
        change_nodes(draft, "label", node, label, text)
    for node, text in changes.taints:
        change_nodes(draft, "taint", node, taint, text)
    editor = _Editor(draft, changes.namespace)
    for pod in changes.delete_pods:
        editor.delete_pod(pod)
    for text in changes.scale:
        editor.scale(text)
    editor.add_objects(changes.objects)
    editor.change_requests(changes.requests, changes.scale_requests, requests_of)
    for change in changes.portable:
        editor.change_objects(change)
    let_controllers_follow(draft, snapshot)
    if changes.replace_all:
        draft.steps.append("place all pods anew")
    return Edited(
        snapshot=draft.snapshot,
        steps=tuple(draft.steps),
        new_claims=editor.claims_to_bind(),
        coming=draft.coming,
        requests=editor.requested[0],
        problems=editor.requested[1],
        replaces_all=changes.replace_all,
    )


class _Editor:
    """Changes pods, workloads and other objects of a draft."""

    def __init__(self, draft: Draft, namespace: str) -> None:
        self._draft = draft
        self._namespace = namespace
        self._changed: list[tuple[Kind, str]] = []
        """The objects that manifests and other changes have added or changed."""
        self.requested: tuple[tuple[RequestChange, ...], tuple[str, ...]] = ((), ())
        """The changes of requests that were made, and the recommendations that can't be used."""

    def delete_pod(self, given: str) -> None:
        """Delete a pod; its controller creates another one."""
        name = given.removeprefix("pod/")
        key = name if "/" in name else f"{self._namespace}/{name}"
        pod = self._draft.world.pod(key)
        if pod is None or key not in self._draft.snapshot.of_kind(kinds.POD):
            raise QuestionError(f"there is no pod {key} to delete")
        self._draft.evict([pod])
        self._draft.steps.append(f"{'force-delete' if pod.terminating else 'delete'} pod {key}")

    def scale(self, text: str) -> None:
        """Change the number of a workload's pods."""
        match = _SCALE.fullmatch(text)
        kind = kind_called(match[1]) if match is not None else None
        if match is None or kind not in _SCALABLE:
            types = ", ".join(scalable.singular for scalable in _SCALABLE)
            raise QuestionError(f"scale {text}: expected TYPE/NAME=NUMBER, as in deployment/web=40; TYPE is {types}")
        name, number = match[2], int(match[3])
        document = self._draft.snapshot.document(kind, f"{self._namespace}/{name}")
        if document is None:
            placed = self._draft.world.state.objects[kinds.POD]
            hint = others_called(self._draft.snapshot, placed, kind, self._namespace, name)
            raise QuestionError(f"scale {text}: there is no {kind.singular} {self._namespace}/{name}{hint}")
        pods = [pod for pod in self._owned(kind, name) if not pod.terminating]
        self._draft.room.check(f"scale {text}", pods=number - len(pods))
        document["spec"]["replicas"] = number
        self._draft.change(document)
        if kind is kinds.STATEFUL_SET:
            start = (document["spec"].get("ordinals") or {}).get("start", 0)
            self._draft.remove([pod for pod in pods if stateful_pods.parent_and_ordinal(pod.name)[1] >= start + number])
        elif number < len(pods):
            objects = [pod.object for pod in pods]
            doomed = {pod.metadata.name for pod in scale_down.scale_down_order(objects, objects)[: len(pods) - number]}
            self._draft.remove([pod for pod in pods if pod.name in doomed])
            if kind is kinds.DEPLOYMENT:
                self._count_fewer(pod for pod in pods if pod.name in doomed)
        elif kind is kinds.DEPLOYMENT and (newest := newest_replica_set(self._draft.snapshot, document["metadata"])):
            newest["spec"]["replicas"] = (newest["spec"].get("replicas") or 0) + number - len(pods)
            self._draft.change(newest)
        refused = self._add_missing(kind, document) if number > len(pods) or kind is kinds.STATEFUL_SET else ""
        self._draft.steps.append(
            f"scale {kind.singular} {self._namespace}/{name} from {len(pods)} to {number}{refused}"
        )

    def _owned(self, kind: Kind, name: str) -> list[PodInfo]:
        pods = owned_by(self._draft.snapshot, self._draft.world.state.objects[kinds.POD], kind, self._namespace, name)
        return [pod for pod in pods if pod.key in self._draft.snapshot.of_kind(kinds.POD)]

    def _count_fewer(self, gone: Iterable[PodInfo]) -> None:
        """Let the ReplicaSets of a Deployment want fewer pods."""
        owners = Counter(
            f"{pod.namespace}/{owner.name}"
            for pod in gone
            if (owner := controller_of(pod)) is not None and owner.kind == kinds.REPLICA_SET.kind
        )
        for key, number in owners.items():
            document = self._draft.snapshot.document(kinds.REPLICA_SET, key)
            if document is not None:
                document["spec"]["replicas"] = max((document["spec"].get("replicas") or 0) - number, 0)
                self._draft.change(document)

    def _add_missing(self, kind: Kind, document: dict[str, Any]) -> str:
        """Add the pods that a workload lacks. Returns what to add to the step if the API server refuses some."""
        expansion = self._draft.manifests().missing(kind, document)
        self._changed += self._draft.add(expansion)
        refused = expansion.refused_pods
        return f" ({plural(len(refused), 'pod')} refused: {refused[0].message})" if refused else ""

    def add_objects(self, objects: Iterable[Mapping[str, Any]]) -> None:
        """Add objects with the pods of workloads. Workloads that exist are changed."""
        new, known, steps = list[Mapping[str, Any]](), list[Mapping[str, Any]](), list[str]()
        for document in objects:
            prefix = (document.get("metadata") or {}).get("generateName")
            named = document if not prefix else {**document, "metadata": {"name": prefix, **document["metadata"]}}
            kind, key, _ = identify(named)
            exists = key in self._draft.snapshot.of_kind(kind)
            steps.append(f"{'change' if exists else 'add'} {kind.singular} {key}")
            (known if exists and kind in {kinds.POD, *WORKLOADS} else new).append(document)
        not_run = self._create(new) if new else []
        refused = self._apply(known) if known else []
        self._draft.steps += [*steps, *refused, *not_run]

    def _apply(self, documents: Sequence[Mapping[str, Any]]) -> list[str]:
        """Change pods and workloads that exist. Returns which pods the API server refuses."""
        made = self._draft.manifests()
        expansion = made.deploy(documents, jobs=False)
        for refused in expansion.refused:
            raise QuestionError(f"{refused.what}: {first_line(refused.message)}")
        return self.roll_out(expansion)

    def roll_out(self, expansion: Expansion) -> list[str]:
        """Change workloads that exist. Returns which of their pods the API server refuses."""
        for rollout in expansion.rollouts:
            old = (self._draft.world.pod(key) for key in rollout.old)
            self._count_fewer(pod for pod in old if pod is not None)
        self._changed += self._draft.roll_out(expansion)
        refused = expansion.refused_pods
        return [f"({plural(len(refused), 'pod')} refused: {refused[0].message})"] if refused else []

    def change_requests(
        self, documents: Sequence[Mapping[str, Any]], scale: Sequence[str], only: Container[str] | None
    ) -> None:
        """Let the containers of workloads request what is recommended, and times a factor."""
        if not (documents or scale):
            return
        draft, pods = self._draft, self._draft.world.state.objects[kinds.POD]
        plan = plan_requests(draft.snapshot, pods, documents, scale, self._namespace)
        made, problems, refused = [], list(plan.problems), list[str]()
        server = draft.manifests()
        for change in plan.changes:
            if only is not None and change.workload not in only:
                continue
            try:
                refused += self.roll_out(server.edit(change.kind, change.after)) if change.text else []
                made.append(change)
            except StatusError as error:
                problems.append(f"{change.workload}: the API server refuses the change: {first_line(error.message)}")
        if not plan.changes and problems and only is None:
            more = f", and {len(problems) - 1:,} more" if len(problems) > 1 else ""
            raise QuestionError(f"{problems[0]}{more}")
        names = [change.workload for change in made if change.text]
        draft.steps += [f"change the requests of {listed(names, 3)}"] if names else []
        draft.steps += refused
        self.requested = tuple(made), tuple(problems)

    def change_objects(self, change: PortableChange) -> None:
        """Make a change of single objects. Raises QuestionError if one of them is gone, or isn't valid then."""
        size = sum(len(encode(document)) for document in change.new)
        self._draft.room.count(change.text, objects=len(change.new), memory=size)
        steps = [*self._draft.steps, change.text]
        if change.like:
            (name,) = add_nodes(self._draft, f"like:{change.like}")
            node = Patch(kinds.NODE.kind, (name,), change.node)
        for patch in (*change.patches, *([node] if change.like else [])):
            self._draft.room.count(change.text, objects=len(patch.keys), memory=len(patch.keys) * len(encode(patch)))
            self._draft.snapshot = self._draft.snapshot.but(change=list(self._patched(patch)))
        for document in change.new:
            kind, key, _ = identify(checked(document))
            self._draft.put(kind, key, document)
            self._changed.append((kind, key))
        for key in change.delete:
            self.delete_pod(key)
        self._draft.steps = steps

    def _patched(self, patch: Patch) -> Iterator[dict[str, Any]]:
        for kind, key, document in patched(self._draft.snapshot, patch):
            self._draft.room.progress(f"change {kind.singular} {key}")
            self._changed.append((kind, key))
            yield document

    def claims_to_bind(self) -> tuple[str, ...]:
        """The keys of claims that controllers may bind now: new and changed ones; all, if there are other volumes."""
        if any(kind is kinds.PERSISTENT_VOLUME for kind, _ in self._changed):
            return tuple(self._draft.snapshot.of_kind(kinds.PERSISTENT_VOLUME_CLAIM))
        return tuple(key for kind, key in self._changed if kind is kinds.PERSISTENT_VOLUME_CLAIM)

    def _create(self, documents: Sequence[Mapping[str, Any]]) -> Sequence[str]:
        """Add what manifests lead to, as far as it doesn't exist. Returns the rules about nodes that aren't run."""
        expansion = self._draft.manifests().expand(documents)
        for document in expansion.objects:
            if identify(document)[0] is kinds.NODE:  # a new node of an API server isn't ready
                document["spec"]["taints"] = taints_without(document, NOT_READY)
        self._changed += self._draft.add(expansion)
        return expansion.not_run

"""Hypothetical changes of a cluster: nodes that come, go or change, workloads that scale, objects that are added."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import msgspec

from bayplan.api.kinds import (
    CSI_NODE,
    DEPLOYMENT,
    NODE,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    REPLICA_SET,
    REPLICATION_CONTROLLER,
    RESOURCE_CLAIM,
    RESOURCE_SLICE,
    STATEFUL_SET,
    VOLUME_ATTACHMENT,
    Kind,
)
from bayplan.api.labels import InvalidSelector, label_key_errors, label_value_errors, parse_label_selector
from bayplan.api.objects import encode
from bayplan.api.tolerations import NO_EXECUTE, NO_SCHEDULE, PREFER_NO_SCHEDULE, UNSCHEDULABLE_TAINT, tolerate
from bayplan.cluster.pod_info import PodInfo
from bayplan.devices.claims import is_made_for, key_of
from bayplan.framework.remedies import is_daemon
from bayplan.insight.answers import QuestionError, listed, plural
from bayplan.insight.limits import Room
from bayplan.insight.owners import WORKLOADS, kind_called, newest_replica_set, owned_by
from bayplan.insight.questions.documents import copy_of_node, pending_copy, pod_document
from bayplan.insight.questions.node_groups import attached_objects
from bayplan.insight.questions.portable import Patch, PortableChange, checked, patched
from bayplan.insight.snapshot import Snapshot
from bayplan.insight.sources.documents import identify
from bayplan.simulation.claims import claims_of, is_for_extended_resources
from bayplan.simulation.world import World

NOT_READY = "node.kubernetes.io/not-ready"
_ADD_NODES = re.compile(r"(?:([1-9][0-9]{0,29})x)?like:(.+)")
_SCALE = re.compile(r"([^/=]+)/([^/=]+)=([0-9]{1,30})")
_EFFECTS = (NO_SCHEDULE, PREFER_NO_SCHEDULE, NO_EXECUTE)
_SCALABLE = (DEPLOYMENT, REPLICA_SET, REPLICATION_CONTROLLER, STATEFUL_SET)


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """Changes of a cluster. They are made in the order of these fields; each entry is written as for `bayplan what-if`.

    Nodes are given by name, or by a label selector such as `pool=web`. Pods of removed nodes, pods that a NoExecute
    taint evicts, and deleted pods are created again by their controllers, without a node; pods without a controller are
    gone, and pods of DaemonSets go with their node.
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
    """New objects, as documents, with the pods of workloads. Other objects that exist are replaced."""
    portable: Sequence[PortableChange] = ()
    """Changes of single objects, such as those that `explain` has found to help."""
    replace_all: bool = False
    """Whether placed pods are placed anew, but for those of DaemonSets, static pods and pods of other schedulers."""
    namespace: str = "default"

    def __bool__(self) -> bool:
        return any(getattr(self, field.name) for field in fields(self) if field.name != "namespace")


@dataclass(frozen=True, slots=True)
class Edited:
    """A changed snapshot. `steps` describes the changes; `new_claims` are the keys of claims that may be bound now."""

    snapshot: Snapshot
    steps: tuple[str, ...]
    new_claims: tuple[str, ...]


def edited(world: World, snapshot: Snapshot, changes: Changes, seed: int = 0, room: Room | None = None) -> Edited:
    """Return the snapshot with the changes. `world` holds the snapshot, and `room` is what may be created.

    Raises QuestionError for impossible changes, and LimitError.
    """
    editor = _Editor(world, snapshot, changes.namespace, seed, room or Room())
    for node in changes.remove_nodes:
        editor.each_node("remove node", node, editor.remove_node)
    for text in changes.add_nodes:
        editor.add_nodes(text)
    for node in changes.uncordon:
        editor.each_node("uncordon", node, editor.uncordon)
    for node in changes.cordon:
        editor.each_node("cordon", node, editor.cordon)
    for node, text in changes.labels:
        editor.each_node("label", node, editor.label, text)
    for node, text in changes.taints:
        editor.each_node("taint", node, editor.taint, text)
    for pod in changes.delete_pods:
        editor.delete_pod(pod)
    for text in changes.scale:
        editor.scale(text)
    editor.add_objects(changes.objects)
    for change in changes.portable:
        editor.change_objects(change)
    if changes.replace_all:
        editor.steps.append("place all pods anew")
    return Edited(editor.snapshot, tuple(editor.steps), editor.claims_to_bind())


class _Editor:
    """Changes a snapshot step by step. `world` holds the snapshot as it was before."""

    def __init__(self, world: World, snapshot: Snapshot, namespace: str, seed: int, room: Room) -> None:
        self.snapshot = snapshot
        self.steps: list[str] = []
        self._changed: list[tuple[Kind, str]] = []
        """The objects that manifests and other changes have added or changed."""
        self._world = world
        self._namespace = namespace
        self._seed = seed
        self._room = room
        self._created = world.handle.time.strftime("%Y-%m-%dT%H:%M:%SZ")
        """When the pods are created: after all those of the snapshot."""

    # Nodes

    def each_node(self, verb: str, given: str, change: Callable[..., None], *text: str) -> None:
        """Call `change` with each node that is meant by a name or a selector, and with `text`."""
        given = given.removeprefix("node/")
        names = self._nodes(given)
        for name in names:
            self._room.progress(f"{verb} {name}")
            change(name, *text)
        count = f"({plural(len(names), 'node')})" if names != [given] else ""
        self.steps.append(" ".join(filter(None, (verb, given, *text, count))))

    def _nodes(self, given: str) -> list[str]:
        known = self.snapshot.of_kind(NODE)
        if given in known:
            return [given]
        if not re.search(r"[=!,()\s]", given):
            names = sorted(name for name in known if given in name)
            raise QuestionError(f"there is no node {given}{f'; there is {listed(names)}' if names else ''}")
        try:
            selector = parse_label_selector(given)
        except InvalidSelector as error:
            raise QuestionError(f"{given}: expected a node or a label selector: {error}") from None
        found = [name for name in known if selector.matches(self._node(name)["metadata"].get("labels") or {})]
        if not found:
            raise QuestionError(f"no node has the labels {given}")
        return sorted(found)

    def _node(self, name: str) -> dict[str, Any]:
        document = self.snapshot.document(NODE, name)
        assert document is not None
        document["spec"] = document.get("spec") or {}
        return document

    def remove_node(self, name: str) -> None:
        """Remove a node with what depends on it; the controllers of its pods create them again."""
        gone = [(NODE, name)] + ([(CSI_NODE, name)] if name in self.snapshot.of_kind(CSI_NODE) else [])
        for kind in (RESOURCE_SLICE, VOLUME_ATTACHMENT):
            for key, raw in self.snapshot.of_kind(kind).items():
                if name.encode() in raw and self._spec(kind, key).get("nodeName") == name:
                    gone.append((kind, key))
        self.snapshot = self.snapshot.but(remove=gone)
        self._evict([pod for pod in self._pods_on(name) if not is_daemon(pod)])
        self._remove_pods([pod for pod in self._pods_on(name) if is_daemon(pod)])

    def _spec(self, kind: Kind, key: str) -> Mapping[str, Any]:
        return (self.snapshot.document(kind, key) or {}).get("spec") or {}

    def _pods_on(self, name: str) -> Sequence[PodInfo]:
        """The pods that the node has in the original snapshot, and that still exist."""
        position = self._world.state.nodes.position(name)
        pods = () if position is None else self._world.state.nodes.pods(position)
        return [pod for pod in pods if pod.key in self.snapshot.of_kind(POD)]

    def add_nodes(self, text: str) -> list[str]:
        """Add nodes like another one of the original snapshot. Returns their names."""
        match = _ADD_NODES.fullmatch(text)
        if match is None:
            raise QuestionError(f"{text}: expected the number of new nodes and one that they are like: 3xlike:node-a")
        count, like = int(match[1] or 1), match[2]
        position = self._world.state.nodes.position(like)
        if position is None:
            raise QuestionError(f"{text}: there is no node {like}")
        node, known = self._world.state.nodes.info(position), self.snapshot.of_kind(NODE)
        one = copy_of_node(node)
        size = sum(len(msgspec.json.encode(document)) for document in one)
        self._room.take(text, nodes=count, pods=count * (len(one) - 1), memory=count * size)
        free = (name for number in range(1, 10**9) if (name := f"{like}-new-{number}") not in known)
        names = [next(free) for _ in range(count)]
        added = [[*copy_of_node(node, name), *attached_objects(self._world, like, name)] for name in names]
        self.snapshot = self.snapshot.but(add=[document for documents in added for document in documents])
        self.steps.append(f"add {plural(count, 'node')} like {like}")
        return names

    def cordon(self, name: str) -> None:
        """Cordon a node, with the taint that the node lifecycle controller adds."""
        node = self._node(name)
        taint = {"key": UNSCHEDULABLE_TAINT, "effect": NO_SCHEDULE}
        node["spec"]["unschedulable"] = True
        node["spec"]["taints"] = [*_without(node, UNSCHEDULABLE_TAINT), taint]
        self._change(node)

    def uncordon(self, name: str) -> None:
        """Uncordon a node."""
        node = self._node(name)
        node["spec"].pop("unschedulable", None)
        node["spec"]["taints"] = _without(node, UNSCHEDULABLE_TAINT)
        self._change(node)

    def label(self, name: str, text: str) -> None:
        """Add, change or remove a label."""
        node = self._node(name)
        labels = node["metadata"]["labels"] = dict(node["metadata"].get("labels") or {})
        key, equals, value = text.partition("=")
        if not equals and key.endswith("-"):
            key = key[:-1]
            labels.pop(key, None)
        elif equals:
            labels[key] = value
        else:
            raise QuestionError(f"label {text}: expected KEY=VALUE, or KEY- to remove the label")
        _check(f"label {text}", key, value)
        self._change(node)

    def taint(self, name: str, text: str) -> None:
        """Add or remove a taint. Pods that don't tolerate a NoExecute taint are evicted, whatever their timeout."""
        node = self._node(name)
        given, _, effect = text.removesuffix("-").partition(":")
        key, _, value = given.partition("=")
        _check(f"taint {text}", key, value)
        if (effect or not text.endswith("-")) and effect not in _EFFECTS:
            raise QuestionError(f"taint {text}: expected KEY=VALUE:EFFECT with an effect of {', '.join(_EFFECTS)}")
        node["spec"]["taints"] = _without(node, key, effect)
        if not text.endswith("-"):
            node["spec"]["taints"].append({"key": key, "effect": effect, **({"value": value} if value else {})})
        self._change(node)
        if effect == NO_EXECUTE and not text.endswith("-"):
            taint = (key, value, effect)
            evicted = [pod for pod in self._pods_on(name) if not tolerate(pod.tolerations, taint)]
            self._remove_pods([pod for pod in evicted if is_daemon(pod)])
            self._evict([pod for pod in evicted if not is_daemon(pod)])

    def _change(self, document: Mapping[str, Any]) -> None:
        self.snapshot = self.snapshot.but(change=[document])

    # Pods

    def delete_pod(self, given: str) -> None:
        """Delete a pod; its controller creates another one."""
        name = given.removeprefix("pod/")
        key = name if "/" in name else f"{self._namespace}/{name}"
        pod = self._world.pod(key)
        if pod is None or key not in self.snapshot.of_kind(POD):
            raise QuestionError(f"there is no pod {key} to delete")
        self._evict([pod])
        self.steps.append(f"delete pod {key}")

    def _evict(self, pods: Sequence[PodInfo]) -> None:
        """Remove pods. Those with a controller are created again, with the names that they had."""
        kept = [pod for pod in pods if any(owner.controller for owner in pod.metadata.ownerReferences or ())]
        self._release_claims(pods)
        self.snapshot = self.snapshot.but(
            remove=[(POD, pod.key) for pod in pods if pod not in kept],
            change=[self._created_now(pod_document(pending_copy(pod))) for pod in kept],
        )

    def _remove_pods(self, pods: Sequence[PodInfo]) -> None:
        self._release_claims(pods)
        self.snapshot = self.snapshot.but(remove=[(POD, pod.key) for pod in pods])

    def _created_now(self, document: dict[str, Any]) -> dict[str, Any]:
        document["metadata"]["creationTimestamp"] = self._created
        return document

    def _release_claims(self, pods: Iterable[PodInfo]) -> None:
        """Free the devices of pods: claims without any other user are no longer allocated.

        The claims of templates stay, because the pods that are created again have the same names.
        """
        for pod in pods:
            for claim in claims_of(self._world, pod):
                key = key_of(claim)
                document = self.snapshot.document(RESOURCE_CLAIM, key)
                if document is None:
                    continue
                if is_for_extended_resources(self._world, pod, claim):
                    self.snapshot = self.snapshot.but(remove=[(RESOURCE_CLAIM, key)])
                    continue
                status = document["status"]
                left = [each for each in status.get("reservedFor") or () if each["uid"] != pod.uid]
                status["reservedFor"] = left
                if not left or is_made_for(claim, pod.uid):
                    status.pop("allocation", None)
                self.snapshot = self.snapshot.but(change=[document])

    # Workloads and other objects

    def scale(self, text: str) -> None:
        """Change the number of a workload's pods."""
        from bayplan.devcluster.controllers.replicaset import scale_down_order

        match = _SCALE.fullmatch(text)
        kind = kind_called(match[1]) if match is not None else None
        if match is None or kind not in _SCALABLE:
            kinds = ", ".join(each.singular for each in _SCALABLE)
            raise QuestionError(f"scale {text}: expected TYPE/NAME=NUMBER, as in deployment/web=40; TYPE is {kinds}")
        name, number = match[2], int(match[3])
        document = self.snapshot.document(kind, f"{self._namespace}/{name}")
        if document is None:
            raise QuestionError(f"scale {text}: there is no {kind.singular} {self._namespace}/{name}")
        pods = [pod for pod in self._owned(kind, name) if not pod.terminating]
        self._room.check(f"scale {text}", pods=number - len(pods))
        document["spec"]["replicas"] = number
        self.snapshot = self.snapshot.but(change=[document])
        if kind is STATEFUL_SET:
            self._scale_stateful_set(document, pods)
        elif number < len(pods):
            objects = [pod.object for pod in pods]
            doomed = {pod.metadata.name for pod in scale_down_order(objects, objects)[: len(pods) - number]}
            self._remove_pods([pod for pod in pods if pod.name in doomed])
        else:
            template = newest_replica_set(self.snapshot, document["metadata"]) if kind is DEPLOYMENT else None
            template = template or document
            self._create([{**template, "spec": {**template["spec"], "replicas": number - len(pods)}}])
        self.steps.append(f"scale {kind.singular} {self._namespace}/{name} from {len(pods)} to {number}")

    def _owned(self, kind: Kind, name: str) -> list[PodInfo]:
        pods = owned_by(self._world.state.objects[POD], kind, self._namespace, name)
        return [pod for pod in pods if pod.key in self.snapshot.of_kind(POD)]

    def _scale_stateful_set(self, document: Mapping[str, Any], pods: Sequence[PodInfo]) -> None:
        from bayplan.devcluster.controllers.stateful_pods import parent_and_ordinal

        start = (document["spec"].get("ordinals") or {}).get("start", 0)
        end = start + document["spec"]["replicas"]
        self._remove_pods([pod for pod in pods if parent_and_ordinal(pod.name)[1] >= end])
        self._create([document])

    def add_objects(self, objects: Iterable[Mapping[str, Any]]) -> None:
        """Add objects with the pods of workloads."""
        documents = list(objects)
        steps = []
        for document in documents:
            prefix = (document.get("metadata") or {}).get("generateName")
            named = document if not prefix else {**document, "metadata": {"name": prefix, **document["metadata"]}}
            kind, key, _ = identify(named)
            steps.append(f"add {kind.singular} {key}")
            if kind in {POD, *WORKLOADS} and key in self.snapshot.of_kind(kind):
                hint = "; to change the number of its pods, use scale" if kind in _SCALABLE else ""
                raise QuestionError(f"{kind.singular} {key} exists already{hint}")
        self._create(documents)
        self.steps += steps

    def change_objects(self, change: PortableChange) -> None:
        """Make a change of single objects. Raises QuestionError if one of them is gone, or isn't valid then."""
        self._room.take(change.text, objects=len(change.new), memory=sum(len(encode(each)) for each in change.new))
        steps = [*self.steps, change.text]
        if change.like:
            (name,) = self.add_nodes(f"like:{change.like}")
            node = Patch(NODE.kind, (name,), change.node)
        for patch in (*change.patches, *([node] if change.like else [])):
            self._room.take(change.text, objects=len(patch.keys), memory=len(patch.keys) * len(encode(patch)))
            self.snapshot = self.snapshot.but(change=list(self._patched(patch)))
        for document in change.new:
            kind, key, _ = identify(checked(document))
            known = key in self.snapshot.of_kind(kind)
            self.snapshot = self.snapshot.but(add=() if known else [document], change=[document] if known else ())
            self._changed.append((kind, key))
        for key in change.delete:
            self.delete_pod(key)
        self.steps = steps

    def _patched(self, patch: Patch) -> Iterator[dict[str, Any]]:
        for kind, key, document in patched(self.snapshot, patch):
            self._room.progress(f"change {kind.singular} {key}")
            self._changed.append((kind, key))
            yield document

    def claims_to_bind(self) -> tuple[str, ...]:
        """The keys of claims that controllers may bind now: new and changed ones; all, if there are other volumes."""
        if any(kind is PERSISTENT_VOLUME for kind, _ in self._changed):
            return tuple(self.snapshot.of_kind(PERSISTENT_VOLUME_CLAIM))
        return tuple(key for kind, key in self._changed if kind is PERSISTENT_VOLUME_CLAIM)

    def _create(self, documents: Sequence[Mapping[str, Any]]) -> None:
        """Add what manifests lead to, as far as it doesn't exist."""
        from bayplan.insight.manifests import Manifests

        expansion = Manifests(self.snapshot, self._seed, self._room).expand(documents)
        for document in expansion.objects:
            kind, key, _ = identify(document)
            if kind is NODE:  # a new node of an API server isn't ready
                document["spec"]["taints"] = _without(document, NOT_READY)
            known = key in self.snapshot.of_kind(kind)
            self.snapshot = self.snapshot.but(add=() if known else [document], change=[document] if known else ())
            if not known:
                self._changed.append((kind, key))
        pods = [pod for pod in expansion.pods if identify(pod)[1] not in self.snapshot.of_kind(POD)]
        self.snapshot = self.snapshot.but(add=map(self._created_now, pods))


def _without(node: Mapping[str, Any], key: str, effect: str = "") -> list[dict[str, Any]]:
    """The taints of a node but those with this key and effect. Without an effect, with any."""
    taints = node["spec"].get("taints") or ()
    return [each for each in taints if each["key"] != key or (effect and each["effect"] != effect)]


def _check(what: str, key: str, value: str) -> None:
    errors: Iterator[str] = iter((*label_key_errors(key), *label_value_errors(value)))
    for error in errors:
        raise QuestionError(f"{what}: {error}")

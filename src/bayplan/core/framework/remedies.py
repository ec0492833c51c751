"""What a plugin says about a rejection of its own: details, and remedies. Questions ask for them, attempts never do.

A remedy is a change after which the plugin would no longer reject the pod. Questions combine the remedies of all
plugins that reject a node, try them on a copy of the cluster, and show those with which the pod is placed.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bayplan.core.api.tolerations import NO_SCHEDULE, UNSCHEDULABLE_TAINT, Taint, taint_text
from bayplan.core.api.well_known_labels import POD_TEMPLATE_HASH
from bayplan.core.cluster.nodes import NodeInfo
from bayplan.core.cluster.pod_info import PodInfo

Document = Mapping[str, Any]
"""An object as in a manifest, with `apiVersion` and `kind`."""

Edit = Callable[[dict[str, Any]], object]
"""Changes a manifest in place. Lists and maps that it changes are replaced, because manifests may share them."""


@dataclass(frozen=True, slots=True)
class Remedy:
    """A change that would lift a plugin's rejection of a pod.

    Attributes:
        text: the change as an order, such as "uncordon n1". Questions describe deletions of pods themselves.
        pod: changes the manifest of the pending pod.
        node: changes the manifest of the rejected node.
        new_node: changes the manifest of a new node that is otherwise like the rejected one.
        detail: how `new_node` makes the new node differ, to follow "with": "disk=ssd".
        apply: objects to create or to replace.
        delete: the pods to delete, by `namespace/name`.
    """

    text: str = ""
    pod: Edit | None = None
    node: Edit | None = None
    new_node: Edit | None = None
    detail: str = ""
    apply: tuple[Document, ...] = ()
    delete: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Details:
    """The details of a rejection.

    Attributes:
        text: what the plugin rejects and why, with the names of the objects; "" if the reasons say it all.
        remedies: each would lift the rejection, the gentlest first. Iterated once, and only if changes are tried.
        kind: equal for nodes that the same remedies would help, so that one of them is enough to try; by default, the
            text. The text may have amounts or names that the kind has not.
        cause: what the plugin rejects the node for, if another plugin may reject it for the same thing, such as a
            cordon. Only the first of them is shown, and its remedies lift the others, too.
        everywhere: what the rejection means for the whole cluster if all nodes are rejected for it, such as that no
            node is large enough; the same text for all of these nodes.
    """

    text: str = ""
    remedies: Iterable[Remedy] = ()
    kind: Hashable = None
    cause: Hashable = None
    everywhere: str = ""


def together(*remedies: Remedy) -> Remedy:
    """Return the remedy that makes all of these changes, in their order."""

    def all_of(edits: Iterable[Edit | None]) -> Edit | None:
        made = [edit for edit in edits if edit is not None]

        def edit(document: dict[str, Any]) -> None:
            for each in made:
                each(document)

        return edit if made else None

    return Remedy(
        " and ".join(each.text for each in remedies if each.text),
        pod=all_of(each.pod for each in remedies),
        node=all_of(each.node for each in remedies),
        new_node=all_of(each.new_node for each in remedies),
        detail=" and ".join(each.detail for each in remedies if each.detail),
        apply=tuple(document for each in remedies for document in each.apply),
        delete=tuple(dict.fromkeys(key for each in remedies for key in each.delete)),
    )


def add_labels(node: NodeInfo, labels: Mapping[str, str]) -> Remedy:
    """Return the remedy that gives a node these labels, in place of other values."""
    pairs = ", ".join(f"{key}={value}" for key, value in labels.items())

    def edit(document: dict[str, Any]) -> None:
        document["metadata"]["labels"] = {**(document["metadata"].get("labels") or {}), **labels}

    return Remedy(f"label {node.name} with {pairs}", node=edit, new_node=edit, detail=pairs)


def remove_label(node: NodeInfo, key: str) -> Remedy:
    """Return the remedy that removes a label from a node."""

    def edit(document: dict[str, Any]) -> None:
        labels = document["metadata"].get("labels") or {}
        document["metadata"]["labels"] = {name: value for name, value in labels.items() if name != key}

    label = f"{key}={node.labels.get(key, '')}"
    return Remedy(f"remove the label {label} from {node.name}", node=edit, new_node=edit, detail=f"no label {key}")


def uncordon(node: NodeInfo) -> Remedy:
    """Return the remedy that uncordons a node."""

    def edit(document: dict[str, Any]) -> None:
        document["spec"].pop("unschedulable", None)
        _drop_taints(document, [(UNSCHEDULABLE_TAINT, "", NO_SCHEDULE)])

    return Remedy(f"uncordon {node.name}", node=edit)


def remove_taints(node: NodeInfo, taints: Sequence[Taint]) -> Remedy:
    """Return the remedy that removes taints from a node. A new node keeps them: they belong to its pool."""
    texts = ", ".join(map(taint_text, taints))

    def edit(document: dict[str, Any]) -> None:
        _drop_taints(document, taints)

    return Remedy(f"remove the taint {texts} from {node.name}", node=edit)


def tolerate_taints(taints: Sequence[Taint]) -> Remedy:
    """Return the remedy that makes the pod tolerate taints."""
    added = [
        {"key": key, "effect": effect, **({"operator": "Equal", "value": value} if value else {"operator": "Exists"})}
        for key, value, effect in taints
    ]

    def edit(pod: dict[str, Any]) -> None:
        pod["spec"]["tolerations"] = [*(pod["spec"].get("tolerations") or ()), *added]

    return Remedy(f"add a toleration of {', '.join(map(taint_text, taints))} to the pod", pod=edit)


def request_resource(old: str, new: str) -> Remedy:
    """Return the remedy that lets the pod request another resource in place of one."""

    def edit(pod: dict[str, Any]) -> None:
        for containers in ("containers", "initContainers"):
            if pod["spec"].get(containers):
                pod["spec"][containers] = [_renamed(each, old, new) for each in pod["spec"][containers]]

    return Remedy(f"let the pod request {new} instead of {old}", pod=edit)


def delete_pods(pod: PodInfo, others: Iterable[PodInfo]) -> Iterator[Remedy]:
    """Yield the deletion of all of these pods, if there are any and each `may_make_room` for the pending one."""
    gone = {other.key: other for other in others}
    if gone and all(may_make_room(pod, other) for other in gone.values()):
        yield Remedy(delete=tuple(gone))


def may_make_room(pod: PodInfo, other: PodInfo) -> bool:
    """Return whether a question may propose to delete a pod for a pending one.

    It has no higher priority, belongs to no DaemonSet, and isn't a replica of the same workload: its controller would
    replace it, and then that replica would be pending.
    """
    workload = _workload(pod)
    same = workload is not None and pod.namespace == other.namespace and _workload(other) == workload
    return other.priority <= pod.priority and not is_daemon(other) and not same


def is_daemon(pod: PodInfo) -> bool:
    """Return whether a pod belongs to a DaemonSet."""
    return any(owner.kind == "DaemonSet" for owner in pod.metadata.ownerReferences or ())


def _workload(pod: PodInfo) -> tuple[str, str] | None:
    """The kind and the name of what manages a pod: a Deployment for all ReplicaSets that are named after it."""
    owner = next((owner for owner in pod.metadata.ownerReferences or () if owner.controller), None)
    if owner is None:
        return None
    base, _, suffix = owner.name.rpartition("-")
    if owner.kind == "ReplicaSet" and suffix == pod.labels.get(POD_TEMPLATE_HASH):
        return "Deployment", base
    return owner.kind, owner.name


def _renamed(container: dict[str, Any], old: str, new: str) -> dict[str, Any]:
    resources = dict(container.get("resources") or {})
    for part in ("requests", "limits"):
        if resources.get(part):
            resources[part] = {new if name == old else name: amount for name, amount in resources[part].items()}
    return {**container, "resources": resources}


def _drop_taints(node: dict[str, Any], taints: Sequence[Taint]) -> None:
    gone = {(key, effect) for key, _, effect in taints}
    kept = [each for each in node["spec"].get("taints") or () if (each["key"], each["effect"]) not in gone]
    node["spec"]["taints"] = kept

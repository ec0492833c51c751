"""Changes as values of few bytes: how objects differ from those of a cluster. A what-if can make them.

The page keeps a suggested change in an address or a cookie in this form. It may come from anyone, so it is checked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from bayplan.answers.insight.answers import QuestionError
from bayplan.answers.insight.nodes import node_of
from bayplan.answers.insight.questions.change import Change
from bayplan.answers.insight.questions.documents import copy_of_node, node_document
from bayplan.answers.simulation.world import World
from bayplan.answers.snapshots import Snapshot, SnapshotError
from bayplan.answers.snapshots.documents import identify, kind_named
from bayplan.core.api.kinds import NODE, POD, Kind
from bayplan.core.api.objects import convert, encode
from bayplan.core.api.patch import apply_merge_patch
from bayplan.core.cluster.pod_info import PodInfo

Document = Mapping[str, Any]


class Patch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A JSON merge patch (RFC 7386) of the objects with these keys."""

    kind: str
    keys: tuple[str, ...]
    change: dict[str, Any]
    version: str = "v1"
    """The `apiVersion`."""


class PortableChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A change of objects, as far as it differs from a cluster.

    `text`: for people. `new`: objects that don't exist. `like`: the node that a new node is like, and `node`: a merge
    patch of the new one. `delete`: pods, by `namespace/name`.
    """

    text: str
    patches: tuple[Patch, ...] = ()
    new: tuple[dict[str, Any], ...] = ()
    like: str = ""
    node: dict[str, Any] = {}
    delete: tuple[str, ...] = ()


def portable(world: World, snapshot: Snapshot, change: Change) -> PortableChange:
    """Return a change of a cluster as what differs from it. `world` holds the snapshot."""
    patches: dict[tuple[str, str, bytes], list[str]] = {}
    new: list[dict[str, Any]] = []
    node: dict[str, Any] = {}
    base = _copy(world, change.like)
    for document in change.apply:
        if base is not None and _is_of_new_node(document, base["metadata"]["name"]):
            node = difference(base, document) if document["kind"] == NODE.kind else node
            continue
        kind, key, _ = identify(document)
        known = _known(world, snapshot, kind, key)
        if known is None:
            new.append(dict(document))
        else:
            patch = encode(difference(known, document))
            patches.setdefault((document["apiVersion"], document["kind"], patch), []).append(key)
    return PortableChange(
        change.text,
        tuple(
            Patch(kind, tuple(sorted(keys)), msgspec.json.decode(patch), version)
            for (version, kind, patch), keys in patches.items()
            if patch != b"{}"
        ),
        tuple(new),
        change.like,
        node,
        change.delete,
    )


def difference(old: Document, new: Document) -> dict[str, Any]:
    """Return the JSON merge patch from one document to another."""
    patch: dict[str, Any] = dict.fromkeys(old.keys() - new.keys())
    for name, value in new.items():
        before = old.get(name)
        if isinstance(value, Mapping) and isinstance(before, Mapping):
            inner = difference(before, value)
            if inner:
                patch[name] = inner
        elif value != before:
            patch[name] = value
    return patch


def patched(snapshot: Snapshot, patch: Patch) -> Iterator[tuple[Kind, str, dict[str, Any]]]:
    """Yield the objects of a patch, changed. Raises QuestionError if one doesn't exist, or isn't valid then."""
    try:
        kind = kind_named(patch.version, patch.kind)
    except SnapshotError as error:
        raise QuestionError(str(error)) from None
    for key in patch.keys:
        document = snapshot.document(kind, key)
        if document is None:
            raise QuestionError(f"there is no {kind.singular} {key} to change; the change is of an earlier cluster")
        yield kind, key, checked(apply_merge_patch(document, patch.change), (kind, key))


def checked(document: Document, identity: tuple[Kind, str] | None = None) -> dict[str, Any]:
    """Return a document that can be used. Raises QuestionError. `identity`: the kind and the key that it must have."""
    try:
        kind, key, raw = identify(document)
        if kind is POD:
            PodInfo.from_raw(raw)
        elif kind.model:
            convert(kind.type, document)
    except (SnapshotError, ValueError) as error:
        raise QuestionError(f"the changed object can't be used: {error}") from None
    if identity not in {None, (kind, key)}:
        raise QuestionError(f"a change can't rename {kind.singular} {key}")
    return dict(document)


def _copy(world: World, like: str) -> dict[str, Any] | None:
    node = node_of(world, like) if like else None
    return None if node is None else copy_of_node(node)[0]


def _is_of_new_node(document: Document, name: str) -> bool:
    """Whether a new object comes with a new node: itself, the pods of its DaemonSets, its CSINode and its devices."""
    return name in {document["metadata"]["name"], (document.get("spec") or {}).get("nodeName")}


def _known(world: World, snapshot: Snapshot, kind: Kind, key: str) -> Document | None:
    """An object as questions see it, which may have defaults that the snapshot lacks."""
    node = node_of(world, key) if kind is NODE else None
    return snapshot.document(kind, key) if node is None else node_document(node)

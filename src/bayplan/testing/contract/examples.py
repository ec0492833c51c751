"""Examples: a small cluster and a pod that waits, as documents, so that one can be built as often as it takes, made
smaller while it still shows what is wrong, and printed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import yaml
from lightkube.models.core_v1 import Node, Pod

from bayplan.api.kinds import NODE, POD, Kind, kind_of
from bayplan.api.objects import UndecodableObject, convert
from bayplan.api.quantity import InvalidQuantity
from bayplan.cluster.objects import ObjectStore
from bayplan.cluster.pod_info import PodInfo
from bayplan.cluster.state import ClusterState
from bayplan.testing.documents import Document, document_of, key_of, put, typed
from bayplan.testing.offline import OfflineHandle

GONE = "gone"
"""A node of every example that was there once: its row of the node table is left, and is not live."""

_KEPT = frozenset({"name", "uid", "nodeName", "namespace", "schedulerName", "containers"})
"""What an object needs to be the one that it is."""


class StrictHandle(OfflineHandle):
    """As strict as a running scheduler's: kinds have to be asked for before `freeze`, in a plugin's `__init__`."""

    def __init__(self, state: ClusterState) -> None:
        super().__init__(state)
        self._watched: set[Kind] = {POD, NODE}
        self._frozen = False

    def objects(self, kind: Kind | str) -> ObjectStore:
        """The known objects of a kind. Raises RuntimeError for one that nobody would watch."""
        kind = kind_of(kind) if isinstance(kind, str) else kind
        if self._frozen and kind not in self._watched:
            raise RuntimeError(f"{kind.plural} are not watched: ask the handle for them in __init__")
        self._watched.add(kind)
        return super().objects(kind)

    def freeze(self) -> None:
        """From now on no more kinds are watched."""
        self._frozen = True


@dataclass(frozen=True, slots=True)
class World:
    """An example, built: `pod` waits."""

    state: ClusterState
    handle: StrictHandle
    pod: PodInfo


@dataclass(frozen=True, slots=True)
class Example:
    """Objects of a cluster with their kinds, and the pod that waits. `number` says which of the examples it is.

    Pods among the objects are on nodes, though the node may not exist. `words` are what the plugin seems to look for.
    """

    number: int
    objects: tuple[tuple[Kind, Document], ...]
    pod: Document
    words: tuple[str, ...] = ()

    def build(self) -> World:
        """The cluster and the pod. Raises UndecodableObject or InvalidQuantity for documents that cannot be."""
        state = ClusterState()
        state.set_node(Node(metadata=convert(Node, {"metadata": {"name": GONE}}).metadata))
        for kind, document in self.objects:
            tell(state, kind, document)
        state.remove_node(GONE)
        return World(state, StrictHandle(state), pod_info(self.pod))

    def of(self, kind: Kind) -> list[Document]:
        """The objects of one kind."""
        return [document for each, document in self.objects if each is kind]

    def without(self, index: int) -> Example:
        """The same without one of the objects."""
        return replace(self, objects=(*self.objects[:index], *self.objects[index + 1 :]))

    def having(self, index: int, document: Document) -> Example:
        """The same with another version of one of the objects."""
        kind = self.objects[index][0]
        return replace(self, objects=(*self.objects[:index], (kind, document), *self.objects[index + 1 :]))

    def smaller(self) -> Iterator[Example]:
        """The same with one thing less, big things first. What comes out need not be buildable."""
        for index in reversed(range(len(self.objects))):
            yield self.without(index)
        for document in _less(self.pod):
            if document["spec"]["containers"]:
                yield replace(self, pod=document)
        for index, (_, whole) in enumerate(self.objects):
            for less in _less(whole):
                if less.get("spec", {}).get("containers", True):
                    yield self.having(index, less)

    def __str__(self) -> str:
        lines = [_line(kind.kind, document) for kind, document in self.objects]
        return "\n".join([*lines, _line("Pod that waits:", self.pod)])


UNBUILDABLE = (UndecodableObject, InvalidQuantity, ValueError)
"""What building an example raises that lacks something."""


@contextmanager
def changed(state: ClusterState, kind: Kind, before: Document | None, after: Document | None) -> Iterator[None]:
    """The cluster as it is after a change of an object, which is undone in the end."""
    _become(state, kind, before, after)
    yield
    _become(state, kind, after, before)


def tell(state: ClusterState, kind: Kind, document: Document) -> None:
    """Add an object to the cluster, or take over a new version of it."""
    put(state, kind, key_of(kind, document), typed(kind, document))


def take_away(state: ClusterState, kind: Kind, document: Document) -> None:
    """Remove an object from the cluster."""
    if kind is NODE:
        state.remove_node(document["metadata"]["name"])
    elif kind is POD:
        state.remove_pod(pod_info(document).uid)
    state.objects[kind].remove(key_of(kind, document))


def _become(state: ClusterState, kind: Kind, before: Document | None, after: Document | None) -> None:
    if after is not None:
        tell(state, kind, after)
    elif before is not None:
        take_away(state, kind, before)


def pod_info(document: Document) -> PodInfo:
    """A pod as plugins see it."""
    return PodInfo(convert(Pod, document))


def documents(objects: Iterable[Any]) -> tuple[tuple[Kind, Document], ...]:
    """Objects in any form as documents with their kinds. Raises TypeError, or ValueError for a wrong reference."""
    return tuple(document_of(obj) for obj in objects)


def edited(document: Document, path: Sequence[str], value: Any) -> dict[str, Any]:
    """The document with a value at a path of fields."""
    first, *rest = path
    return {**document, first: edited(document.get(first) or {}, rest, value) if rest else value}


def _less(document: Document) -> Iterator[dict[str, Any]]:
    """The document with one field or one list item less, outer ones first."""
    for key in document:
        if key not in _KEPT and key not in {"metadata", "spec"}:
            yield {other: each for other, each in document.items() if other != key}
    for key, value in document.items():
        for less in _less_of(value):
            yield {**document, key: less}


def _less_of(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping):
        yield from _less(value)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield [*value[:index], *value[index + 1 :]]
            for less in _less_of(item):
                yield [*value[:index], less, *value[index + 1 :]]


def _line(kind: str, document: Document) -> str:
    metadata: Document = document["metadata"]
    name = f"{metadata['namespace']}/{metadata['name']}" if metadata.get("namespace") else metadata["name"]
    spec: Document = document.get("spec", {})
    node = spec.get("nodeName")
    rest = {key: value for key, value in document.items() if key not in {"apiVersion", "kind"}}
    rest["metadata"] = {key: value for key, value in metadata.items() if key not in {"name", "namespace", "uid"}}
    rest["spec"] = {key: value for key, value in spec.items() if key != "nodeName" and value != _USUAL.get(key)}
    text = yaml.safe_dump(_filled(rest), default_flow_style=True, width=1_000_000, sort_keys=False).strip()
    return f"{kind} {name}{f' on {node}' if node else ''} {text}"


_USUAL = {"schedulerName": "default-scheduler", "containers": [{"name": "main"}]}
"""What every pod of an example has, and what goes without saying."""


def _filled(value: Any) -> Any:
    """Without what is empty at the top, for reading."""
    return {key: each for key, each in value.items() if each not in ({}, [], None, "")}

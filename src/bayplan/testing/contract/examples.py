"""Examples for the checks: a small cluster with a pending pod and possible changes, drawn by Hypothesis.

An example is a value that can be built again and again, each time as another cluster.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain, product
from typing import Any

import yaml
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy
from lightkube.models.core_v1 import Node
from lightkube.models.meta_v1 import ObjectMeta

from bayplan.answers.simulation.handle import OfflineHandle
from bayplan.core.api.kinds import NODE, POD, Kind, kind_of
from bayplan.core.cluster.objects import ObjectStore
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.cluster.state import ClusterState
from bayplan.testing.documents import Document, key_of, put, typed
from bayplan.testing.strategies import (
    NODE_BASE,
    POD_BASE,
    RARE_POD_FIELDS,
    Documents,
    Edit,
    Fields,
    Marks,
    Objects,
    at,
    bound_to,
    edited,
    edits,
    node_named,
    resolved,
)

_GONE = Node(metadata=ObjectMeta(name="gone"))
"""A deleted node that every cluster had: its row of the node table remains, but is not live."""


class StrictHandle(OfflineHandle):
    """As strict as a running scheduler's handle: a plugin must ask for kinds in `__init__`, before `freeze`."""

    def __init__(self, state: ClusterState) -> None:
        super().__init__(state)
        self._watched: set[Kind] = {POD, NODE}
        self._frozen = False

    def objects(self, kind: Kind | str) -> ObjectStore:
        """Return the known objects of a kind. Raises RuntimeError for a kind that the scheduler would not watch."""
        kind = kind_of(kind) if isinstance(kind, str) else kind
        if self._frozen and kind not in self._watched:
            raise RuntimeError(f"{kind.plural} are not watched: ask the handle for them in __init__")
        self._watched.add(kind)
        return super().objects(kind)

    def freeze(self) -> None:
        """Watch no more kinds."""
        self._frozen = True


@dataclass(frozen=True, slots=True)
class BuiltExample:
    """An example, built. `pod` is the pending pod."""

    state: ClusterState
    handle: StrictHandle
    pod: PodInfo


@dataclass(frozen=True, slots=True)
class ExampleChange:
    """A change of an object: `before` is None for a new one, `after` for one that is deleted. `path`: its field."""

    text: str
    kind: Kind
    before: Document | None
    after: Document | None
    path: str = ""

    @property
    def nodes(self) -> set[str]:
        """The nodes that it affects."""
        documents = [each for each in (self.before, self.after) if each is not None]
        if self.kind is NODE:
            return {each["metadata"]["name"] for each in documents}
        return {each["spec"]["nodeName"] for each in documents if self.kind is POD}

    @property
    def pod(self) -> PodInfo:
        """The changed pod."""
        assert self.after is not None
        return pod_info(self.after)

    def make(self, state: ClusterState) -> None:
        """Make the change."""
        _replace(state, self.kind, self.before, self.after)

    @contextmanager
    def made(self, state: ClusterState) -> Iterator[None]:
        """Make the change, and undo it in the end."""
        self.make(state)
        try:
            yield
        finally:
            _replace(state, self.kind, self.after, self.before)


@dataclass(frozen=True, slots=True, repr=False)
class Example:
    """The objects of a cluster with their kinds, and a pending pod. Its string shows it without `given` objects.

    `variants` and `updates` are changes of one field of the pending pod: to values that other pods may have, and to
    values that users may set. `changes` are of other objects. `other` is another pending pod, `arrival` a pod that may
    be added to a node.
    """

    objects: Objects
    pod: Document
    given: Objects
    other: Document
    arrival: Document
    variants: Sequence[ExampleChange]
    updates: Sequence[ExampleChange]
    changes: Sequence[ExampleChange]

    def build(self) -> BuiltExample:
        """Return the cluster and the pending pod."""
        state = ClusterState()
        state.set_node(_GONE)
        for kind, document in self.all:
            _set(state, kind, document)
        state.remove_node("gone")
        return BuiltExample(state, StrictHandle(state), pod_info(self.pod))

    @property
    def all(self) -> Objects:
        """All objects of the cluster."""
        return (*self.objects, *self.given)

    @property
    def nodes(self) -> list[str]:
        """The names of the nodes."""
        return [document["metadata"]["name"] for kind, document in self.all if kind is NODE]

    @property
    def bound(self) -> list[Document]:
        """The pods on nodes. Some of these nodes may not exist."""
        return [document for kind, document in self.all if kind is POD]

    def without(self, *documents: Document) -> Example:
        """Return the example without some objects."""

        def left(objects: Objects) -> Objects:
            return tuple(each for each in objects if not any(each[1] is document for document in documents))

        return replace(self, objects=left(self.objects), given=left(self.given))

    def with_pod(self, pod: Document) -> Example:
        """Return the example with one more pod on a node."""
        return replace(self, objects=(*self.objects, (POD, pod)))

    def _repr_pretty_(self, printer: Any, _cycle: bool) -> None:
        """The text of the example in Hypothesis' report."""
        printer.text(repr(self))

    def __repr__(self) -> str:
        return "\n".join([*(_line(*each) for each in self.objects), f"pending {_line(POD, self.pod)}"])


def examples(documents: Documents, given: Objects = (), pods: Sequence[Document] = ()) -> SearchStrategy[Example]:
    """Return a strategy for examples. All have the `given` objects, and half of them one of `pods` as pending pod."""
    pending = st.one_of(documents.pending, *([st.sampled_from(pods)] if pods else ()))
    fields = documents.pod_labels, documents.pod_fields, {**documents.constraints, **RARE_POD_FIELDS}
    variants = _several(*(st.sampled_from(edits(each)) for each in fields))
    updates = _several(_updates(documents))
    changes = _several(*_changes(documents))
    keys = {(kind, key_of(kind, document)) for kind, document in given}

    @st.composite
    def drawn(draw: DrawFn) -> Example:
        marks, pod = draw(documents.marks), draw(pending)
        objects = tuple(each for each in draw(documents.cluster) if (each[0], key_of(*each)) not in keys)

        def own(edits: list[Edit]) -> list[ExampleChange]:
            return [_edit(POD, pod, path, resolved(value, marks)) for path, value in edits]

        changed = [_change((*objects, *given), marks, *each) for each in draw(changes)]
        return Example(
            objects,
            pod,
            given,
            draw(documents.pending),
            draw(documents.bound),
            own(draw(variants)),
            own(draw(updates)),
            [change for change in changed if change is not None],
        )

    return drawn()


def pod_info(document: Document) -> PodInfo:
    """Return a pod as plugins see it."""
    pod: PodInfo = typed(POD, document)
    return pod


def _several(*strategies: SearchStrategy[Any]) -> SearchStrategy[list[Any]]:
    """About five of each."""
    return st.tuples(*(st.lists(each, max_size=10) for each in strategies)).map(lambda lists: [*chain(*lists)])


def _updates(documents: Documents) -> SearchStrategy[Edit]:
    """The changes of a pending pod that the API server allows."""
    fields: Fields = {
        **documents.pod_labels,
        "metadata.annotations": documents.pod_fields["metadata.annotations"],
        "spec.tolerations": [[{"operator": "Exists"}]],
        "spec.schedulingGates": [[]],
        "spec.containers[].resources.requests": [{}, {"cpu": "100m", "memory": "1Mi"}],
    }
    return st.sampled_from(edits(fields))


def _changes(documents: Documents) -> Iterator[SearchStrategy[tuple[str, int, Any]]]:
    """Changes of the cluster: a description, the index of the changed object, and the change."""
    for fields in (documents.node_labels, documents.node_fields):
        yield st.sampled_from([("edit node", *each) for each in product(range(4), edits(fields))])
    number = st.integers(0, 11)
    yield st.one_of(
        st.sampled_from([("edit pod", *each) for each in product(range(6), edits(documents.pod_labels))]),
        st.tuples(st.just("delete"), number, st.none()),
        st.tuples(st.just("add node"), number, documents.node),
        st.tuples(st.just("add pod"), number, documents.bound),
    )


def _change(objects: Objects, marks: Marks, how: str, number: int, value: Any) -> ExampleChange | None:
    if how == "add node":
        return ExampleChange("a node is added", NODE, None, node_named(value, "new"))
    kinds = {"edit node": NODE, "add pod": NODE, "edit pod": POD}
    candidates = [each for each in objects if how == "delete" or each[0] is kinds[how]]
    if not candidates:
        return None
    kind, document = candidates[number % len(candidates)]
    name = document["metadata"]["name"]
    if how == "add pod":
        return ExampleChange(f"a pod is added to node {name}", POD, None, bound_to(value, "new", name))
    if how == "delete":
        return ExampleChange(f"{kind.kind} {name} is deleted", kind, document, None)
    path, new = value
    return _edit(kind, document, path, resolved(new, marks))


def _edit(kind: Kind, document: Document, path: str, value: Any) -> ExampleChange:
    if path == "spec.tolerations":  # these can only be added to an existing pod
        value = [*(at(document, path) or ()), *value]
    after = edited(document, path, value)
    if kind is NODE:
        after = node_named(after, document["metadata"]["name"])
    return ExampleChange(f"{path} of {kind.kind} {document['metadata']['name']} changes", kind, document, after, path)


def _set(state: ClusterState, kind: Kind, document: Document) -> None:
    put(state, kind, key_of(kind, document), typed(kind, document))


def _replace(state: ClusterState, kind: Kind, before: Document | None, after: Document | None) -> None:
    if after is not None:
        _set(state, kind, after)
    elif before is not None:
        if kind is NODE:
            state.remove_node(before["metadata"]["name"])
        elif kind is POD:
            state.remove_pod(pod_info(before).uid)
        state.objects[kind].remove(key_of(kind, before))


def _line(kind: Kind, document: Document) -> str:
    """An object in one line, without what the simplest object of its kind has."""
    base = {POD: POD_BASE, NODE: node_named(NODE_BASE, document["metadata"]["name"])}.get(kind, {})
    fields = {
        section: {
            name: value
            for name, value in document.get(section, {}).items()
            if value and name not in _HIDDEN and value != base.get(section, {}).get(name)
        }
        for section in ("metadata", "spec", "status")
    }
    shown = {section: each for section, each in fields.items() if each}
    text = yaml.safe_dump(shown, default_flow_style=True, width=1_000_000, sort_keys=False).strip()
    node = at(document, "spec.nodeName")
    return f"{kind.kind} {key_of(kind, document)}{f' on {node}' if node else ''} {text}"


_HIDDEN = frozenset({"name", "namespace", "uid", "nodeName", "phase"})

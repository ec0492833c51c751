"""Renders objects, lists and watch events from the stored bytes: as they are, as tables, or as partial metadata.

A watch event is rendered once for all watches that want the same form.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import yaml

from bayplan.foundations.clock import Clock
from bayplan_devcluster.apiserver.encoding import decode, encode
from bayplan_devcluster.apiserver.http.negotiation import Form
from bayplan_devcluster.apiserver.schema import Object
from bayplan_devcluster.apiserver.storage.resource import Resource
from bayplan_devcluster.apiserver.storage.store import Entry, StoreChange
from bayplan_devcluster.apiserver.tables import table


class Renderer:
    """Renders one resource in one form."""

    def __init__(self, clock: Clock, resource: Resource, form: Form, include: str = "Metadata") -> None:
        self._clock = clock
        self._resource = resource
        self._include = include
        self._form = form
        kind = resource.kind
        self._head = f'{{"kind":"{kind.kind}","apiVersion":"{kind.api_version}",'.encode()

    @property
    def is_table(self) -> bool:
        """Whether the first event of a watch must contain the column definitions."""
        return self._form.kind == "Table"

    def body(self, entry: Entry) -> bytes:
        """Renders an entry in the resource's version, without kind and apiVersion."""
        schema = self._resource.schema
        if not schema.converts:
            return entry.raw
        if entry.converted is None or entry.converted[0] is not schema:
            entry.converted = (schema, encode(schema.from_storage(entry.load())))
        return entry.converted[1]

    def object(self, entry: Entry) -> bytes:
        """Renders one object."""
        match self._form.kind:
            case "Table":
                return encode(self._table([entry], {"resourceVersion": str(entry.version)}))
            case "PartialObjectMetadata" | "PartialObjectMetadataList":
                return encode(_partial(entry))
            case _:
                return self._head + self.body(entry)[1:]

    def list(self, entries: Sequence[Entry], metadata: Object) -> bytes:
        """Renders a list with the given metadata."""
        match self._form.kind:
            case "Table":
                return encode(self._table(entries, metadata))
            case "PartialObjectMetadata" | "PartialObjectMetadataList":
                head = {"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": metadata}
                return encode({**head, "items": [_partial(entry) for entry in entries]})
            case _:
                kind = self._resource.kind
                custom = self._resource.custom
                list_kind = (custom.list_kind if custom is not None else "") or f"{kind.kind}List"
                head_text = f'{{"kind":"{list_kind}","apiVersion":"{kind.api_version}","metadata":'
                bodies = [self.body(entry) for entry in entries]
                if custom is not None:
                    bodies = [self._head + body[1:] for body in bodies]
                items = b",".join(bodies)
                return b"".join((head_text.encode(), encode(metadata), b',"items":[', items, b"]}"))

    def _table(self, entries: Sequence[Entry], metadata: Object, *, columns: bool = True) -> Object:
        now = self._clock.now()
        objects = [decode(self.body(entry)) for entry in entries]
        custom = self._resource.custom
        own = custom.table if custom is not None else None
        return table(self._resource.kind, own, objects, metadata, now, columns=columns, include=self._include)

    def line(self, change: StoreChange) -> bytes:
        """Renders a change as a watch event, once for all watches of the same API version."""
        if self._form.kind:
            return self.event(change.type, change.entry)
        schema = self._resource.schema
        if schema.converts:
            if change.converted is None or change.converted[0] is not schema:
                change.converted = (schema, self.event(change.type, change.entry))
            return change.converted[1]
        if change.line is None:
            change.line = self.event(change.type, change.entry)
        return change.line

    def event(self, type_: str, entry: Entry, *, columns: bool = False) -> bytes:
        """Renders a watch event."""
        if self._form.kind == "Table":
            metadata = {"resourceVersion": str(entry.version)}
            body = encode(self._table([entry], metadata, columns=columns))
        else:
            body = self.object(entry)
        return b'{"type":"%b","object":%b}\n' % (type_.encode(), body)

    def bookmark(self, version: int, *, initial: bool = False) -> bytes:
        """Renders a bookmark: the watch has sent all changes up to a version."""
        metadata: dict[str, Any] = {"resourceVersion": str(version)}
        if initial:
            metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
        if self._form.kind == "Table":
            obj = {"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata}
            obj |= {"columnDefinitions": [], "rows": []}
        elif self._form.kind:
            obj = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata}
        else:
            kind = self._resource.kind
            empty = self._resource.schema.empty()
            obj = {"kind": kind.kind, "apiVersion": kind.api_version, **empty, "metadata": metadata}
        return b'{"type":"BOOKMARK","object":%b}\n' % encode(obj)


def _partial(entry: Entry) -> Object:
    """Returns a PartialObjectMetadata."""
    metadata = entry.load()["metadata"]
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata}


def to_yaml(body: bytes) -> bytes:
    """Converts a JSON body to YAML."""
    text: str = yaml.safe_dump(decode(body), default_flow_style=False)
    return text.encode()

"""The API server of a snapshot: creates and updates objects as the cluster's would.

It is the embedded API server without a port: defaults, admission, quotas, validation, and `kubectl apply`
(`applying.py`). Only the objects of the snapshot that new ones depend on are stored in it. Names are generated from a
seed, so that an answer can be repeated.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Any

from bayplan.answers.snapshots import Snapshot, SnapshotError
from bayplan.answers.snapshots.applying import applied
from bayplan.answers.snapshots.documents import identify
from bayplan.core.api import kinds
from bayplan.core.api.kinds import Kind
from bayplan.core.api.objects import Document
from bayplan.core.api.patch import apply_merge_patch
from bayplan.core.api.status import StatusError
from bayplan.core.api.suggestions import did_you_mean
from bayplan.core.versions import DEFAULT_GATES
from bayplan_devcluster.apiserver import ApiServer
from bayplan_devcluster.apiserver.endpoints.decoding import FieldValidation, accept
from bayplan_devcluster.apiserver.storage.resource import Resource
from bayplan_devcluster.apiserver.storage.store import key_of

_LONG_AGO = "1970-01-01T00:00:00Z"
ADMISSION = (
    kinds.NAMESPACE,
    kinds.PRIORITY_CLASS,
    kinds.STORAGE_CLASS,
    kinds.LIMIT_RANGE,
    kinds.RUNTIME_CLASS,
    kinds.DEVICE_CLASS,
    kinds.RESOURCE_CLAIM_TEMPLATE,
)
"""The kinds that admission and the controllers read. ResourceQuotas count what is in their namespace, too."""


class Objects:
    """An embedded API server with the objects of a snapshot, as far as new objects depend on them.

    Others are read when an object with their name is applied. Names are generated from `seed`.
    """

    def __init__(self, snapshot: Snapshot, seed: int = 0) -> None:
        self.snapshot = snapshot
        of_any_version = DEFAULT_GATES.but("CompositePodGroup")  # as the manifests may be
        self._server = ApiServer(address=None, gated=kinds.VERSIONED_KINDS, gates=of_any_version)
        self._storage = self._server.storage
        self._storage.random.seed(seed)
        self._complete: set[str] = set()
        """Namespaces whose objects have all been read, because a quota counts them."""
        self._with_quotas = {key.partition("/")[0] for key in snapshot.of_kind(kinds.RESOURCE_QUOTA)}
        self._classes_are_unknown = any(gap.kind == kinds.PRIORITY_CLASS for gap in snapshot.gaps)
        for kind in ADMISSION:
            self._restore(kind, snapshot.of_kind(kind))

    def check_fields(self, document: Document) -> None:
        """Raise StatusError for a field that the API server doesn't know, as it does for kubectl."""
        resource = self._resource_of(document)
        if resource is not None and isinstance(document.get("metadata") or {}, dict):
            accept(resource.schema, {**document}, FieldValidation("Strict"))

    def create(self, document: Document) -> Document:
        """Return a new object with its defaults. Objects of kinds that no server has stay as they are.

        Raises StatusError. `metadata.name` of the document then has the name that was generated.
        """
        resource = self._resource_of(document)
        if resource is None:
            return self._named(document)
        given, namespace = self._accepted(resource, document)
        metadata = document["metadata"] = {**(document.get("metadata") or {})}
        status = document.get("status")
        name = given["metadata"].get("name") or self._generated(
            given["metadata"], lambda name: self._is_taken(resource, namespace, name)
        )
        if name:
            metadata["name"] = given["metadata"]["name"] = name
        spec = given.get("spec") or {}
        if resource.kind.kind in {"Pod", "PodGroup", "CompositePodGroup"}:
            self._ensure_class(spec)
        try:
            entry = self._storage.create(resource, namespace, given)
        except StatusError as error:
            error.message += self._similar_class(spec)
            raise
        created = self._storage.decode(resource, entry)
        created["metadata"] |= {each: metadata[each] for each in ("uid", "creationTimestamp") if metadata.get(each)}
        if status:
            created["status"] = {**(created.get("status") or {}), **status}
        return _headed(document, created)

    def apply(self, document: Document) -> tuple[Document, Document | None]:
        """Create an object, or update the one that exists. Return it, and what it was before. Raises StatusError."""
        resource = self._resource_of(document)
        before = None if resource is None else self.existing(document)
        if resource is None or before is None:
            return self.create(document), None
        given, _ = self._accepted(resource, document)
        merged = applied(resource.kind, before, given) if resource.custom is None else apply_merge_patch(before, given)
        return _headed(document, self._updated(resource, before, merged)), before

    def replace(self, document: Document) -> tuple[Document, Document]:
        """Update an object that exists, as `kubectl edit` does, and return it, and what it was before.

        Raises StatusError.
        """
        resource, before = self._resource_of(document), self.existing(document)
        assert resource is not None  # the object exists
        assert before is not None
        given, _ = self._accepted(resource, document)
        return _headed(document, self._updated(resource, before, given)), before

    def _updated(self, resource: Resource, before: Document, after: Document) -> Document:
        new = accept(resource.schema, {**after, "metadata": {**after["metadata"]}}, FieldValidation("Ignore"))
        new["metadata"].pop("resourceVersion", None)
        if not resource.allow_unconditional_update:
            new["metadata"]["resourceVersion"] = before["metadata"]["resourceVersion"]
        entry = self._storage.update(resource, before, new)
        return self._storage.decode(resource, entry)

    def existing(self, document: Document) -> Document | None:
        """Return the object of this kind and name, with the defaults of the API server; None if there is none."""
        resource = self._resource_of(document)
        metadata = document.get("metadata")
        name = metadata.get("name") if isinstance(metadata, dict) else None
        if resource is None or not name:
            return None
        namespace = _namespace_of(resource, document)
        collection = self._storage.collection(resource)
        if key_of(namespace, name) not in collection.objects:
            try:
                kind, key, _ = identify(document)
            except SnapshotError:
                return None
            if key in self.snapshot.of_kind(kind):
                self._restore(kind, [key])
        if key_of(namespace, name) not in collection.objects:
            return None
        return self._storage.load(resource, namespace, name)

    def forget(self, kind: Kind, key: str) -> None:
        """Remove an object of the snapshot, so that quotas no longer count it."""
        resource = self._storage.served.of_kind(kind.api_version, kind.kind)
        namespace, _, name = key.rpartition("/")
        if resource is not None and key in self._storage.collection(resource).objects:
            self._storage.remove(resource, self._storage.load(resource, namespace, name))

    def suffix(self) -> str:
        """Return what a generated name ends with."""
        return self._storage.suffix()

    def _accepted(self, resource: Resource, document: Document) -> tuple[Document, str]:
        """The object in the form of the API server, and its namespace, which is made if there is none."""
        metadata = document.get("metadata")
        if isinstance(metadata, dict):
            metadata = {each: value for each, value in metadata.items() if each != "resourceVersion"}
        given = accept(resource.schema, {**document, "metadata": metadata or {}}, FieldValidation("Ignore"))
        namespace = _namespace_of(resource, given)
        if namespace:
            given["metadata"]["namespace"] = namespace
            self._ensure(kinds.NAMESPACE, namespace)
        if resource.kind == kinds.RESOURCE_QUOTA or namespace in self._with_quotas:
            self._fill(namespace)
        return given, namespace

    def _ensure_class(self, spec: Document) -> None:
        """Make the priority class of a pod that was copied from a cluster, or if the classes are unknown."""
        if priority := spec.get("priority"):
            spec.setdefault("priorityClassName", f"priority-{priority}")  # only a class can set a priority
        if spec.get("priorityClassName") and (priority or self._classes_are_unknown):
            self._ensure(kinds.PRIORITY_CLASS, spec["priorityClassName"], value=priority or 0)

    def _similar_class(self, spec: Document) -> str:
        """Return a question about a priority class with a similar name, if the one of a pod doesn't exist."""
        name = spec.get("priorityClassName")
        known = self._server.store.collection(kinds.PRIORITY_CLASS.resource).objects
        return did_you_mean(name, known) if isinstance(name, str) and name not in known else ""

    def _resource_of(self, document: Document) -> Resource | None:
        return self._storage.served.of_kind(str(document.get("apiVersion", "")), str(document.get("kind", "")))

    def _named(self, document: Document) -> Document:
        metadata = document.get("metadata")
        if not isinstance(metadata, dict) or metadata.get("name") or not metadata.get("generateName"):
            return document
        return {**document, "metadata": {**metadata, "name": self._generated(metadata)}}

    def _generated(self, metadata: Document, is_taken: Callable[[str], bool] = lambda _: False) -> str:
        """A name that is free: the API server tries eight, and controllers try again."""
        prefix = metadata.get("generateName")
        if not prefix:
            return ""
        names = (f"{str(prefix)[:58]}{self.suffix()}" for _ in itertools.count())
        return next(name for name in names if not is_taken(name))

    def _is_taken(self, resource: Resource, namespace: str, name: str) -> bool:
        known = self._storage.collection(resource).objects
        return key_of(namespace, name) in known or f"{namespace}/{name}" in self.snapshot.of_kind(resource.kind)

    def _fill(self, namespace: str) -> None:
        """Read all objects of a namespace, which its quotas count, and then the quotas."""
        if not namespace or namespace in self._complete:
            return
        self._complete.add(namespace)
        for kind, known in self.snapshot.documents.items():
            if kind.namespaced and kind.model and kind not in {*ADMISSION, kinds.RESOURCE_QUOTA}:
                self._restore(kind, [key for key in known if key.startswith(f"{namespace}/")])
        quotas = self.snapshot.of_kind(kinds.RESOURCE_QUOTA)
        self._restore(kinds.RESOURCE_QUOTA, [key for key in quotas if key.startswith(f"{namespace}/")])

    def _restore(self, kind: Kind, keys: Iterable[str]) -> None:
        """Store objects as they are in the snapshot, without admission and validation."""
        for key in keys:
            document = self.snapshot.document(kind, key)
            resource = None if document is None else self._resource_of(document)
            if document is None or resource is None or key in self._storage.collection(resource).objects:
                continue
            try:
                obj = accept(resource.schema, document, FieldValidation("Ignore"))
                obj["metadata"].setdefault("uid", f"uid-{key}")
                obj["metadata"].setdefault("creationTimestamp", _LONG_AGO)
                resource.schema.fill_defaults(obj)
                self._storage.write(resource, obj)
            except StatusError:  # the snapshot's server is older and less strict
                continue

    def _ensure(self, kind: Kind, name: str, **fields: Any) -> None:
        if name not in self._server.store.collection(kind.resource).objects:
            header = {"apiVersion": kind.api_version, "kind": kind.kind}
            self._server.load([{**header, "metadata": {"name": name}, **fields}])


def _namespace_of(resource: Resource, document: Document) -> str:
    return (document["metadata"].get("namespace") or "default") if resource.kind.namespaced else ""


def _headed(given: Document, obj: Document) -> Document:
    return {**obj, "apiVersion": str(given["apiVersion"]), "kind": str(given["kind"])}

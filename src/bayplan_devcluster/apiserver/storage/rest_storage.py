"""Reads, creates, updates and removes objects of any kind, by the facts and the strategy of the kind.

Mirrors apiserver's pkg/registry/generic/registry/store.go and pkg/registry/rest.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from bayplan.core.api.field_errors import quoted
from bayplan.core.api.status import (
    MODIFIED,
    StatusError,
    already_exists,
    bad_request,
    conflict,
    forbidden,
    internal,
    invalid,
    name_not_generated,
    not_found,
    version_required,
)
from bayplan.core.api.times import rfc3339
from bayplan.foundations.clock import Clock
from bayplan_devcluster.apiserver.schema import Object
from bayplan_devcluster.apiserver.storage.resource import Resource
from bayplan_devcluster.apiserver.storage.served_resources import ServedResources
from bayplan_devcluster.apiserver.storage.store import Collection, Entry, Store, key_of
from bayplan_devcluster.apiserver.validation.meta import validate_deletion_fields, validate_meta, validate_meta_update

NAMESPACES = "namespaces"
GENERATED_NAMES = 8
"""How many names are generated for a new object, until one is not taken."""
_LONGEST_VERSION = 100
_HIGHEST_VERSION = 2**64 - 1


@dataclass(slots=True)
class RestStorage:
    """The objects of all served kinds. Methods are synchronous: a write is atomic.

    In each method, `resource` is the kind and the version of the objects that go in and come out.
    """

    store: Store
    clock: Clock
    served: ServedResources
    admit: Admit
    """Admission: completes a new object, or rejects it with a StatusError."""
    controllers: Mapping[str, Controller]
    """By collection: called after every write and removal, with the entry that it made."""
    on_removed: list[Callable[[Resource, Entry], None]] = field(default_factory=list)
    """Called with every object that is removed, or that waits for its dependents or its contents to be removed."""
    on_orphaned: list[Callable[[str, str], None]] = field(default_factory=list)
    """Called with (collection, key) of every object that is written with an owner that does not exist."""
    reviews: list[Review] = field(default_factory=list)
    """The last step of admission: called with every object that passed validation. They raise a StatusError."""
    on_written: list[Written] = field(default_factory=list)
    """Called after every write and removal, with the entry that it made."""
    random: random.Random = field(default_factory=random.Random)

    def collection(self, resource: Resource) -> Collection:
        """The collection that holds a resource's objects."""
        return self.store.collection(resource.collection)

    def find(self, resource: Resource, namespace: str, name: str) -> Entry:
        """Returns the latest version of an object. Raises 404."""
        entry = self.collection(resource).objects.get(key_of(namespace, name))
        if entry is None:
            raise not_found(resource.kind, name)
        return entry

    def load(self, resource: Resource, namespace: str, name: str) -> Object:
        """Returns a copy of an object in the resource's version. Raises 404."""
        return self.decode(resource, self.find(resource, namespace, name))

    def decode(self, resource: Resource, entry: Entry) -> Object:
        """Returns a copy of a stored object in the resource's version."""
        return resource.schema.from_storage(entry.load())

    # Creating

    def create(self, resource: Resource, namespace: str, obj: Object, *, dry_run: bool = False) -> Entry:
        """Stores a new object after defaulting, admission and validation. Raises StatusError.

        `obj` is normalized; the caller must not use it afterwards.
        """
        kind = resource.kind
        metadata = obj["metadata"]
        ensure_matches_url(resource, namespace, metadata)
        if kind.namespaced:
            self._check_namespace(resource, namespace, metadata.get("name", ""))
        for system_field in ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "managedFields"):
            metadata.pop(system_field, None)
        if "generateName" in metadata and "name" not in metadata:
            metadata["name"] = self._generated_name(resource, namespace, metadata["generateName"])
        metadata["uid"] = str(uuid.UUID(int=self.random.getrandbits(128), version=4))
        metadata["creationTimestamp"] = rfc3339(self.clock.now())
        metadata.pop("generation", None)
        if resource.generation:
            metadata["generation"] = 1
        if kind.status and not resource.keeps_status:
            _set_status(obj, resource.schema.empty().get("status"))
        strategy = resource.strategy
        resource.schema.fill_defaults(obj)
        self.admit(self, resource, obj)
        strategy.prepare_for_create(obj)
        name = metadata.get("name", "")
        errors = validate_meta(resource.name_rule, metadata)
        self._check(resource, name, [*errors, *strategy.validate(obj), *strategy.validate_create(obj)])
        for review in self.reviews:
            review(resource, obj, None, "")
        if not dry_run and _parsed_version(metadata)[0]:
            raise internal("resourceVersion should not be set on objects to be created")
        metadata.pop("resourceVersion", None)
        collection = self.collection(resource)
        existing = collection.objects.get(key_of(namespace, name))
        if existing is not None:
            error = name_not_generated if "generateName" in metadata else already_exists
            raise error(kind, name, being_deleted=existing.terminating)
        return self._store(resource, obj, dry_run=dry_run)

    def restore(self, resource: Resource, obj: Object) -> Entry:
        """Stores an object as another server had it: with its uid, version, times, owners and status.

        It replaces an object with the same name, and is neither admitted nor validated. `store.begin` must follow.
        """
        metadata = obj["metadata"]
        metadata.pop("managedFields", None)
        metadata.pop("selfLink", None)
        metadata.setdefault("uid", str(uuid.UUID(int=self.random.getrandbits(128), version=4)))
        metadata.setdefault("creationTimestamp", rfc3339(self.clock.now()))
        resource.schema.fill_defaults(obj)
        stored = resource.schema.to_storage(obj)
        entry = self.store.restore(resource.collection, stored, resource.fields.read(stored))
        self._follow(resource, entry, removed=False)
        return entry

    def _generated_name(self, resource: Resource, namespace: str, prefix: str) -> str:
        """Returns a name that is not taken, or a taken one after GENERATED_NAMES taken ones."""
        taken = self.collection(resource).objects
        for _ in range(GENERATED_NAMES):
            name = prefix[:58] + self.suffix()
            if key_of(namespace, name) not in taken:
                break
        return name

    def suffix(self) -> str:
        """Returns the five random characters that generated names end with."""
        return "".join(self.random.choices("bcdfghjklmnpqrstvwxz2456789", k=5))

    def _check_namespace(self, resource: Resource, namespace: str, name: str) -> None:
        found = self.store.collection(NAMESPACES).objects.get(namespace)
        if found is None:
            raise StatusError(
                404, "NotFound", f'namespaces "{namespace}" not found', {"name": namespace, "kind": NAMESPACES}
            )
        if found.fields["status.phase"] == "Terminating":
            why = f"unable to create new content in namespace {namespace} because it is being terminated"
            error = forbidden(resource.kind, name, why)
            cause = {"reason": "NamespaceTerminating", "message": f"namespace {namespace} is being terminated"}
            error.details = {**(error.details or {}), "causes": [{**cause, "field": "metadata.namespace"}]}
            raise error

    def _check(self, resource: Resource, name: str, errors: Iterable[Any]) -> None:
        found = list(errors)
        if found:
            raise invalid(resource.kind, name, found)

    def _store(self, resource: Resource, obj: Object, *, dry_run: bool) -> Entry:
        stored = resource.schema.to_storage(obj)
        fields = resource.fields.read(stored)
        if dry_run:
            return Entry(stored, 0, fields)
        entry = self.store.put(resource.collection, stored, fields)
        if not all(map(self.store.exists, entry.owners)):
            for notify in self.on_orphaned:
                notify(resource.collection, entry.key)
        self._follow(resource, entry, removed=False)
        return entry

    def _follow(self, resource: Resource, entry: Entry, *, removed: bool) -> None:
        for follow in self.on_written:
            follow(resource, entry, removed=removed)
        controller = self.controllers.get(resource.collection)
        if controller is not None:
            controller(self, resource, entry)

    # Changing

    def update(
        self, resource: Resource, old: Object, new: Object, *, subresource: str = "", dry_run: bool = False
    ) -> Entry:
        """Replaces `old`, as `load` returned it, with `new`, which is normalized. Raises StatusError.

        Through the subresource `status`, only the status and the metadata that may be written with it change; without
        a subresource, everything except the status does. If nothing changes, there is no new version and no event.
        """
        strategy = resource.strategy
        metadata, was = new["metadata"], old["metadata"]
        name = was["name"]
        ensure_matches_url(resource, was.get("namespace", ""), metadata, name)
        self._check_version(resource, metadata, was)
        errors = list(validate_deletion_fields(metadata, was))
        for system_field in (
            "uid",
            "creationTimestamp",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
            "generation",
        ):
            if system_field in was:
                metadata[system_field] = was[system_field]
            else:
                metadata.pop(system_field, None)
        metadata["resourceVersion"] = was["resourceVersion"]
        metadata.pop("managedFields", None)
        metadata.pop("selfLink", None)
        if subresource == "status":
            changed = {**old, "metadata": metadata}
            _set_status(changed, new.get("status"))
            new = changed
            strategy.prepare_for_status_update(new, old)
        elif resource.kind.status and not subresource:
            _set_status(new, old.get("status"))
        resource.schema.fill_defaults(new)
        if not subresource:
            strategy.prepare_for_update(new, old)
        errors += validate_meta_update(metadata, was)
        if not subresource:
            errors += [*strategy.validate(new), *strategy.validate_update(new, old)]
        elif subresource == "status":
            errors += strategy.validate_status_update(new, old)
        self._check(resource, name, errors)
        for review in self.reviews:
            review(resource, new, old, subresource)
        if new == old:
            return self.find(resource, was.get("namespace", ""), name)
        if resource.generation and not subresource and _content(resource, new) != _content(resource, old):
            metadata["generation"] = was.get("generation", 0) + 1
        if "deletionTimestamp" in metadata and not metadata.get("finalizers") and _is_removable(resource, new):
            return self.remove(resource, new, dry_run=dry_run)
        return self._store(resource, new, dry_run=dry_run)

    def _check_version(self, resource: Resource, metadata: Object, was: Object) -> None:
        name = was["name"]
        if metadata.get("uid", was["uid"]) != was["uid"]:
            why = f"Precondition failed: UID in precondition: {metadata['uid']}, UID in object meta: {was['uid']}"
            raise conflict(resource.kind, name, why)
        based_on, problem = _parsed_version(metadata)
        if problem:
            raise internal(problem)
        if not based_on and not resource.allow_unconditional_update:
            raise version_required(resource.kind, name)
        if based_on and based_on != int(was["resourceVersion"]):
            raise conflict(resource.kind, name, MODIFIED)

    def write(self, resource: Resource, obj: Object, *, dry_run: bool = False) -> Entry:
        """Stores a new state of an object without validation, for callers that have checked it."""
        return self._store(resource, obj, dry_run=dry_run)

    # Removing

    def remove(self, resource: Resource, obj: Object, *, dry_run: bool = False) -> Entry:
        """Removes an object from the store; `obj` is its last state."""
        stored = resource.schema.to_storage(obj)
        fields = resource.fields.read(stored)
        if dry_run:
            return Entry(stored, 0, fields)
        entry = self.store.remove(resource.collection, stored, fields)
        for notify in self.on_removed:
            notify(resource, entry)
        self._follow(resource, entry, removed=True)
        return entry


Admit = Callable[[RestStorage, Resource, Object], None]
Review = Callable[[Resource, Object, Object | None, str], None]
"""(resource, new, old, subresource): rejects an object; `old` is None for a create."""
Controller = Callable[[RestStorage, Resource, Entry], None]


class Written(Protocol):
    """A function that follows all writes."""

    def __call__(self, resource: Resource, entry: Entry, /, *, removed: bool) -> None:
        """Called after a write or a removal."""


def _parsed_version(metadata: Object) -> tuple[int, str]:
    """The resource version in a body, 0 if there is none, and Go's error if it is no number."""
    text = metadata.get("resourceVersion") or "0"
    if not (text.isascii() and text.isdigit()):
        return 0, f"strconv.ParseUint: parsing {quoted(text)}: invalid syntax"
    if len(text) > _LONGEST_VERSION or int(text) > _HIGHEST_VERSION:
        return 0, f"strconv.ParseUint: parsing {quoted(text)}: value out of range"
    return int(text), ""


def _set_status(obj: Object, status: Object | None) -> None:
    if status is None:
        obj.pop("status", None)
    else:
        obj["status"] = status


def _content(resource: Resource, obj: Object) -> Object:
    """The part of an object whose changes `metadata.generation` counts."""
    left_out = {"metadata", "status"} if resource.kind.status else {"metadata"}
    return {key: value for key, value in obj.items() if key not in left_out}


def _is_removable(resource: Resource, obj: Object) -> bool:
    """Whether an object that is being deleted waits for nothing else."""
    if resource.kind.plural == NAMESPACES and obj.get("spec", {}).get("finalizers"):
        return False
    return not obj["metadata"].get("deletionGracePeriodSeconds")


def ensure_matches_url(resource: Resource, namespace: str, metadata: Object, name: str = "") -> None:
    """Sets the namespace and the name from the URL. Raises 400 if the body has different ones."""
    if resource.kind.namespaced:
        if metadata.get("namespace", namespace) != namespace:
            raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
        metadata["namespace"] = namespace
    else:
        metadata.pop("namespace", None)
    if name and metadata.get("name", name) != name:
        raise bad_request(f"the name of the object ({metadata['name']}) does not match the name on the URL ({name})")
    if name:
        metadata["name"] = name

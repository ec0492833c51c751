"""Creating, changing and removing objects: the path that every write takes, whatever the kind.

Mirrors apiserver's pkg/registry/generic/registry/store.go and pkg/registry/rest.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from bayplan.api.times import rfc3339
from bayplan.clock import Clock
from bayplan.devcluster.apiserver.authorization.access import Access
from bayplan.devcluster.apiserver.resources import Resource
from bayplan.devcluster.apiserver.schema import Object
from bayplan.devcluster.apiserver.served import Served
from bayplan.devcluster.apiserver.status import (
    MODIFIED,
    StatusError,
    already_exists,
    bad_request,
    conflict,
    forbidden,
    internal,
    invalid,
    must_say_version,
    not_found,
)
from bayplan.devcluster.apiserver.store import Collection, Entry, Store, key_of
from bayplan.devcluster.apiserver.validation.meta import validate_meta, validate_meta_update

NAMESPACES = "namespaces"


@dataclass(slots=True)
class Registry:
    """The store and the rules of the kinds in it. All methods are synchronous: a write is one step."""

    store: Store
    clock: Clock
    served: Served
    access: Access
    on_removed: list[Callable[[Resource, Entry], None]] = field(default_factory=list)
    """Told of every object that has gone, and of every one that waits for its dependents or its contents."""
    on_owned: list[Callable[[str, str], None]] = field(default_factory=list)
    """Told (resource, key) of every object that is written with an owner that does not exist (any more)."""
    random: random.Random = field(default_factory=random.Random)

    def resource(self, group: str, version: str, plural: str) -> Resource | None:
        """The served resource of that name."""
        return self.served.find(group, version, plural)

    def collection(self, resource: Resource) -> Collection:
        """Where a resource's objects are."""
        return self.store.collection(resource.stored_as)

    def find(self, resource: Resource, namespace: str, name: str) -> Entry:
        """The object's newest version. Raises 404."""
        entry = self.collection(resource).objects.get(key_of(namespace, name))
        if entry is None:
            raise not_found(resource.kind, name)
        return entry

    def load(self, resource: Resource, namespace: str, name: str) -> Object:
        """A fresh copy of an object in the resource's own version. Raises 404."""
        return self.decoded(resource, self.find(resource, namespace, name))

    def decoded(self, resource: Resource, entry: Entry) -> Object:
        """A fresh copy of a stored object in the resource's own version."""
        obj = entry.load()
        return resource.from_storage(obj) if resource.from_storage is not None else obj

    # Creating

    def create(self, resource: Resource, namespace: str, obj: Object, *, dry_run: bool = False) -> Entry:
        """Stores a new object after defaulting, admission and validation. Raises StatusError.

        `obj` is normalized and becomes the registry's own.
        """
        kind = resource.kind
        metadata = obj["metadata"]
        place(resource, namespace, metadata)
        if metadata.get("resourceVersion"):
            raise internal("resourceVersion should not be set on objects to be created")
        if kind.namespaced:
            self._check_namespace(resource, namespace, metadata.get("name", ""))
        for system_field in ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "managedFields"):
            metadata.pop(system_field, None)
        if "generateName" in metadata and "name" not in metadata:
            metadata["name"] = metadata["generateName"][:58] + self.suffix()
        metadata["uid"] = str(uuid.UUID(int=self.random.getrandbits(128), version=4))
        metadata["creationTimestamp"] = rfc3339(self.clock.now())
        metadata.pop("generation", None)
        if resource.generation:
            metadata["generation"] = 1
        if kind.status and not resource.keeps_status:
            _set_status(obj, resource.shape.empty().get("status"))
        resource.default(obj)
        resource.admit(self, obj)
        resource.prepare(obj)
        name = metadata.get("name", "")
        self._check(
            resource, name, [*validate_meta(resource, metadata), *resource.validate(obj), *resource.validate_new(obj)]
        )
        collection = self.collection(resource)
        existing = collection.objects.get(key_of(namespace, name))
        if existing is not None:
            raise already_exists(kind, name, being_deleted=existing.terminating)
        return self._store(resource, obj, dry_run=dry_run)

    def suffix(self) -> str:
        """Five characters that no word is made of, as generated names end."""
        return "".join(self.random.choices("bcdfghjklmnpqrstvwxz2456789", k=5))

    def _check_namespace(self, resource: Resource, namespace: str, name: str) -> None:
        found = self.store.collection(NAMESPACES).objects.get(namespace)
        if found is None:
            raise StatusError(
                404,
                "NotFound",
                f'namespaces "{namespace}" not found',
                {"name": namespace, "kind": NAMESPACES},
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
        stored = resource.to_storage(obj) if resource.to_storage is not None else obj
        fields = resource.read_fields(stored)
        if dry_run:
            return Entry(stored, 0, fields)
        entry = self.store.put(resource.stored_as, stored, fields)
        if any(owner not in self.store.uids for owner in entry.owners):
            for told in self.on_owned:
                told(resource.stored_as, entry.key)
        if resource.follow is not None:
            resource.follow(self, resource, entry)
        return entry

    # Changing

    def update(
        self, resource: Resource, old: Object, new: Object, *, subresource: str = "", dry_run: bool = False
    ) -> Entry:
        """Replaces `old` (fresh from the store) by `new` (normalized). Raises StatusError.

        Through the subresource `status`, only the status and what may be written with it changes; otherwise all but
        the status does. An update that changes nothing is none: no version, no event.
        """
        metadata, was = new["metadata"], old["metadata"]
        name = was["name"]
        place(resource, was.get("namespace", ""), metadata, name)
        self._check_version(resource, metadata, was)
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
            resource.prepare_status(new, old)
        elif resource.kind.status and not subresource:
            _set_status(new, old.get("status"))
        resource.default(new)
        if not subresource:
            resource.prepare_update(new, old)
        errors = [*validate_meta_update(metadata, was)]
        if not subresource:
            errors += [*resource.validate(new), *resource.validate_update(new, old)]
        elif subresource == "status":
            errors += resource.validate_status(new, old)
        self._check(resource, name, errors)
        if new == old:
            return self.find(resource, was.get("namespace", ""), name)
        if resource.generation and not subresource and _content(resource, new) != _content(resource, old):
            metadata["generation"] = was.get("generation", 0) + 1
        if "deletionTimestamp" in metadata and not metadata.get("finalizers") and _may_go(resource, new):
            return self.remove(resource, new, dry_run=dry_run)
        return self._store(resource, new, dry_run=dry_run)

    def _check_version(self, resource: Resource, metadata: Object, was: Object) -> None:
        name = was["name"]
        if metadata.get("uid", was["uid"]) != was["uid"]:
            why = f"Precondition failed: UID in precondition: {metadata['uid']}, UID in object meta: {was['uid']}"
            raise conflict(resource.kind, name, why)
        based_on = metadata.get("resourceVersion", "")
        if not based_on and not resource.unconditional_update:
            raise must_say_version(resource.kind, name)
        if based_on and based_on != was["resourceVersion"]:
            raise conflict(resource.kind, name, MODIFIED)

    def write(self, resource: Resource, obj: Object, *, dry_run: bool = False) -> Entry:
        """Stores a new state of an object as it is, for subresources that have checked it themselves."""
        return self._store(resource, obj, dry_run=dry_run)

    # Removing

    def remove(self, resource: Resource, obj: Object, *, dry_run: bool = False) -> Entry:
        """Takes an object out of the store; `obj` is its last state."""
        stored = resource.to_storage(obj) if resource.to_storage is not None else obj
        fields = resource.read_fields(stored)
        if dry_run:
            return Entry(stored, 0, fields)
        entry = self.store.remove(resource.stored_as, stored, fields)
        for told in self.on_removed:
            told(resource, entry)
        if resource.follow is not None:
            resource.follow(self, resource, entry)
        return entry


def _set_status(obj: Object, status: Object | None) -> None:
    if status is None:
        obj.pop("status", None)
    else:
        obj["status"] = status


def _content(resource: Resource, obj: Object) -> Object:
    """What `metadata.generation` counts changes of."""
    left_out = {"metadata", "status"} if resource.kind.status else {"metadata"}
    return {key: value for key, value in obj.items() if key not in left_out}


def _may_go(resource: Resource, obj: Object) -> bool:
    """Whether an object that is being deleted has nothing left to wait for."""
    if resource.kind.plural == NAMESPACES and obj.get("spec", {}).get("finalizers"):
        return False
    return not obj["metadata"].get("deletionGracePeriodSeconds")


def place(resource: Resource, namespace: str, metadata: Object, name: str = "") -> None:
    """Checks that a body and its URL speak of the same object, and completes the body. Raises 400."""
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

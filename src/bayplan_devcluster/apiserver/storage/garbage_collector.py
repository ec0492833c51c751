"""Removes the dependents of removed owners, and the contents of namespaces that are being deleted.

Does what Kubernetes' garbage collector and namespace controller do, in short steps between requests.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from bayplan.core.api.kinds import CUSTOM_RESOURCE_DEFINITION
from bayplan_devcluster.apiserver.schema import Object
from bayplan_devcluster.apiserver.storage.deletion import FOREGROUND, ORPHAN, DeleteOptions, delete
from bayplan_devcluster.apiserver.storage.resource import Resource
from bayplan_devcluster.apiserver.storage.rest_storage import NAMESPACES, RestStorage
from bayplan_devcluster.apiserver.storage.store import Entry

Finalize = Callable[[RestStorage, Resource, Object], None]
"""Does some of the work that a deleted object waits for, and removes the object when no work is left."""

STEPS_AT_ONCE = 50
"""Objects handled before requests get their turn."""


class GarbageCollector:
    """Handles the objects that writes and removals have affected. `run` until cancelled.

    `finalize` has the functions that finalize objects of some kinds, by collection.
    """

    def __init__(self, storage: RestStorage, finalize: Mapping[str, Finalize]) -> None:
        self._storage = storage
        self._finalize = finalize
        self._queue: dict[tuple[str, str], None] = {}
        """(collection, key) of the objects to check, in order: they may have lost an owner, or no longer wait."""
        self._work = asyncio.Event()
        storage.on_removed.append(self._enqueue_affected)
        storage.on_orphaned.append(self._enqueue)

    def _enqueue_affected(self, resource: Resource, entry: Entry) -> None:
        """Enqueues the objects that a removal, or a deletion that waits, affects."""
        name = resource.collection
        self._enqueue(name, entry.key)
        for dependent in self._storage.store.dependents.get(entry.uid, ()):
            self._enqueue(*dependent)
        for owner in entry.owners:
            found = self._storage.store.uids.get(owner)
            if found is not None:
                self._enqueue(*found)
        if entry.namespace and self._is_terminating(entry.namespace):
            self._enqueue(NAMESPACES, entry.namespace)
        definition = self._storage.store.collection(CUSTOM_RESOURCE_DEFINITION.resource).objects.get(name)
        if definition is not None and definition.terminating:
            self._enqueue(CUSTOM_RESOURCE_DEFINITION.resource, name)

    def _is_terminating(self, namespace: str) -> bool:
        found = self._storage.store.collection(NAMESPACES).objects.get(namespace)
        return found is not None and found.fields["status.phase"] == "Terminating"

    def _enqueue(self, collection: str, key: str) -> None:
        self._queue[collection, key] = None
        self._work.set()

    async def run(self) -> None:
        """Handles objects until cancelled."""
        while True:
            await self._work.wait()
            self.work()
            await asyncio.sleep(0)

    def work(self) -> None:
        """Handles some of the queued objects."""
        for _ in range(STEPS_AT_ONCE):
            if not self._queue:
                self._work.clear()
                return
            name, key = next(iter(self._queue))
            del self._queue[name, key]
            entry = self._storage.store.collection(name).objects.get(key)
            resource = self._storage.served.stored(name)
            if entry is not None and resource is not None:
                self._handle(resource, entry)

    def _handle(self, resource: Resource, entry: Entry) -> None:
        obj = entry.load()
        finalizers = obj["metadata"].get("finalizers", ())
        if resource.kind.resource == NAMESPACES and self._is_terminating(entry.name):
            self._empty_namespace(resource, obj)
        elif "deletionTimestamp" in obj["metadata"] and ORPHAN in finalizers:
            self._orphan_dependents(entry.uid)
            self._drop_finalizer(resource, obj, ORPHAN)
        elif "deletionTimestamp" in obj["metadata"] and FOREGROUND in finalizers:
            self._delete_in_foreground(resource, obj)
        elif "deletionTimestamp" in obj["metadata"] and resource.collection in self._finalize:
            self._finalize[resource.collection](self._storage, resource, obj)
        elif entry.owners:
            self._check_owners(resource, obj)

    def _check_owners(self, resource: Resource, obj: Object) -> None:
        """Deletes an object if none of its owners exists; removes the references to those that do not."""
        metadata = obj["metadata"]
        existing = [owner for owner in metadata["ownerReferences"] if self._may_exist(owner)]
        if len(existing) == len(metadata["ownerReferences"]):
            return
        if existing:
            metadata["ownerReferences"] = existing
            self._storage.write(resource, obj)
        else:
            options = DeleteOptions(uid=metadata["uid"], propagation="Background")
            delete(self._storage, resource, metadata.get("namespace", ""), metadata["name"], options)

    def _may_exist(self, owner: Object) -> bool:
        """Whether an owner exists, or is of a kind that is not served here, so that it is unknown."""
        served = self._storage.served
        return self._storage.store.exists(owner["uid"]) or served.of_kind(owner["apiVersion"], owner["kind"]) is None

    def _orphan_dependents(self, uid: str) -> None:
        for name, key in list(self._storage.store.dependents.get(uid, ())):
            entry = self._storage.store.collection(name).objects[key]
            dependent = entry.load()
            owners = [owner for owner in dependent["metadata"]["ownerReferences"] if owner["uid"] != uid]
            if owners:
                dependent["metadata"]["ownerReferences"] = owners
            else:
                del dependent["metadata"]["ownerReferences"]
            resource = self._storage.served.stored(name)
            if resource is not None:
                self._storage.write(resource, dependent)

    def _delete_in_foreground(self, resource: Resource, obj: Object) -> None:
        """Deletes the dependents; removes the owner when no dependent blocks it any more."""
        uid = obj["metadata"]["uid"]
        blocked = False
        for name, key in list(self._storage.store.dependents.get(uid, ())):
            entry = self._storage.store.collection(name).objects[key]
            metadata = entry.load()["metadata"]
            blocks = any(
                owner["uid"] == uid and owner.get("blockOwnerDeletion") for owner in metadata["ownerReferences"]
            )
            dependent = self._storage.served.stored(name)
            if "deletionTimestamp" not in metadata and dependent is not None:
                options = DeleteOptions(uid=entry.uid, propagation="Foreground")
                delete(self._storage, dependent, entry.namespace, entry.name, options)
            blocked = blocked or (blocks and key in self._storage.store.collection(name).objects)
        if not blocked:
            self._drop_finalizer(resource, obj, FOREGROUND)

    def _drop_finalizer(self, resource: Resource, obj: Object, finalizer: str) -> None:
        new = {**obj, "metadata": {**obj["metadata"]}}
        left = [name for name in obj["metadata"]["finalizers"] if name != finalizer]
        if left:
            new["metadata"]["finalizers"] = left
            self._storage.write(resource, new)
        elif obj["metadata"].get("deletionGracePeriodSeconds"):
            del new["metadata"]["finalizers"]
            self._storage.write(resource, new)
        else:
            del new["metadata"]["finalizers"]
            self._storage.remove(resource, new)

    def _empty_namespace(self, resource: Resource, obj: Object) -> None:
        """Deletes the contents of a namespace, a few objects at a time, and then the namespace."""
        namespace = obj["metadata"]["name"]
        steps = STEPS_AT_ONCE
        for name, collection in self._storage.store.collections():
            contained = self._storage.served.stored(name)
            if contained is None or not contained.kind.namespaced:
                continue
            for entry in collection.select(namespace):
                if entry.terminating:
                    continue
                if not steps:
                    self._enqueue(NAMESPACES, namespace)
                    return
                steps -= 1
                delete(self._storage, contained, namespace, entry.name, DeleteOptions(propagation="Background"))
        left = any(each.select(namespace) for _, each in self._storage.store.collections())
        if not left and not obj["metadata"].get("finalizers"):
            del obj["spec"]
            self._storage.remove(resource, obj)

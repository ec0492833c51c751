"""Removing what belonged to something that is gone: dependents by their owner references, and a namespace's contents.

Mirrors what Kubernetes' garbage collector and namespace controller do, in steps between requests.
"""

from __future__ import annotations

import asyncio

from bayplan.api.kinds import CUSTOM_RESOURCE_DEFINITION
from bayplan.devcluster.apiserver.deletion import FOREGROUND, ORPHAN, DeleteOptions, delete
from bayplan.devcluster.apiserver.registry import NAMESPACES, Registry
from bayplan.devcluster.apiserver.resources import Resource
from bayplan.devcluster.apiserver.schema import Object
from bayplan.devcluster.apiserver.store import Entry

STEPS_AT_ONCE = 50
"""How many objects are dealt with before requests get their turn again."""


class GarbageCollector:
    """Works through what writes have left behind. `run` until cancelled."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._todo: dict[tuple[str, str], None] = {}
        """(resource, key) of objects to look at, in the order in which they were noticed: they may have lost an owner,
        or wait for something that has gone.
        """
        self._work = asyncio.Event()
        registry.on_removed.append(self._notice)
        registry.on_owned.append(self._look_at)

    def _notice(self, resource: Resource, entry: Entry) -> None:
        """Something has been removed, or waits to be."""
        name = resource.stored_as
        self._look_at(name, entry.key)
        for dependent in self._registry.store.dependents.get(entry.uid, ()):
            self._look_at(*dependent)
        for owner in entry.owners:
            place = self._registry.store.uids.get(owner)
            if place is not None:
                self._look_at(*place)
        if entry.namespace and self._is_terminating(entry.namespace):
            self._look_at(NAMESPACES, entry.namespace)
        definition = self._registry.store.collection(CUSTOM_RESOURCE_DEFINITION.resource).objects.get(name)
        if definition is not None and definition.terminating:
            self._look_at(CUSTOM_RESOURCE_DEFINITION.resource, name)

    def _is_terminating(self, namespace: str) -> bool:
        found = self._registry.store.collection(NAMESPACES).objects.get(namespace)
        return found is not None and found.fields["status.phase"] == "Terminating"

    def _look_at(self, resource: str, key: str) -> None:
        self._todo[resource, key] = None
        self._work.set()

    async def run(self) -> None:
        """Works until cancelled."""
        while True:
            await self._work.wait()
            self.work()
            await asyncio.sleep(0)

    def work(self) -> None:
        """Deals with some of the objects that have been noticed."""
        for _ in range(STEPS_AT_ONCE):
            if not self._todo:
                self._work.clear()
                return
            name, key = next(iter(self._todo))
            del self._todo[name, key]
            entry = self._registry.store.collection(name).objects.get(key)
            resource = self._registry.served.stored(name)
            if entry is not None and resource is not None:
                self._deal_with(resource, entry)

    def _deal_with(self, resource: Resource, entry: Entry) -> None:
        obj = entry.load()
        finalizers = obj["metadata"].get("finalizers", ())
        if resource.kind.resource == NAMESPACES and self._is_terminating(entry.name):
            self._empty_namespace(resource, obj)
        elif "deletionTimestamp" in obj["metadata"] and ORPHAN in finalizers:
            self._orphan_dependents(entry.uid)
            self._drop_finalizer(resource, obj, ORPHAN)
        elif "deletionTimestamp" in obj["metadata"] and FOREGROUND in finalizers:
            self._delete_in_foreground(resource, obj)
        elif "deletionTimestamp" in obj["metadata"] and resource.finish is not None:
            resource.finish(self._registry, resource, obj)
        elif entry.owners:
            self._check_owners(resource, obj)

    def _check_owners(self, resource: Resource, obj: Object) -> None:
        """Deletes an object all of whose owners are gone; of several, forgets those that are."""
        metadata = obj["metadata"]
        living = [owner for owner in metadata["ownerReferences"] if self._may_live(owner)]
        if len(living) == len(metadata["ownerReferences"]):
            return
        if living:
            metadata["ownerReferences"] = living
            self._registry.write(resource, obj)
        else:
            options = DeleteOptions(uid=metadata["uid"], propagation="Background")
            delete(self._registry, resource, metadata.get("namespace", ""), metadata["name"], options)

    def _may_live(self, owner: Object) -> bool:
        """Whether an owner is there, or of a kind that is not served here, of which nobody can tell."""
        served = self._registry.served
        return owner["uid"] in self._registry.store.uids or served.of_kind(owner["apiVersion"], owner["kind"]) is None

    def _orphan_dependents(self, uid: str) -> None:
        for name, key in list(self._registry.store.dependents.get(uid, ())):
            entry = self._registry.store.collection(name).objects[key]
            dependent = entry.load()
            owners = [owner for owner in dependent["metadata"]["ownerReferences"] if owner["uid"] != uid]
            if owners:
                dependent["metadata"]["ownerReferences"] = owners
            else:
                del dependent["metadata"]["ownerReferences"]
            resource = self._registry.served.stored(name)
            if resource is not None:
                self._registry.write(resource, dependent)

    def _delete_in_foreground(self, resource: Resource, obj: Object) -> None:
        """Deletes the dependents; the owner goes when those that block it have gone."""
        uid = obj["metadata"]["uid"]
        blocked = False
        for name, key in list(self._registry.store.dependents.get(uid, ())):
            entry = self._registry.store.collection(name).objects[key]
            metadata = entry.load()["metadata"]
            blocks = any(
                owner["uid"] == uid and owner.get("blockOwnerDeletion") for owner in metadata["ownerReferences"]
            )
            dependent = self._registry.served.stored(name)
            if "deletionTimestamp" not in metadata and dependent is not None:
                options = DeleteOptions(uid=entry.uid, propagation="Foreground")
                delete(self._registry, dependent, entry.namespace, entry.name, options)
            blocked = blocked or (blocks and key in self._registry.store.collection(name).objects)
        if not blocked:
            self._drop_finalizer(resource, obj, FOREGROUND)

    def _drop_finalizer(self, resource: Resource, obj: Object, finalizer: str) -> None:
        new = {**obj, "metadata": {**obj["metadata"]}}
        left = [name for name in obj["metadata"]["finalizers"] if name != finalizer]
        if left:
            new["metadata"]["finalizers"] = left
            self._registry.write(resource, new)
        elif resource.grace is not None and obj["metadata"].get("deletionGracePeriodSeconds"):
            del new["metadata"]["finalizers"]
            self._registry.write(resource, new)
        else:
            del new["metadata"]["finalizers"]
            self._registry.remove(resource, new)

    def _empty_namespace(self, resource: Resource, obj: Object) -> None:
        """Deletes what is in a namespace that is being deleted, a few objects at a time, and at last the namespace."""
        namespace = obj["metadata"]["name"]
        steps = STEPS_AT_ONCE
        for name, collection in self._registry.store.collections():
            contained = self._registry.served.stored(name)
            if contained is None or not contained.kind.namespaced:
                continue
            for entry in collection.select(namespace):
                if entry.terminating:
                    continue
                if not steps:
                    self._look_at(NAMESPACES, namespace)
                    return
                steps -= 1
                delete(self._registry, contained, namespace, entry.name, DeleteOptions(propagation="Background"))
        if not self._has_contents(namespace) and not obj["metadata"].get("finalizers"):
            del obj["spec"]
            self._registry.remove(resource, obj)

    def _has_contents(self, namespace: str) -> bool:
        return any(collection.select(namespace) for _, collection in self._registry.store.collections())

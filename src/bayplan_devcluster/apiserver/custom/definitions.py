"""The lifecycle of a CustomResourceDefinition: accepts its names, serves its resources, and removes its objects.

Mirrors apiextensions-apiserver's naming, establish and finalizer controllers, and its registry. The work of those
controllers is done here within the write that triggers it.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from bayplan_devcluster.apiserver.custom.conditions import is_true, set_condition
from bayplan_devcluster.apiserver.custom.resource import resources_of
from bayplan_devcluster.apiserver.encoding import encode
from bayplan_devcluster.apiserver.schema import Object
from bayplan_devcluster.apiserver.storage.deletion import DeleteOptions, delete
from bayplan_devcluster.apiserver.storage.resource import Resource
from bayplan_devcluster.apiserver.storage.rest_storage import RestStorage
from bayplan_devcluster.apiserver.storage.store import Entry

CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
DELETED_AT_ONCE = 50
"""How many objects of a terminating definition are deleted before the server handles other requests."""


def definition_warnings(definition: Object) -> Iterator[str]:
    """Yields what a client should know about a definition that it writes."""
    if (definition["spec"].get("conversion") or {}).get("strategy") == "Webhook":
        yield "stored; conversion webhooks are not called: each version has the same fields, as without conversion"


def prepare_definition(definition: Object) -> None:
    """Sets the initial status, with the storage version as the only stored version."""
    definition["status"] = {"acceptedNames": {"kind": "", "plural": ""}, "conditions": None, "storedVersions": None}
    _note_storage(definition)


def prepare_definition_update(new: Object, _old: Object) -> None:
    """Adds the storage version to the stored versions."""
    _note_storage(new)


def _note_storage(definition: Object) -> None:
    stored = definition["status"].get("storedVersions") or []
    storage = [version["name"] for version in definition["spec"].get("versions") or () if version.get("storage")][:1]
    definition["status"] = {**definition["status"], "storedVersions": stored + [v for v in storage if v not in stored]}


def follow_definition(storage: RestStorage, resource: Resource, entry: Entry) -> None:
    """Updates accepted names and served resources after a definition was written or removed."""
    current = storage.collection(resource).objects.get(entry.key)
    if current is None:
        storage.served.withdraw(entry.name)
        storage.store.collection(entry.name).wake()
        _recheck_names(storage, resource, entry)
        return
    if current.version != entry.version:
        return
    definition = current.load()
    if _accept_names(storage, resource, definition):
        storage.write(resource, definition)  # calls this function again
        _recheck_names(storage, resource, entry)
    elif is_true(definition, "Established"):
        _serve(storage, definition)


def _recheck_names(storage: RestStorage, resource: Resource, changed: Entry) -> None:
    """Checks the names of the other definitions of a group again, because names may have become free."""
    group = changed.load()["spec"]["group"]
    for entry in list(storage.collection(resource).objects.values()):
        if entry.name != changed.name and entry.name.endswith(f".{group}"):
            definition = entry.load()
            if _accept_names(storage, resource, definition):
                storage.write(resource, definition)


def _accept_names(storage: RestStorage, resource: Resource, definition: Object) -> bool:
    """Updates the accepted names and the conditions of a definition. Returns whether they changed."""
    wanted, accepted = definition["spec"]["names"], definition["status"].get("acceptedNames") or {}
    if wanted == accepted:
        return False
    resources, kinds = _taken(storage, resource, definition)
    names, reason, message = dict(accepted), "NoConflicts", "no conflicts found"
    for field, taken, conflict in (
        ("plural", resources, "PluralConflict"),
        ("singular", resources, "SingularConflict"),
        ("shortNames", resources, "ShortNamesConflict"),
        ("kind", kinds, "KindConflict"),
        ("listKind", kinds, "ListKindConflict"),
    ):
        in_use = [name for name in _new_names(wanted.get(field), accepted.get(field)) if name in taken]
        if in_use:
            errors = [f'"{name}" is already in use' for name in in_use]
            reason, message = conflict, errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]"
        else:
            _set(names, field, wanted.get(field))
    _set(names, "categories", wanted.get("categories"))
    before = {**definition["status"], "conditions": [*(definition["status"].get("conditions") or ())]}
    now = storage.clock.now()
    definition["status"]["acceptedNames"] = names
    no_conflicts = reason == "NoConflicts"
    set_condition(definition, now, "NamesAccepted", no_conflicts, reason, message)
    if not is_true(definition, "Established"):
        if no_conflicts:
            message = "the initial names have been accepted"
            set_condition(definition, now, "Established", True, "InitialNamesAccepted", message)
        else:
            set_condition(definition, now, "Established", False, "NotAccepted", "not all names are accepted")
    return bool(definition["status"] != before)


def _set(names: Object, field: str, value: object) -> None:
    if value:
        names[field] = value
    else:
        names.pop(field, None)


def _new_names(wanted: str | list[str] | None, accepted: str | list[str] | None) -> Iterator[str]:
    """The names that a definition requests and does not have yet."""
    had = [accepted] if isinstance(accepted, str) else accepted or []
    for name in [wanted] if isinstance(wanted, str) else wanted or []:
        if name not in had:
            yield name


def _taken(storage: RestStorage, resource: Resource, definition: Object) -> tuple[set[str], set[str]]:
    """The resource names and the kind names that other definitions of the group use."""
    resources: set[str] = set()
    kinds: set[str] = set()
    for entry in storage.collection(resource).objects.values():
        other = entry.load()
        same = entry.name == definition["metadata"]["name"]
        if same or other["spec"]["group"] != definition["spec"]["group"]:
            continue
        names = other["status"].get("acceptedNames") or {}
        resources |= {names.get("plural", ""), names.get("singular", ""), *(names.get("shortNames") or ())}
        kinds |= {names.get("kind", ""), names.get("listKind", "")}
    return resources - {""}, kinds - {""}


def _serve(storage: RestStorage, definition: Object) -> None:
    """Serves the resources of a definition, unless they are served already and have not changed."""
    name = definition["metadata"]["name"]
    source = encode([definition["spec"], definition["status"]["acceptedNames"]])
    if storage.served.source(name) == source:
        return
    served, stored = resources_of(definition)
    storage.served.define(served, stored, source)
    collection = storage.store.collection(name)
    for entry in collection.objects.values():
        entry.fields = stored.fields.read(entry.load())
    collection.wake()  # watches of the previous resources have to end


# Removal


def mark_definition_deleted(definition: Object, now: datetime) -> None:
    """Adds the finalizer that keeps a deleted definition until its objects are deleted."""
    metadata = definition["metadata"]
    if CLEANUP not in metadata.get("finalizers", ()):
        metadata["finalizers"] = [*metadata.get("finalizers", ()), CLEANUP]
    message = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"
    set_condition(definition, now, "Terminating", True, "InstanceDeletionPending", message)


def finish_definition(storage: RestStorage, resource: Resource, definition: Object) -> None:
    """Deletes some objects of a terminating definition; once there are none, removes the finalizer."""
    metadata = definition["metadata"]
    name = metadata["name"]
    if CLEANUP not in metadata.get("finalizers", ()):
        return
    now = storage.clock.now()
    stored = storage.served.stored(name) if storage.served.source(name) is not None else None
    left = list(storage.store.collection(name).objects.values()) if stored is not None else []
    if stored is not None and left:
        waiting = [entry for entry in left if not entry.terminating]
        message = "CustomResource deletion is in progress"
        set_condition(definition, now, "Terminating", True, "InstanceDeletionInProgress", message)
        if definition != storage.load(resource, "", name):
            storage.write(resource, definition)
        for entry in waiting[:DELETED_AT_ONCE]:
            delete(storage, stored, entry.namespace, entry.name, DeleteOptions(propagation="Background"))
        return
    if stored is None and is_true(definition, "Established"):
        message = "instances overlap with built-in resources in storage"
        set_condition(definition, now, "Terminating", False, "OverlappingBuiltInResource", message)
    elif stored is None:
        set_condition(definition, now, "Terminating", False, "NeverEstablished", "resource was never established")
    else:
        message = "removed all instances"
        set_condition(definition, now, "Terminating", False, "InstanceDeletionCompleted", message)
    finalizers = [one for one in metadata["finalizers"] if one != CLEANUP]
    if finalizers:
        metadata["finalizers"] = finalizers
        storage.write(resource, definition)
    else:
        del metadata["finalizers"]
        storage.remove(resource, definition)

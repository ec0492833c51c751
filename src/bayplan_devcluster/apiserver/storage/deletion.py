"""Deletes objects: grace periods, preconditions, finalizers and the propagation to dependents.

Mirrors BeforeDelete and Delete of apiserver's pkg/storage/rest and pkg/storage/generic/storage.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from bayplan.core.api import field_errors
from bayplan.core.api.field_errors import not_supported
from bayplan.core.api.kinds import Kind
from bayplan.core.api.status import StatusError, bad_request, invalid
from bayplan.core.api.times import rfc3339
from bayplan_devcluster.apiserver.schema import Object
from bayplan_devcluster.apiserver.storage.resource import Resource
from bayplan_devcluster.apiserver.storage.rest_storage import NAMESPACES, RestStorage
from bayplan_devcluster.apiserver.storage.store import Entry

OPTIONS = Kind("meta.k8s.io", "v1", "DeleteOptions", "", "", namespaced=False, model="meta_v1.DeleteOptions")
ORPHAN, FOREGROUND = "orphan", "foregroundDeletion"
POLICIES = {"Background": None, "Orphan": ORPHAN, "Foreground": FOREGROUND}


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """The options of a delete; None where the request leaves one out."""

    grace: int | None = None
    uid: str | None = None
    resource_version: str | None = None
    propagation: str | None = None
    dry_run: bool = False


def read_options(parameters: Mapping[str, str], given: Object) -> DeleteOptions:
    """Reads the options of a delete: each from the body (`given`) if it is there, else from the query.

    Raises 400 or 422.
    """
    grace = given.get("gracePeriodSeconds", parameters.get("gracePeriodSeconds"))
    errors = []
    policy = given.get("propagationPolicy", parameters.get("propagationPolicy"))
    orphan = given.get("orphanDependents", parameters.get("orphanDependents"))
    dry_run = given.get("dryRun") or ([parameters["dryRun"]] if parameters.get("dryRun") else [])
    if policy is not None and orphan is not None:
        detail = "orphanDependents and deletionPropagation cannot be both set"
        errors.append(field_errors.invalid("propagationPolicy", policy, detail))
    if policy is None and orphan is not None:
        policy = "Orphan" if orphan in {True, "true", "1"} else "Background"
    if policy is not None and policy not in POLICIES:
        supported = ("Foreground", "Background", "Orphan", "nil")
        errors.append(not_supported("propagationPolicy", policy, supported))
    if set(dry_run) - {"All"}:
        errors.append(not_supported("dryRun", dry_run, ("All",)))
    if errors:
        raise invalid(OPTIONS, "", errors)
    preconditions = given.get("preconditions") or {}
    try:
        seconds = None if grace is None else int(grace)
    except (TypeError, ValueError) as error:
        raise bad_request(f'strconv.ParseInt: parsing "{grace}": invalid syntax') from error
    return DeleteOptions(
        grace=1 if seconds is not None and seconds < 0 else seconds,
        uid=preconditions.get("uid"),
        resource_version=preconditions.get("resourceVersion"),
        propagation=policy,
        dry_run=bool(dry_run),
    )


def delete(
    storage: RestStorage, resource: Resource, namespace: str, name: str, options: DeleteOptions
) -> tuple[Entry, bool]:
    """Removes an object, or marks it as deleted. Returns its last state and whether it is removed. Raises 4xx."""
    obj = storage.load(resource, namespace, name)
    metadata = obj["metadata"]
    _check_preconditions(resource, metadata, options)
    if resource.kind.plural == NAMESPACES and not resource.kind.group:
        return _terminate_namespace(storage, resource, obj, options), False
    before = storage.find(resource, namespace, name)
    if "deletionTimestamp" not in metadata:
        resource.strategy.prepare_for_delete(obj, storage.clock.now())
    finalizers = _finalizers(storage, resource, metadata, options)
    waits = _set_grace(storage, resource, obj, options)
    if finalizers:
        metadata["finalizers"] = finalizers
        _mark(storage, metadata, 0)
    else:
        metadata.pop("finalizers", None)
        if not waits:
            return storage.remove(resource, obj, dry_run=options.dry_run), True
    if obj == storage.decode(resource, before):
        return before, False
    entry = storage.write(resource, obj, dry_run=options.dry_run)
    if finalizers and not options.dry_run:
        for notify in storage.on_removed:
            notify(resource, entry)
    return entry, False


def _check_preconditions(resource: Resource, metadata: Object, options: DeleteOptions) -> None:
    kind, name = resource.kind.kind, metadata["name"]
    for what, wanted, found, hint in (
        ("UID", options.uid, metadata["uid"], "The object might have been deleted and then recreated"),
        (
            "ResourceVersion",
            options.resource_version,
            metadata["resourceVersion"],
            "The object might have been modified",
        ),
    ):
        if wanted is not None and wanted != found:
            why = f"the {what} in the precondition ({wanted}) does not match the {what} in record ({found}). {hint}"
            group = resource.kind.group
            qualified = f"{kind}.{group}" if group else kind
            details = {"name": name, **({"group": group} if group else {}), "kind": kind}
            message = f'Operation cannot be fulfilled on {qualified} "{name}": {why}'
            raise StatusError(409, "Conflict", message, details)


def _finalizers(storage: RestStorage, resource: Resource, metadata: Object, options: DeleteOptions) -> list[str]:
    """Returns the object's finalizers, plus the one that the propagation policy requires."""
    own = [name for name in metadata.get("finalizers", ()) if name not in {ORPHAN, FOREGROUND}]
    policy = {ORPHAN, FOREGROUND} & set(metadata.get("finalizers", ()))
    if options.propagation is not None:
        wanted = POLICIES[options.propagation]
        policy = {wanted} if wanted is not None else set()
    elif not policy and resource.orphan_dependents:
        policy = {ORPHAN}
    if policy and metadata["uid"] not in storage.store.dependents:
        policy = set()
    return [*own, *sorted(policy)]


def _set_grace(storage: RestStorage, resource: Resource, obj: Object, options: DeleteOptions) -> bool:
    """Marks an object as deleted, if its kind has graceful deletion. Returns whether a client will remove it later."""
    metadata = obj["metadata"]
    current = metadata.get("deletionGracePeriodSeconds")
    if "deletionTimestamp" not in metadata:
        seconds = resource.strategy.grace_period(obj, options.grace)
        if seconds is None:
            return False
        _mark(storage, metadata, seconds)
        return seconds > 0
    if not current:
        return False
    if options.grace is None or options.grace >= current:
        return True
    now = storage.clock.now()
    moment = datetime.fromisoformat(metadata["deletionTimestamp"]) - timedelta(seconds=current - options.grace)
    seconds = options.grace
    if moment < now:
        moment, seconds = now, min(seconds, 1)
    metadata["deletionTimestamp"] = rfc3339(moment)
    metadata["deletionGracePeriodSeconds"] = seconds
    return seconds > 0


def _mark(storage: RestStorage, metadata: Object, seconds: int) -> None:
    if "deletionTimestamp" in metadata:
        return
    metadata["deletionTimestamp"] = rfc3339(storage.clock.now() + timedelta(seconds=seconds))
    metadata["deletionGracePeriodSeconds"] = seconds
    if metadata.get("generation"):
        metadata["generation"] += 1


def _terminate_namespace(storage: RestStorage, resource: Resource, obj: Object, options: DeleteOptions) -> Entry:
    """Marks a namespace as Terminating; the garbage collector removes it after its contents."""
    name = obj["metadata"]["name"]
    if name in {"default", "kube-system", "kube-public"}:
        raise StatusError(
            403,
            "Forbidden",
            f'namespaces "{name}" is forbidden: this namespace may not be deleted',
            {"name": name, "kind": "namespaces"},
        )
    before = storage.find(resource, "", name)
    if "deletionTimestamp" in obj["metadata"]:
        return before
    obj["metadata"]["deletionTimestamp"] = rfc3339(storage.clock.now())
    obj.setdefault("status", {})["phase"] = "Terminating"
    entry = storage.write(resource, obj, dry_run=options.dry_run)
    if not options.dry_run:
        for notify in storage.on_removed:
            notify(resource, entry)
    return entry

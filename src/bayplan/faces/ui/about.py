"""What every object has: its age, labels, conditions, and the objects that it belongs to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from bayplan.answers.insight.answers import QuestionError, listed
from bayplan.answers.snapshots import Snapshot
from bayplan.core.api.kinds import CONFIG_MAP, NODE, PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, POD, SECRET, Kind
from bayplan.faces.asking.events import mapping

NEVER_SHOWN = (SECRET, CONFIG_MAP)
"""Kinds whose contents the page never shows, also if a plugin reads them."""
_GOOD = {"Ready", "ContainersReady", "Initialized", "PodScheduled", "Available", "Progressing"}
_BAD = ("Pressure", "Unavailable", "Failure", "Failed", "DisruptionTarget")
"""Types of conditions that are good news if they are true, and how those end that are bad news. Others are neither."""

Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ObjectCondition:
    """A condition. `since`: when it changed last, as text; "" if unknown. `bad`: whether it is bad news."""

    type: str
    status: str
    since: str
    reason: str
    message: str

    @property
    def bad(self) -> bool:
        """Whether the condition is bad news."""
        return (self.type in _GOOD and self.status != "True") or (self.type.endswith(_BAD) and self.status != "False")


@dataclass(frozen=True, slots=True)
class Related:
    """Another object, and what it is to this one: `owner`, `claim`, `volume` or `node`. `address`: "" if unknown."""

    role: str
    name: str
    address: str


@dataclass(frozen=True, slots=True)
class About:
    """What an object has in common with all others. Times are texts, "" if unknown.

    `key`: `namespace/name`, or `name` for an object without a namespace.
    """

    kind: Kind
    name: str
    key: str
    uid: str
    created: str
    deleted: str
    labels: tuple[tuple[str, str], ...]
    annotations: tuple[tuple[str, str], ...]
    conditions: tuple[ObjectCondition, ...]
    related: tuple[Related, ...]

    @property
    def address(self) -> str:
        """The page with the YAML and the events."""
        return object_address(self.kind, self.key)


def object_address(kind: Kind, key: str) -> str:
    """Return the address of the page about any object."""
    return f"/objects/{quote(kind.resource)}/{quote(key)}"


def about(snapshot: Snapshot, kind: Kind, key: str) -> About:
    """Return what is known of an object. Raises QuestionError if it isn't in the snapshot, or is never shown."""
    document = document_of(snapshot, kind, key)
    metadata, status = mapping(document.get("metadata")), mapping(document.get("status"))
    conditions = (mapping(each) for each in _sequence(status.get("conditions")))
    return About(
        kind,
        str(document.get("kind", kind.kind)),
        key,
        _text(metadata, "uid"),
        _text(metadata, "creationTimestamp"),
        _text(metadata, "deletionTimestamp"),
        _pairs(metadata.get("labels")),
        _pairs(metadata.get("annotations")),
        tuple(
            ObjectCondition(
                _text(condition, "type"),
                _text(condition, "status"),
                _text(condition, "lastTransitionTime"),
                _text(condition, "reason"),
                _text(condition, "message"),
            )
            for condition in conditions
            if condition.get("type")
        ),
        tuple(_related(snapshot, kind, document)),
    )


def document_of(snapshot: Snapshot, kind: Kind, key: str) -> dict[str, Any]:
    """Return an object. Raises QuestionError if it isn't in the snapshot, or is never shown."""
    if kind in NEVER_SHOWN:
        raise QuestionError(f"the page never shows {kind.plural}")
    document = snapshot.document(kind, key)
    if document is None:
        where = f" in {snapshot.source}" if snapshot.source else ""
        name = key.rpartition("/")[2]
        others = sorted(other for other in snapshot.of_kind(kind) if other.rpartition("/")[2] == name)
        hint = f"; there is {listed(others)}" if others else ""
        raise QuestionError(f"there is no {kind.singular} {key}{where}{hint}")
    return document


def kind_of(snapshot: Snapshot, resource: str) -> Kind:
    """Return the kind of a resource such as `pods` or `deployments.apps`. Raises QuestionError if none is known."""
    shown = sorted((kind for kind in snapshot.documents if kind not in NEVER_SHOWN), key=lambda kind: kind.resource)
    for kind in (*shown, *NEVER_SHOWN):
        if resource == kind.resource:
            return kind
    known = listed([kind.resource for kind in shown], 40)
    raise QuestionError(f"there are no {resource} in {snapshot.source}; there are {known}")


def _related(snapshot: Snapshot, kind: Kind, document: Document) -> Iterator[Related]:
    metadata, spec = mapping(document.get("metadata")), mapping(document.get("spec"))
    namespace = _text(metadata, "namespace")
    by_name = {(each.api_version, each.kind): each for each in snapshot.documents}
    for owner in map(mapping, _sequence(metadata.get("ownerReferences"))):
        found = by_name.get((_text(owner, "apiVersion"), _text(owner, "kind")))
        yield _link(snapshot, "owner", found, namespace, _text(owner, "name"), _text(owner, "kind").lower())
    if kind == POD:
        for each in map(mapping, _sequence(spec.get("volumes"))):
            if claim := _text(mapping(each.get("persistentVolumeClaim")), "claimName"):
                yield _link(snapshot, "claim", PERSISTENT_VOLUME_CLAIM, namespace, claim)
        if node := _text(spec, "nodeName"):
            yield _link(snapshot, "node", NODE, "", node)
    elif kind == PERSISTENT_VOLUME_CLAIM and (volume := _text(spec, "volumeName")):
        yield _link(snapshot, "volume", PERSISTENT_VOLUME, "", volume)
    elif kind == PERSISTENT_VOLUME and (of := mapping(spec.get("claimRef"))):
        yield _link(snapshot, "claim", PERSISTENT_VOLUME_CLAIM, _text(of, "namespace"), _text(of, "name"))


def _link(snapshot: Snapshot, role: str, kind: Kind | None, namespace: str, name: str, singular: str = "") -> Related:
    key = f"{namespace}/{name}" if namespace and (kind is None or kind.namespaced) else name
    known = kind is not None and key in snapshot.of_kind(kind)
    return Related(role, f"{singular} {key}".strip(), object_address(kind, key) if kind is not None and known else "")


def _sequence(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(document: Document, name: str) -> str:
    value = document.get(name)
    return "" if value is None else str(value)


def _pairs(value: Any) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((str(name), str(text)) for name, text in mapping(value).items()))

"""ProvisioningRequests of autoscaling.x-k8s.io/v1: what a request asks for, what was answered, and where room is held.

A request names PodTemplates and how many pods of each are to have room together. Its conditions are the answer. The
places that are held for it are in `status.provisioningClassDetails`, so that a restart and another leader know them.
Requests are decoded leniently: added or removed fields do no harm.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

import msgspec

from bayplan.core.api.kinds import custom_kind

PROVISIONING_REQUESTS = "provisioningrequests.v1.autoscaling.x-k8s.io"
PROVISIONING_REQUEST = custom_kind(PROVISIONING_REQUESTS)
KIND = "ProvisioningRequest"
API_VERSION = PROVISIONING_REQUEST.api_version
CONSUMES = (
    "autoscaling.x-k8s.io/consume-provisioning-request",
    "cluster-autoscaler.kubernetes.io/consume-provisioning-request",
)
"""Annotations with which a pod names the request whose room it takes. The first one counts."""
MARK = "~"
"""In the names of pods that stand for places of requests. Names of real pods can't have it."""

ACCEPTED, PROVISIONED, FAILED = "Accepted", "Provisioned", "Failed"
EXPIRED, REVOKED = "BookingExpired", "CapacityRevoked"
VALID_UNTIL, NO_RETRY = "ValidUntilSeconds", "noRetry"
PREEMPTION, BOOKING = "preemption", "bookingSeconds"
BOOKING_SECONDS = 600
"""How long room is held unless the request says otherwise: as long as cluster-autoscaler holds it."""

_HELD = "held-"
_LONGEST_DETAIL = 30_000
"""Characters. The API allows 32,768."""


class _Reference(msgspec.Struct):
    name: str = ""


class PodSet(msgspec.Struct):
    """An item of `podSets`: so many pods of a template."""

    count: int = 0
    podTemplateRef: _Reference = msgspec.field(default_factory=_Reference)

    @property
    def template(self) -> str:
        """The name of the PodTemplate."""
        return self.podTemplateRef.name


class _Spec(msgspec.Struct):
    provisioningClassName: str = ""
    podSets: list[PodSet] = []
    parameters: dict[str, str] | None = None


class Condition(msgspec.Struct, omit_defaults=True):
    """A condition of a request."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    lastTransitionTime: datetime | None = None


class _Status(msgspec.Struct):
    conditions: list[Condition] | None = None
    provisioningClassDetails: dict[str, str] | None = None


class _Metadata(msgspec.Struct):
    name: str
    namespace: str = "default"
    uid: str = ""
    creationTimestamp: datetime | None = None


class _Document(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status | None = None


@dataclass(frozen=True, slots=True)
class ProvisioningRequest:
    """A request, and how it was answered so far."""

    name: str
    namespace: str
    uid: str
    created: datetime | None
    class_name: str
    pod_sets: Sequence[PodSet]
    parameters: Mapping[str, str] = field(default_factory=dict)
    conditions: Mapping[str, Condition] = field(default_factory=dict)
    details: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> ProvisioningRequest:
        """Read a request. Raises msgspec.ValidationError."""
        read = msgspec.convert(document, _Document)
        status = read.status or _Status()
        return cls(
            read.metadata.name,
            read.metadata.namespace,
            read.metadata.uid or f"{read.metadata.namespace}/{read.metadata.name}",
            read.metadata.creationTimestamp,
            read.spec.provisioningClassName,
            read.spec.podSets,
            read.spec.parameters or {},
            {each.type: each for each in status.conditions or ()},
            status.provisioningClassDetails or {},
        )

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"

    @property
    def count(self) -> int:
        """How many pods it asks for."""
        return sum(each.count for each in self.pod_sets)

    def is_true(self, condition: str) -> bool:
        """Whether a condition is true."""
        found = self.conditions.get(condition)
        return found is not None and found.status == "True"

    @property
    def ended(self) -> bool:
        """Whether nothing more is decided about it, and nothing is held for it."""
        return any(map(self.is_true, (FAILED, EXPIRED, REVOKED)))

    @property
    def holds(self) -> bool:
        """Whether room was found for it here, and may still be held."""
        return self.is_true(PROVISIONED) and not self.ended and any(name.startswith(_HELD) for name in self.details)

    def seconds(self, parameter: str, default: float | None = None) -> float | None:
        """A parameter that is a number of seconds. Raises ValueError, whose message says what is expected."""
        text = self.parameters.get(parameter)
        if text is None:
            return default
        if not (text.isascii() and text.isdigit()) or not 0 < int(text) < _MOST_SECONDS:
            raise ValueError(f"parameter {parameter}: expected a number of seconds such as 600, got {text!r}")
        return float(text)

    def switch(self, parameter: str) -> bool:
        """A parameter that is on or off, and off by default. Raises ValueError."""
        text = self.parameters.get(parameter, "false")
        if text not in {"true", "false"}:
            raise ValueError(f'parameter {parameter}: expected "true" or "false", got {text!r}')
        return text == "true"


_MOST_SECONDS = 10 * 366 * 86_400


def held_places(details: Mapping[str, str]) -> dict[int, dict[str, int]]:
    """How many places are held on which nodes, by the number of the pod set. What can't be read is left out."""
    found: dict[int, dict[str, int]] = {}
    for name, text in details.items():
        number = name.removeprefix(_HELD).partition(".")[0]
        if not name.startswith(_HELD) or not number.isdigit():
            continue
        try:
            found.setdefault(int(number), {}).update(msgspec.json.decode(text, type=dict[str, int]))
        except (msgspec.MsgspecError, ValueError):
            continue
    return found


def details_of(held: Mapping[int, Mapping[str, int]]) -> dict[str, str]:
    """The details that `held_places` reads. Long ones are in several parts."""
    details = {}
    for number, nodes in held.items():
        for part, text in enumerate(_parts(nodes)):
            details[f"{_HELD}{number}.{part}" if part else f"{_HELD}{number}"] = text
    return details


def is_held_detail(name: str) -> bool:
    """Whether a detail says where room is held."""
    return name.startswith(_HELD)


def _parts(nodes: Mapping[str, int]) -> Iterator[str]:
    part: dict[str, int] = {}
    length = 0
    for node, count in nodes.items():
        length += len(node) + 16
        if part and length > _LONGEST_DETAIL:
            yield msgspec.json.encode(part).decode()
            part, length = {}, len(node) + 16
        part[node] = count
    yield msgspec.json.encode(part).decode()


class NamedPod(Protocol):
    """A pod with its names, such as a PodInfo."""

    @property
    def namespace(self) -> str:
        """The namespace of the pod."""

    @property
    def name(self) -> str:
        """The name of the pod."""


def is_provisioned(pod: NamedPod) -> bool:
    """Whether a pod stands for a place of a request, and doesn't exist in the API server."""
    return MARK in pod.name


def request_of(pod: NamedPod) -> str:
    """`namespace/name` of the request that a place belongs to."""
    return f"{pod.namespace}/{pod.name.partition(MARK)[0]}"


def set_of(pod: NamedPod) -> int:
    """The number of the pod set that a place belongs to."""
    return int(pod.name.partition(MARK)[2].partition("-")[0])


def place_name(request: str, number: int, index: int) -> str:
    """The name of the pod that stands for a place of the request with this name or uid."""
    return f"{request}{MARK}{number}-{index}"


def consumed_by(annotations: Mapping[str, str]) -> str:
    """The name of the request whose room a pod takes; "" if it names none."""
    return next((annotations[name] for name in CONSUMES if annotations.get(name)), "")

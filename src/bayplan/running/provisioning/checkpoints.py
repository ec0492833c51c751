"""The desk in the checkpoints of a recording: the requests, their places, and who has them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec
from lightkube.models.core_v1 import Pod
from msgspec.structs import replace

from bayplan.core.api.kinds import PERSISTENT_VOLUME_CLAIM, POD, POD_TEMPLATE, RESOURCE_CLAIM
from bayplan.core.api.objects import UndecodableObject, decode, encode
from bayplan.core.api.provisioning import KIND, ProvisioningRequest
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.running.provisioning.bookings import Booking, BookingStage

_CLAIMS = {kind.kind: kind for kind in (RESOURCE_CLAIM, PERSISTENT_VOLUME_CLAIM)}


class _RecordedPlace(msgspec.Struct, array_like=True):
    """A pod that stands for a place. `scheduler`: the profile that decides it. `claims`: kind and JSON of each."""

    raw: bytes
    scheduler: str
    claims: list[tuple[str, bytes]] = []


class _RecordedBooking(msgspec.Struct, array_like=True):
    """A Booking. Its request is among the objects."""

    key: str
    stage: str
    pods: dict[str, _RecordedPlace]
    places: dict[str, str]
    held: list[str]
    consumers: dict[str, str]
    lent: dict[str, str]
    unseen: int
    expires: float | None
    valid_until: float | None
    waits_for: list[str]
    pod_group: str
    preempts: bool
    retries: bool
    message: str
    again: bool


class RecordedDesk(msgspec.Struct, array_like=True):
    """The bookings, and the keys of those that wait until fewer pods are in the queue."""

    bookings: list[_RecordedBooking]
    later: list[str]


def recorded(bookings: Iterable[Booking], later: Iterable[str]) -> Callable[[], bytes]:
    """Return what encodes the bookings as they are now. It may be called in another thread, and later."""
    noted = [_noted(each) for each in bookings]
    waiting = list(later)
    return lambda: msgspec.msgpack.encode(RecordedDesk([make() for make in noted], waiting))


def _noted(booking: Booking) -> Callable[[], _RecordedBooking]:
    pods, claims = dict(booking.pods), {uid: list(each) for uid, each in booking.claims.items()}
    rest = (
        dict(booking.places),
        sorted(booking.held),
        dict(booking.consumers),
        dict(booking.lent),
        booking.unseen,
        _seconds(booking.expires),
        _seconds(booking.valid_until),
        sorted(booking.waits_for),
        booking.pod_group,
        booking.preempts,
        booking.retries,
        booking.message,
        booking.again,
    )
    key, stage = booking.key, booking.stage.value

    def place(uid: str, pod: PodInfo) -> _RecordedPlace:
        own = [(kind.kind, encode(claim)) for kind, claim in claims.get(uid, ())]
        return _RecordedPlace(encode(pod.object), pod.scheduler_name, own)

    return lambda: _RecordedBooking(key, stage, {uid: place(uid, pod) for uid, pod in pods.items()}, *rest)


@dataclass(frozen=True, slots=True)
class DeskNames:
    """What replaces the names in a recorded desk.

    `key`: maps a domain, such as "podgroup", and `namespace/name` to another one. `raw`: maps the name of a kind and
    the JSON of an object. `message`: maps a text for people.
    """

    uid: Callable[[str], str]
    node: Callable[[str], str]
    key: Callable[[str, str], str]
    raw: Callable[[str, bytes], bytes]
    message: Callable[[str], str]


def renamed(data: bytes, names: DeskNames) -> bytes:
    """Replace the names in what `recorded` has encoded. Raises msgspec.MsgspecError."""
    if not data:
        return data
    desk, uid = msgspec.msgpack.decode(data, type=RecordedDesk), names.uid

    def place(each: _RecordedPlace) -> _RecordedPlace:
        claims = [(kind, names.raw(kind, raw)) for kind, raw in each.claims]
        return _RecordedPlace(names.raw(POD.kind, each.raw), each.scheduler, claims)

    def booking(each: _RecordedBooking) -> _RecordedBooking:
        return replace(
            each,
            key=names.key(KIND.lower(), each.key),
            pods={uid(own): place(pod) for own, pod in each.pods.items()},
            places={uid(own): names.node(node) for own, node in each.places.items()},
            held=sorted(map(uid, each.held)),
            consumers={uid(pod): uid(own) for pod, own in each.consumers.items()},
            lent={uid(pod): uid(own) for pod, own in each.lent.items()},
            waits_for=sorted(names.key(POD_TEMPLATE.kind.lower(), key) for key in each.waits_for),
            pod_group=names.key("podgroup", each.pod_group),
            message=names.message(each.message),
        )

    later = [names.key(KIND.lower(), key) for key in desk.later]
    return msgspec.msgpack.encode(RecordedDesk([booking(each) for each in desk.bookings], later))


def restored(
    data: bytes, request_of: Callable[[str], ProvisioningRequest | None]
) -> tuple[dict[str, Booking], list[str]]:
    """Return the bookings by key, and those that wait. `request_of`: reads the request with a key.

    Raises ValueError.
    """
    try:
        desk = msgspec.msgpack.decode(data, type=RecordedDesk)
        found = {each.key: _booking(each, request) for each in desk.bookings if (request := request_of(each.key))}
    except (msgspec.MsgspecError, UndecodableObject, KeyError, OverflowError) as error:
        raise ValueError(f"the recorded provisioning requests can't be read: {error}") from None
    return found, [key for key in desk.later if key in found]


def _booking(each: _RecordedBooking, request: ProvisioningRequest) -> Booking:
    asked = each.stage == BookingStage.ASKED.value
    known = each.places.keys() <= each.pods.keys() and {*each.held, *each.lent.values()} <= each.places.keys()
    if not known or (asked and not each.pods):
        raise ValueError(f"the recorded provisioning request {each.key} has places without pods")
    return Booking(
        request,
        BookingStage(each.stage),
        pods=dict(_pods(each.pods)),
        claims={uid: list(_claims(place)) for uid, place in each.pods.items() if place.claims},
        places=each.places,
        held=set(each.held),
        consumers=each.consumers,
        lent=each.lent,
        unseen=each.unseen,
        expires=_date(each.expires),
        valid_until=_date(each.valid_until),
        waits_for=set(each.waits_for),
        pod_group=each.pod_group,
        preempts=each.preempts,
        retries=each.retries,
        message=each.message,
        again=each.again,
    )


def _pods(places: Mapping[str, _RecordedPlace]) -> Iterator[tuple[str, PodInfo]]:
    for uid, place in places.items():
        pod = PodInfo(decode(Pod, place.raw))
        pod.scheduler_name = place.scheduler
        yield uid, pod


def _claims(place: _RecordedPlace) -> Iterator[tuple[Any, Any]]:
    for name, raw in place.claims:
        kind = _CLAIMS[name]
        yield kind, decode(kind.type, raw)


def _seconds(at: datetime | None) -> float | None:
    return None if at is None else at.timestamp()


def _date(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)

"""The desk in the checkpoints of a recording: the requests, their places, and who has them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec
from lightkube.models.core_v1 import Pod

from bayplan.core.api.kinds import PERSISTENT_VOLUME_CLAIM, RESOURCE_CLAIM
from bayplan.core.api.objects import UndecodableObject, decode, encode
from bayplan.core.api.provisioning import ProvisioningRequest
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

"""The pods that name a request, and the places that they take.

A pending pod of this scheduler gets a place lent: the place counts on its node no longer, and the pod is nominated to
that node instead, so that no other pod of its priority or lower takes the room (`lending.py`). Once it is bound,
wherever, the place is taken. If it is deleted before that, the place is held again. Pods of another scheduler take
their place when they are bound.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Protocol

from bayplan.core.api.kinds import POD
from bayplan.core.api.provisioning import consumed_by, is_provisioned, request_of
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.executor.runtime import Runtime
from bayplan.core.expansion.own_claims import OwnClaim
from bayplan.core.scheduling import Unit
from bayplan.running.provisioning.bookings import Booking, BookingStage, covers
from bayplan.running.provisioning.lending import Lending


class HeldPlaces(Protocol):
    """What holds places on nodes."""

    def hold(self, booking: Booking, uid: str, node_name: str) -> None:
        """Count a place on its node."""

    def free(self, booking: Booking, uid: str) -> None:
        """Count a place no longer."""

    def lend(self, booking: Booking, uid: str) -> None:
        """Count a place no longer, but keep its claims."""

    def tell_places(self, booking: Booking) -> None:
        """Let the status say where room is held."""


class Consumers:
    """Knows the pods that name requests. `alone`: whether another scheduler places them.

    `leads`: whether this process writes.
    """

    def __init__(self, *, alone: bool) -> None:
        self.leads = False
        self._alone = alone
        self._named: dict[str, dict[str, str]] = {}
        """By the key of a request: the pods that name it, as uid -> key."""
        self._request_of: dict[str, str] = {}
        """By the uid of such a pod: the key of the request."""
        self._kept: dict[str, str] = {}
        """By the uid of a pending pod: the node of the place that is lent to it."""

    def connect(self, runtime: Runtime, bookings: Mapping[str, Booking], places: HeldPlaces) -> None:
        """Set where pods and requests are."""
        self._runtime, self._bookings, self._places = runtime, bookings, places
        self._lending = Lending(runtime.state, self._claims_lent_to)
        self._profiles: Container[str] = runtime.profiles
        self._store = runtime.state.objects[POD]

    def restore(self) -> None:
        """Take up who has which places, once a checkpoint has been restored."""
        for booking in self._bookings.values():
            for uid, place in booking.lent.items():
                self._kept[uid] = booking.places[place]
                key = self._named.get(booking.key, {}).get(uid, "")
                if (pod := self._store.get(key)) is not None:
                    pod.nominated_node_name = booking.places[place]
                    self._lending.begin(pod, booking.pods[place], booking.places[place])

    def node_kept_for(self, uid: str) -> str:
        """The node of the place that is lent to a pending pod; "" if there is none."""
        return self._kept.get(uid, "")

    def lending(self, unit: Unit) -> AbstractContextManager[None]:
        """A context in which what is kept for the pods of a unit is free for them."""
        return self._lending.to(unit) if self._kept else nullcontext()

    def nominate_again(self, pod: PodInfo) -> None:
        """A pod that has a place is still pending."""
        if booking_and_place := self._place_of(pod.uid):
            booking, place = booking_and_place
            self._lending.begin(pod, booking.pods[place], booking.places[place])
            self._lending.keep(pod.uid)

    def _place_of(self, uid: str) -> tuple[Booking, str] | None:
        booking = self._bookings.get(self._request_of.get(uid, ""))
        place = None if booking is None else booking.lent.get(uid)
        return None if booking is None or place is None else (booking, place)

    def _claims_lent_to(self, uid: str) -> Iterable[OwnClaim]:
        booking_and_place = self._place_of(uid)
        return () if booking_and_place is None else booking_and_place[0].claims.get(booking_and_place[1], ())

    def pod_changed(self, before: PodInfo | None, now: PodInfo | None) -> None:
        """A pod came, changed, or is gone."""
        if now is None:
            if before is not None and before.uid in self._request_of:
                self._forget(before.uid)
            return
        if is_provisioned(now):
            return
        if before is not None and before.uid != now.uid and before.uid in self._request_of:
            self._forget(before.uid)
        name = consumed_by(now.annotations)
        if not name:
            return
        key = f"{now.namespace}/{name}"
        self._named.setdefault(key, {})[now.uid] = now.key
        self._request_of[now.uid] = key
        booking = self._bookings.get(key)
        if booking is not None and booking.stage is BookingStage.HELD:
            self._consider(booking, now)

    def came(self, booking: Booking) -> None:
        """A request has its room: let the pods have it that were there before."""
        for key in list(self._named.get(booking.key, {}).values()):
            pod: PodInfo | None = self._store.get(key)
            if pod is not None and booking.stage is BookingStage.HELD:
                self._consider(booking, pod)

    def left(self, booking: Booking) -> None:
        """A request holds nothing any more. Pods keep the nominations that they have."""
        for uid in booking.lent:
            self._kept.pop(uid, None)
            self._lending.end(uid)
        booking.lent.clear()

    def _consider(self, booking: Booking, pod: PodInfo) -> None:
        uid = pod.uid
        if uid in booking.lent:
            self._follow(booking, pod)
        elif uid in booking.consumers or pod.terminating or pod.terminated:
            return
        elif pod.node_name:
            self._take(booking, pod)
        elif not self._alone and pod.scheduler_name in self._profiles and not pod.scheduling_gates:
            self._lend(booking, pod)

    def _take(self, booking: Booking, pod: PodInfo) -> None:
        """A pod on a node takes its place."""
        if booking.unseen:
            booking.unseen -= 1
            booking.consumers[pod.uid] = ""
            return
        place = booking.place_for(pod)
        if place is not None:
            booking.consumers[pod.uid] = place
            node = booking.places.pop(place)
            self._afterwards(partial(self._end_place, booking, place, node, pod))
            self._places.tell_places(booking)

    def _end_place(self, booking: Booking, place: str, node: str, pod: PodInfo) -> None:
        """Free a place on a node whose pod is bound. Another scheduler may have bound it where other room is held."""
        freed = booking.pods.get(place)
        self._places.free(booking, place)
        if self._alone and freed is not None and pod.node_name != node:
            self._swap(pod.node_name, node, freed)

    def _swap(self, crowded: str, node: str, freed: PodInfo) -> None:
        """Hold a place on the node that has become free, in place of the node that is taken now, if that has too much.

        Otherwise the node with too much would hide that the room of a place is gone, and it would be given twice.
        """
        nodes = self._runtime.state.nodes
        position = nodes.position(crowded)
        if position is None or not any(
            nodes.requested(name)[position] > nodes.allocatable(name)[position] for name in freed.requested
        ):
            return
        for pod in nodes.pods(position):
            booking = self._bookings.get(request_of(pod)) if is_provisioned(pod) else None
            if booking is not None and pod.uid in booking.held and covers(freed, pod):
                self._places.hold(booking, pod.uid, node)
                self._places.tell_places(booking)
                return

    def _lend(self, booking: Booking, pod: PodInfo) -> None:
        """Keep the room of a place for a pending pod."""
        place = booking.place_for(pod)
        if place is None:
            return
        node = booking.places[place]
        booking.lent[pod.uid], self._kept[pod.uid] = place, node
        booking.held.discard(place)
        pod.nominated_node_name = node
        self._afterwards(partial(self._nominate, booking, pod, place))

    def _nominate(self, booking: Booking, pod: PodInfo, place: str) -> None:
        if node := self._kept.get(pod.uid):
            self._places.lend(booking, place)
            self._lending.begin(pod, booking.pods[place], node)
            if self.leads:
                self._runtime.ports.statuses.nominate(pod, node)

    def _follow(self, booking: Booking, pod: PodInfo) -> None:
        """A pod has changed to which a place is lent."""
        place = booking.lent[pod.uid]
        if pod.node_name:
            del booking.lent[pod.uid], self._kept[pod.uid], booking.places[place]
            booking.consumers[pod.uid] = place
            self._lending.end(pod.uid)
            self._afterwards(partial(self._places.free, booking, place))
            self._places.tell_places(booking)
        elif pod.terminating or pod.terminated:
            self._give_back(booking, pod.uid)
        else:
            pod.nominated_node_name = booking.places[place]

    def _forget(self, uid: str) -> None:
        """A pod is gone that names a request."""
        key = self._request_of.pop(uid)
        named = self._named.get(key, {})
        named.pop(uid, None)
        if not named:
            self._named.pop(key, None)
        booking = self._bookings.get(key)
        if booking is not None and uid in booking.lent:
            self._give_back(booking, uid)

    def _give_back(self, booking: Booking, uid: str) -> None:
        """Hold a place again whose pod has gone without being bound."""
        place = booking.lent.pop(uid)
        del self._kept[uid]
        self._lending.end(uid)
        node = booking.places[place]
        booking.held.add(place)
        self._afterwards(partial(self._hold_again, booking, place, node))

    def _hold_again(self, booking: Booking, place: str, node: str) -> None:
        if place in booking.held:
            self._places.hold(booking, place, node)

    def _afterwards(self, step: partial[None]) -> None:
        """Take a step once the change that is being applied is complete, in which listeners are being called."""
        self._runtime.intake.afterwards(step)

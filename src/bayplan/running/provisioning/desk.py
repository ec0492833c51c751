"""The desk: where provisioning requests come in, are answered, hold their room, and end.

    INCOMPLETE --all templates are there--> ASKED --its gang is placed--> HELD --expired, revoked, deleted--> ENDED

The desk follows the stores of requests and templates, of pods that take places (`consumers.py`), and of nodes. Its
changes of the state go through the handler of pods, as those of a watch do. It belongs to the scheduler's event loop;
`run` is for the leader only, and has the deadlines and the writes. A process that does not lead follows the status of
requests, and holds the same room.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from lightkube.models.resource_v1 import AllocationResult

from bayplan.core.api import provisioning as api
from bayplan.core.api.kinds import NODE, POD
from bayplan.core.api.provisioning import PROVISIONING_REQUESTS, ProvisioningRequest, request_of
from bayplan.core.api.times import rfc3339, with_zone
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.executor.handlers import Receiver
from bayplan.core.executor.ports import Ports
from bayplan.core.executor.runtime import Runtime
from bayplan.core.framework.gangs import Gang, GangOutcome
from bayplan.core.framework.handle import Handle
from bayplan.core.framework.profile import Profile
from bayplan.core.scheduling import Unit
from bayplan.running.provisioning import checkpoints, reasons
from bayplan.running.provisioning.bookings import Booking, BookingStage
from bayplan.running.provisioning.conditions import RequestStatuses
from bayplan.running.provisioning.consumers import Consumers
from bayplan.running.provisioning.deadlines import Deadlines
from bayplan.running.provisioning.objects import OwnObjects, allocated
from bayplan.running.provisioning.opening import CannotAskError, Opening
from bayplan.running.provisioning.options import ProvisioningOptions
from bayplan.running.provisioning.plugin import ProvisioningRequests
from bayplan.running.provisioning.ports import ports_with_requests
from bayplan.running.provisioning.profiles import with_requests
from bayplan.running.provisioning.room import Rooms, Wants, wants_of

log = logging.getLogger(__name__)

MOST_PODS = 100_000
"""How many pods of requests are in the queue at most. Further requests wait for their turn."""
_GRACE = timedelta(seconds=10)
"""How long a PodTemplate may be missing: its watch may be behind that of the request."""

BuildProfiles = Callable[[Handle], Mapping[str, Profile]]


class Desk:
    """Answers the provisioning requests of one scheduler. `logger`: where it says what it does."""

    def __init__(self, options: ProvisioningOptions | None = None, logger: logging.Logger = log) -> None:
        self._log = logger
        self._options = options or ProvisioningOptions()
        self._bookings: dict[str, Booking] = {}
        self._deadlines = Deadlines()
        self._queued = 0
        """How many pods of requests are in the queue."""
        self._postponed: dict[str, None] = {}
        """The keys of requests that wait until fewer pods are in the queue."""
        self._missing: dict[str, list[str]] = {}
        """The keys of requests by the keys of the PodTemplates that they wait for."""
        self._open = False
        self._consumers = Consumers(alone=self._options.alone)

    # Assembly

    def profiles(self, build: BuildProfiles) -> BuildProfiles:
        """Return what makes the scheduler's profiles, and those of requests."""

        def built(handle: Handle) -> Mapping[str, Profile]:
            plugin = ProvisioningRequests(self)
            self._rooms = Rooms(lambda: handle.nodes, self._wanted_for)
            profiles = with_requests(build(handle), plugin, self._rooms, alone=self._options.alone)
            self._requests = handle.objects(PROVISIONING_REQUESTS)
            self._opening = Opening(handle, profiles, any_scheduler=self._options.alone)
            self._answers = RequestStatuses(self._requests, lambda: handle.client)
            self._now = handle.now
            return profiles

        return built

    def ports(self, ports: Ports) -> Ports:
        """Return the ports for a scheduler that also answers requests."""
        return ports_with_requests(ports, self, self._consumers.nominate_again)

    def lending(self, unit: Unit) -> AbstractContextManager[None]:
        """A context of an attempt in which what is kept for the pods of a unit is free for them."""
        return self._consumers.lending(unit)

    def connect(self, runtime: Runtime) -> None:
        """Follow the stores of a scheduler."""
        self._runtime, self._objects = runtime, OwnObjects(Receiver.of(runtime))
        objects = runtime.state.objects
        self._consumers.connect(runtime, self._bookings, self)
        self._requests.listen(self._request_changed)
        self._opening.templates.listen(self._template_changed)
        objects[NODE].listen(self._node_changed)
        objects[POD].listen(self._consumers.pod_changed)

    def open(self) -> None:
        """Take up all requests that are there. Call it once everything is listed, and before anything is decided."""
        self._open = True
        for key in list(self._requests):
            self._reconcile(key)

    async def run(self, now: Callable[[], datetime], due: Callable[[str], None]) -> None:
        """Write answers and keep deadlines until cancelled. Only the leader does.

        `now`: the time. `due` is called with each request whose deadline has come; it calls the method `due`.
        """
        self._consumers.leads = True
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._answers.run())
            tasks.create_task(self._deadlines.run(lambda: with_zone(now()), due))

    def due(self, key: str) -> None:
        """Look at a request whose deadline has come, or one that it had."""
        self._runtime.intake.take("ProvisioningRequestDue", self._due, key)

    def recorded(self) -> Callable[[], bytes]:
        """What encodes the requests and their places as they are now, for the checkpoint of a recording."""
        return checkpoints.recorded(self._bookings.values(), self._postponed)

    def restore(self, data: bytes) -> None:
        """Take up a checkpoint, once objects and pods on nodes are there; in place of `open`. Raises ValueError."""
        found, later = checkpoints.restored(data, self._read)
        self._bookings.update(found)
        self._postponed = dict.fromkeys(later)
        for booking in found.values():
            self._objects.restore(booking.pods.values() if booking.stage is BookingStage.ASKED else ())
            if booking.stage is BookingStage.ASKED:
                self._entered_queue(booking)
            for template in booking.waits_for:
                self._missing.setdefault(template, []).append(booking.key)
        self._consumers.restore()
        self._open = True

    def _read(self, key: str) -> ProvisioningRequest | None:
        document = self._requests.get(key)
        return None if document is None else self._opening.read(key, document, self._options.classes)

    def counts(self) -> tuple[Mapping[str, int], int]:
        """How many requests are at which stage, and how many places are held."""
        stages = Counter({each.value: 0 for each in BookingStage})
        stages.update(each.stage.value for each in self._bookings.values())
        return stages, sum(len(each.held) for each in self._bookings.values())

    # What happens to requests

    def _request_changed(self, before: Any, now: Any) -> None:
        obj = before if now is None else now
        metadata = obj.get("metadata") or {}
        self._after_this_change(self._reconcile, f"{metadata.get('namespace')}/{metadata.get('name')}")

    def _after_this_change(self, step: Callable[[str], None], key: str) -> None:
        """Take a step once the change that is being applied is complete."""
        if self._open:
            self._runtime.intake.afterwards(partial(step, key))

    def _reconcile(self, key: str) -> None:
        request, booking = self._read(key), self._bookings.get(key)
        if booking is not None and (request is None or request.uid != booking.request.uid or request.ended):
            self._close(booking)
            del self._bookings[key]
            booking = None
        if request is None or request.ended:
            if key not in self._requests:
                self._answers.forget(key)
            return
        if booking is None:
            booking = self._bookings[key] = Booking(request)
            self._begin(booking)
        elif request.holds and booking.stage in {BookingStage.INCOMPLETE, BookingStage.ASKED} and not booking.places:
            self._withdraw(booking)
            booking.request = request
            self._begin(booking)

    def _template_changed(self, _before: Any, now: Any) -> None:
        if now is not None:
            self._after_this_change(self._template_came, f"{now.metadata.namespace}/{now.metadata.name}")

    def _template_came(self, template: str) -> None:
        for key in self._missing.pop(template, ()):
            booking = self._bookings.get(key)
            if booking is not None and template in booking.waits_for:
                self._begin(booking)

    def _node_changed(self, before: Any, now: Any) -> None:
        if now is None:
            self._after_this_change(self._node_gone, before.metadata.name)

    def _node_gone(self, name: str) -> None:
        for booking in [each for each in self._bookings.values() if name in each.places.values()]:
            if booking.stage is BookingStage.HELD:
                lost = len(booking.placed_on(name))
                self._end(booking, api.REVOKED, "NodeDeleted", reasons.node_deleted(name, lost))
            else:  # it was just being placed
                self._withdraw(booking)
                self._begin(booking)

    # Asking

    def _begin(self, booking: Booking) -> None:
        """Ask for the room of a request, or hold it if that is answered already."""
        request, now = booking.request, self._time()
        try:
            self._opening.prepare(booking)
        except CannotAskError as error:
            self._end(booking, api.FAILED, reasons.FAILED_TO_CREATE_PODS, f"{error}")
            return
        if booking.waits_for:
            self._deadlines.add(booking.key, now + _GRACE)
            for template in booking.waits_for:
                self._missing.setdefault(template, []).append(booking.key)
        elif request.holds:
            self._adopt(booking)
        elif self._queued and self._queued + request.count > MOST_PODS:
            if booking.key not in self._postponed:
                self._log.warning(
                    "ProvisioningRequest %s waits: %d pods of others are asked for", request.key, self._queued
                )
            self._postponed[booking.key] = None
        elif request.is_true(api.PROVISIONED):
            booking.stage = BookingStage.HELD  # answered by someone else: there are no places here
        else:
            self._ask(booking)

    def _ask(self, booking: Booking) -> None:
        self._say(booking, api.ACCEPTED, "True", "Accepted", reasons.ACCEPTED)
        self._deadlines.add(booking.key, booking.valid_until)
        self._queue(booking)

    def _queue(self, booking: Booking) -> None:
        booking.stage = BookingStage.ASKED
        self._entered_queue(booking)
        for uid, pod in booking.pods.items():
            self._objects.put(pod, booking.claims.get(uid, ()))

    def _entered_queue(self, booking: Booking) -> None:
        self._queued += len(booking.pods)
        booking.wants = () if booking.preempts else wants_of(booking.pods.values())
        self._rooms.opened(booking.wants, booking.pods.values())

    def _left_queue(self, booking: Booking) -> None:
        self._queued -= len(booking.pods)
        self._rooms.closed(booking.wants, booking.pods.values())

    def _wanted_for(self, pod: PodInfo) -> Wants:
        booking = self._bookings.get(request_of(pod))
        return () if booking is None else booking.wants

    def gang_of(self, pod: PodInfo) -> Gang | None:
        """The request of a pod that stands for a place, as a gang."""
        booking = self._bookings.get(request_of(pod))
        if booking is None or pod.uid not in booking.pods:
            return None
        members = tuple(booking.pods.values())
        return Gang(
            booking.key,
            members,
            needed=len(members),
            together=True,
            pod_group=booking.pod_group,
            evicts=booking.preempts,
            asked_as_one=True,
        )

    def decided(self, gang: Gang, outcome: GangOutcome, message: str) -> None:
        """Answer a request whose room was not found. If it was, its places are `bound` next."""
        booking = self._bookings.get(gang.name)
        if booking is None or booking.stage is not BookingStage.ASKED or outcome is GangOutcome.PLACED:
            return
        booking.message = message.removeprefix(f"gang {gang.name}: ")
        if outcome is GangOutcome.REFUSED and booking.again:
            self._end(booking, api.REVOKED, reasons.NOT_FOUND, f"{reasons.NOT_AGAIN} {booking.message}")
            return
        if outcome is GangOutcome.REFUSED and not booking.retries:
            self._end(booking, api.FAILED, reasons.NOT_FOUND, booking.message)
            return
        reason = reasons.NOT_FOUND if outcome is GangOutcome.REFUSED else reasons.FAILED_TO_CHECK
        self._say(booking, api.PROVISIONED, "False", reason, booking.message)

    # Holding

    def bound(self, pod: PodInfo, node_name: str, devices: Mapping[str, AllocationResult]) -> bool:
        """Hold a place. Returns False if its request is gone. `devices`: what its claims got, by their keys."""
        booking = self._bookings.get(request_of(pod))
        if booking is None or booking.stage is not BookingStage.ASKED or pod.uid not in booking.pods:
            return False
        if pod.uid in booking.claims:
            booking.claims[pod.uid] = allocated(booking.claims[pod.uid], pod, devices)
        self.hold(booking, pod.uid, node_name)
        if len(booking.places) == len(booking.pods):
            self._left_queue(booking)
            self._provisioned(booking)
        return True

    def hold(self, booking: Booking, uid: str, node_name: str) -> None:
        """Count a place on its node."""
        booking.places[uid] = node_name
        booking.held.add(uid)
        pod = booking.pods[uid]
        self._objects.put(pod.replica(pod.name, uid, node_name), booking.claims.get(uid, ()))

    def free(self, booking: Booking, uid: str) -> None:
        """Count a place no longer."""
        booking.held.discard(uid)
        if (pod := booking.pods.get(uid)) is not None:
            self._objects.remove(pod, booking.claims.get(uid, ()))

    def lend(self, booking: Booking, uid: str) -> None:
        """Count a place no longer, but keep its claims."""
        booking.held.discard(uid)
        if (pod := booking.pods.get(uid)) is not None:
            self._objects.remove(pod, ())

    def tell_places(self, booking: Booking) -> None:
        """Let the status say where room is held."""
        self._answers.hold(booking.key, booking.request.uid, api.details_of(booking.by_set()))

    def node_kept_for(self, uid: str) -> str:
        """The node of the place that is lent to a pending pod; "" if there is none."""
        return self._consumers.node_kept_for(uid)

    def _provisioned(self, booking: Booking) -> None:
        booking.stage, booking.message = BookingStage.HELD, ""
        if not booking.again:
            self._expire_after(booking, self._time())
        assert booking.expires is not None
        message = reasons.found(len(booking.pods), rfc3339(booking.expires))
        self._say(booking, api.PROVISIONED, "True", reasons.FOUND, message)
        self.tell_places(booking)
        self._log.info("ProvisioningRequest %s: %s", booking.key, message)
        self._consumers.came(booking)
        self._ask_postponed()

    def _adopt(self, booking: Booking) -> None:
        """Hold the places that the status names. Room on a node that is gone is revoked."""
        booking.stage = BookingStage.HELD
        since = booking.request.conditions[api.PROVISIONED].lastTransitionTime
        self._expire_after(booking, self._time() if since is None else with_zone(since))
        nodes, lost = self._runtime.state.nodes, Counter[str]()
        held = dict(booking.adopted(api.held_places(booking.request.details)))
        booking.unseen = len(booking.pods) - len(held)
        for uid, node in held.items():
            if nodes.position(node) is None:
                lost[node] += 1
            elif not booking.claims:
                self.hold(booking, uid, node)
        if lost:
            name, count = lost.most_common(1)[0]
            self._end(booking, api.REVOKED, "NodeDeleted", reasons.node_deleted(name, count))
            return
        if booking.claims and held:  # which devices it had is not known: they are chosen again
            booking.keep_only(held)
            booking.again = True
            self._queue(booking)
            return
        self._consumers.came(booking)

    def _expire_after(self, booking: Booking, since: datetime) -> None:
        seconds = booking.request.seconds(api.BOOKING, self._options.booking)
        assert seconds is not None
        booking.expires = since + timedelta(seconds=seconds)
        self._deadlines.add(booking.key, booking.expires)

    def evicted(self, key: str, preemptor: PodInfo) -> None:
        """Give up the room of a request, for a pod of higher priority."""
        booking = self._bookings.get(key)
        if booking is not None:
            self._end(booking, api.REVOKED, "Preempted", reasons.preempted(preemptor))

    # Ends

    def _due(self, key: str) -> None:
        """A deadline of a request has come, or one that it had."""
        booking, now = self._bookings.get(key), self._time()
        if booking is None or booking.stage is BookingStage.ENDED:
            return
        if booking.stage is BookingStage.HELD:
            if booking.expires is not None and booking.expires <= now:
                self._end(booking, api.EXPIRED, reasons.TIME_EXPIRED, reasons.EXPIRED)
        elif booking.valid_until is not None and booking.valid_until <= now:
            why = f"{reasons.NOT_IN_TIME} {booking.message}".rstrip()
            self._end(booking, api.FAILED, "Expired", why)
        elif booking.waits_for:
            missing = ", ".join(sorted(name.partition("/")[2] for name in booking.waits_for))
            message = f"there is no PodTemplate {missing} in namespace {booking.request.namespace}"
            self._end(booking, api.FAILED, reasons.FAILED_TO_CREATE_PODS, message)

    def _end(self, booking: Booking, condition: str, reason: str, message: str) -> None:
        self._close(booking)
        self._log.log(
            logging.INFO if condition == api.EXPIRED else logging.WARNING,
            "ProvisioningRequest %s: %s: %s",
            booking.key,
            condition,
            message,
        )
        self._say(booking, condition, "True", reason, message)
        if condition != api.FAILED:
            self._answers.hold(booking.key, booking.request.uid, {})

    def _close(self, booking: Booking) -> None:
        """Hold nothing for a request any more, and ask for nothing."""
        self._withdraw(booking)
        booking.stage = BookingStage.ENDED
        booking.pods.clear()
        booking.claims.clear()
        booking.waits_for.clear()
        self._ask_postponed()

    def _withdraw(self, booking: Booking) -> None:
        """Take the pods of a request out of the queue and off their nodes."""
        self._postponed.pop(booking.key, None)
        stage, booking.stage = booking.stage, BookingStage.INCOMPLETE
        if stage is BookingStage.ASKED:
            self._left_queue(booking)
        self._consumers.left(booking)
        booking.places.clear()
        booking.held.clear()
        for uid, pod in booking.pods.items() if stage in {BookingStage.ASKED, BookingStage.HELD} else ():
            self._objects.remove(pod, booking.claims.get(uid, ()))

    def _ask_postponed(self) -> None:
        waiting, self._postponed = self._postponed, {}
        for key in waiting:
            if (booking := self._bookings.get(key)) is not None:
                self._postponed[key] = None
                self._begin(booking)
                if booking.stage is not BookingStage.INCOMPLETE:
                    self._postponed.pop(key, None)

    def _say(self, booking: Booking, condition: str, status: str, reason: str, message: str) -> None:
        self._answers.say(booking.key, booking.request.uid, condition, status, reason, message, self._time())

    def _time(self) -> datetime:
        return with_zone(self._now())

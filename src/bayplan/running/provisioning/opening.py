"""Opening: reads what a request asks for, and makes the pods that stand for its places."""

from __future__ import annotations

import logging
from collections.abc import Collection, Container, Mapping
from datetime import timedelta
from typing import Any

import msgspec

from bayplan.core.api import provisioning as api
from bayplan.core.api.kinds import (
    POD_TEMPLATE,
    PRIORITY_CLASS,
    RESOURCE_CLAIM_TEMPLATE,
    RUNTIME_CLASS,
    STORAGE_CLASS,
)
from bayplan.core.api.provisioning import ProvisioningRequest, place_name
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.expansion.own_claims import NoTemplateError, has_own_claims, with_own_claims
from bayplan.core.expansion.provisioned_pods import Classes, TemplateError, pod_group_of_template, pod_of_template
from bayplan.core.framework.handle import Handle
from bayplan.foundations.latest import LruDict
from bayplan.running.provisioning.bookings import Booking
from bayplan.running.provisioning.profiles import name_for_requests

MOST_PODS_OF_ONE = 10_000
"""How many pods one request may ask for."""
_REMEMBERED = 1000

log = logging.getLogger(__name__)


class CannotAskError(ValueError):
    """A request that can't be asked. The message says what is wrong with it."""


class Opening:
    """Makes bookings ready to be asked.

    `profiles`: the scheduler names that have a profile for requests. `any_scheduler`: whether pods of other schedulers
    are decided by the first of these.
    """

    def __init__(self, handle: Handle, profiles: Mapping[str, object], *, any_scheduler: bool) -> None:
        self.templates = handle.objects(POD_TEMPLATE)
        self._classes = Classes(handle.objects(PRIORITY_CLASS), handle.objects(RUNTIME_CLASS))
        self._claim_templates = handle.objects(RESOURCE_CLAIM_TEMPLATE)
        self._storage_classes = handle.objects(STORAGE_CLASS)
        self._profiles: Container[str] = profiles
        self._names = [name for name in profiles if name_for_requests(name) in profiles] or list(profiles)
        self._any = any_scheduler
        self._left_alone: LruDict[str, str] = LruDict(_REMEMBERED)
        """Why requests are left alone, which is logged once."""

    def read(self, key: str, document: Mapping[str, Any], classes: Collection[str]) -> ProvisioningRequest | None:
        """Read a request of one of these classes; None for another, or one that is malformed, which are left alone."""
        try:
            request = ProvisioningRequest.of(document)
        except msgspec.ValidationError as error:
            self._leave_alone(key, f"it can't be read: {error}")
            return None
        if request.class_name not in classes:
            self._leave_alone(key, f"its class {request.class_name} is not {' or '.join(classes)}")
            return None
        self._left_alone.pop(key, None)
        return request

    def _leave_alone(self, key: str, why: str) -> None:
        if self._left_alone.get(key) != why:
            log.info("ProvisioningRequest %s is left alone: %s", key, why)
            self._left_alone[key] = why

    def prepare(self, booking: Booking) -> None:
        """Read the request, and make its pods, unless PodTemplates are missing. Raises CannotAskError."""
        request = booking.request
        if not request.pod_sets or any(each.count < 1 for each in request.pod_sets):
            raise CannotAskError("spec.podSets: expected at least one pod set, each with a count of at least 1")
        if request.count > MOST_PODS_OF_ONE:
            raise CannotAskError(f"it asks for {request.count} pods; at most {MOST_PODS_OF_ONE} are answered together")
        self._read_parameters(booking)
        keys = [f"{request.namespace}/{each.template}" for each in request.pod_sets]
        booking.waits_for = {key for key in keys if key not in self.templates}
        if not booking.waits_for:
            self._make_pods(booking, [self.templates[key] for key in keys])

    def _read_parameters(self, booking: Booking) -> None:
        request = booking.request
        try:
            booking.preempts = request.switch(api.PREEMPTION)
            booking.retries = not request.switch(api.NO_RETRY)
            valid = request.seconds(api.VALID_UNTIL)
            request.seconds(api.BOOKING)
        except ValueError as error:
            raise CannotAskError(f"spec.parameters: {error}") from None
        if valid is not None and request.created is not None:
            booking.valid_until = request.created + timedelta(seconds=valid)

    def _make_pods(self, booking: Booking, templates: list[Any]) -> None:
        request = booking.request
        groups = set()
        for number, template in enumerate(templates):
            name = request.pod_sets[number].template
            try:
                base = PodInfo(pod_of_template(request, template, self._classes))
            except TemplateError as error:
                raise CannotAskError(f"PodTemplate {name}: {error}") from None
            except ValueError as error:
                raise CannotAskError(f"PodTemplate {name} can't be read: {error}") from None
            if not base.requested and not base.spec.resourceClaims:
                why = "its containers request no resources; set resources.requests"
                raise CannotAskError(f"PodTemplate {name}: {why}")
            base.scheduler_name = self._profile_for(base.scheduler_name, name)
            own = has_own_claims(base.object)
            for index in range(request.pod_sets[number].count):
                uid = place_name(request.uid, number, index)
                pod = base.replica(place_name(request.name, number, index), uid, "")
                booking.pods[uid] = self._with_claims(booking, pod, name) if own else pod
            groups.add(pod_group_of_template(template))
        if len({pod.scheduler_name for pod in booking.pods.values()}) > 1:
            raise CannotAskError("its PodTemplates name different schedulers: make a request for each of them")
        if len(groups) > 1:
            raise CannotAskError("its PodTemplates name different PodGroups: make a request for each of them")
        group = groups.pop()
        booking.pod_group = f"{request.namespace}/{group}" if group else ""

    def _with_claims(self, booking: Booking, pod: PodInfo, template: str) -> PodInfo:
        """Return a pod that names the claims that come with it, which the booking keeps."""
        try:
            made, booking.claims[pod.uid] = with_own_claims(pod.object, self._claim_templates, self._storage_classes)
        except NoTemplateError as error:
            raise CannotAskError(f"PodTemplate {template}: {error}") from None
        found = PodInfo(made)
        found.scheduler_name = pod.scheduler_name
        return found

    def _profile_for(self, scheduler_name: str, template: str) -> str:
        name = name_for_requests(scheduler_name)
        if name in self._profiles:
            return name
        if self._any:
            return self._names[0]
        served = ", ".join(self._names)
        why = f"no profile here is for scheduler {scheduler_name}, only for {served}"
        raise CannotAskError(f"PodTemplate {template}: {why}")

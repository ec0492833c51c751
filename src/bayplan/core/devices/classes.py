"""Which device class provides an extended resource. Mirrors deviceclass/extendedresourcecache."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lightkube.models.resource_v1 import DeviceClass, DeviceClassConfiguration, DeviceSelector

from bayplan.core.api import requests
from bayplan.core.api.times import seconds_since_epoch
from bayplan.core.devices.observable import Observable

CLASS_PREFIX = "deviceclass.resource.kubernetes.io/"
"""Every class provides the extended resource with this prefix and the class's name."""


class ExtendedResources:
    """The device classes, by the extended resources that they provide.

    If several classes name the same resource, the youngest wins, then the first by name. As upstream, the rest depends
    on the order of events: a class that is added while a younger one provides its resource isn't even indexed under its
    own name, and a deleted class removes the resource.
    """

    def __init__(self, classes: Observable) -> None:
        self._classes: dict[str, DeviceClass] = {}
        classes.listen(self._changed)

    def class_of(self, resource: str) -> DeviceClass | None:
        """The class that provides a resource."""
        return self._classes.get(resource)

    def provided(self, request: Mapping[str, int]) -> list[str]:
        """The requested resources that a class provides. `request`: amounts by resource."""
        if not self._classes:
            return []
        return [resource for resource in self._classes.keys() & request.keys() if request[resource]]

    def _changed(self, before: DeviceClass | None, now: DeviceClass | None) -> None:
        rival = self._classes.get(explicit_resource(now)) if now is not None else None
        if now is not None and rival is not None and _age_and_name(rival) <= _age_and_name(now):
            return
        for resource in resources_of(before) if before is not None else ():
            self._classes.pop(resource, None)
        if now is not None:
            self._classes |= dict.fromkeys(resources_of(now), now)


def may_be_backed_by_devices(resource: str) -> bool:
    """Whether a device class can provide a resource of this name. Mirrors IsDRAExtendedResourceName."""
    return requests.is_extended(resource) or resource.startswith(CLASS_PREFIX)


def resources_of(device_class: DeviceClass) -> tuple[str, ...]:
    """The extended resources that a class provides: the one with its own name, then the one in its spec."""
    assert device_class.metadata is not None
    own = f"{CLASS_PREFIX}{device_class.metadata.name}"
    explicit = explicit_resource(device_class)
    return (own, explicit) if explicit else (own,)


def explicit_resource(device_class: DeviceClass) -> str:
    """The extended resource that a class provides by its spec; "" if there is none."""
    return (device_class.spec.extendedResourceName if device_class.spec is not None else None) or ""


def configuration_of(device_class: DeviceClass) -> Sequence[DeviceClassConfiguration]:
    """The configuration of a class."""
    return (device_class.spec.config if device_class.spec is not None else None) or ()


def selectors_of(device_class: DeviceClass) -> Sequence[DeviceSelector]:
    """The selectors of a class."""
    return (device_class.spec.selectors if device_class.spec is not None else None) or ()


def _age_and_name(device_class: DeviceClass) -> tuple[float, str]:
    metadata = device_class.metadata
    assert metadata is not None
    created = metadata.creationTimestamp
    return -(seconds_since_epoch(created) if created is not None else 0.0), metadata.name or ""

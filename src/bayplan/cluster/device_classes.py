"""Which device class stands for an extended resource. Mirrors deviceclass/extendedresourcecache."""

from __future__ import annotations

from lightkube.models.resource_v1 import DeviceClass

from bayplan.api import requests
from bayplan.cluster.objects import ObjectStore

CLASS_PREFIX = "deviceclass.resource.kubernetes.io/"
"""Every class stands for the extended resource of this domain that has its name."""


class ExtendedResources:
    """The classes by the extended resources that they stand for. A view of the store of device classes.

    Of several classes with one resource the youngest counts, then the first by name. As upstream, the rest depends on
    the order of the news: a class that comes when a younger one has the resource does not even stand for its own name,
    and one that goes takes the resource with it.
    """

    def __init__(self, store: ObjectStore) -> None:
        self._classes: dict[str, DeviceClass] = {}
        store.listen(self._changed)

    def class_of(self, resource: str) -> DeviceClass | None:
        """The class that stands for a resource."""
        return self._classes.get(resource)

    def _changed(self, before: DeviceClass | None, now: DeviceClass | None) -> None:
        rival = self._classes.get(now.spec.extendedResourceName or "") if now is not None else None
        if now is not None and rival is not None and _age_and_name(rival) <= _age_and_name(now):
            return
        for resource in _resources_of(before):
            self._classes.pop(resource, None)
        for resource in _resources_of(now):
            assert now is not None
            self._classes[resource] = now


def may_be_backed_by_devices(resource: str) -> bool:
    """Whether a resource is one that a device class may stand for. Mirrors IsDRAExtendedResourceName."""
    return requests.is_extended(resource) or resource.startswith(CLASS_PREFIX)


def _resources_of(device_class: DeviceClass | None) -> tuple[str, ...]:
    if device_class is None:
        return ()
    assert device_class.metadata is not None
    own = f"{CLASS_PREFIX}{device_class.metadata.name}"
    explicit = device_class.spec.extendedResourceName
    return (own, explicit) if explicit else (own,)


def _age_and_name(device_class: DeviceClass) -> tuple[float, str]:
    metadata = device_class.metadata
    assert metadata is not None
    created = metadata.creationTimestamp
    return -(created.timestamp() if created is not None else 0.0), metadata.name or ""

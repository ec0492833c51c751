"""Which device class stands for an extended resource. Mirrors deviceclass/extendedresourcecache."""

from __future__ import annotations

from lightkube.models.resource_v1 import DeviceClass

from bayplan.api import requests
from bayplan.cluster.objects import ObjectStore

CLASS_PREFIX = "deviceclass.resource.kubernetes.io/"
"""Every class stands for the extended resource of this domain that has its name."""


class ExtendedResources:
    """The classes by the extended resources that they stand for. A view of the store of device classes."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._version = -1
        self._classes: dict[str, DeviceClass] = {}

    def class_of(self, resource: str) -> DeviceClass | None:
        """The class that stands for a resource: the youngest of several, then the first by name."""
        if self._version != self._store.version:
            self._classes = {}
            for device_class in sorted(self._store.values(), key=_age_and_name, reverse=True):
                self._classes[f"{CLASS_PREFIX}{device_class.metadata.name}"] = device_class
                if device_class.spec.extendedResourceName:
                    self._classes[device_class.spec.extendedResourceName] = device_class
            self._version = self._store.version
        return self._classes.get(resource)


def may_be_backed_by_devices(resource: str) -> bool:
    """Whether a resource is one that a device class may stand for. Mirrors IsDRAExtendedResourceName."""
    return requests.is_extended(resource) or resource.startswith(CLASS_PREFIX)


def _age_and_name(device_class: DeviceClass) -> tuple[float, str]:
    metadata = device_class.metadata
    assert metadata is not None
    created = metadata.creationTimestamp
    return -(created.timestamp() if created is not None else 0.0), metadata.name or ""

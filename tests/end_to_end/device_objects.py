"""Device classes, slices, claims and pods that claim devices, as documents that are sent without changes."""

from collections.abc import Sequence
from typing import Any

from workloads import pod

DRIVER = "gpu.example.com"
CLASS = "gpu"
RESOURCE = "example.com/gpu"


def device_class(name: str = CLASS, **spec: Any) -> dict[str, Any]:
    """A class of all devices of the driver."""
    selectors = [{"cel": {"expression": f"device.driver == '{DRIVER}'"}}]
    return {"metadata": {"name": name}, "spec": {"selectors": selectors, **spec}}


def resource_slice(node: str, *devices: str, name: str = "", count: int = 1) -> dict[str, Any]:
    """The slice of a node. `count`: the stated number of slices in the node's pool."""
    pool = {"name": node, "generation": 1, "resourceSliceCount": count}
    offered = [{"name": each, "attributes": {"model": {"string": "a100"}}} for each in devices]
    return {
        "metadata": {"name": name or f"slice-{node}"},
        "spec": {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": offered},
    }


def asking(expression: str = "", *, device_class_name: str = CLASS) -> dict[str, Any]:
    """The spec of a claim for one device, perhaps with a selector."""
    selectors = {"selectors": [{"cel": {"expression": expression}}]} if expression else {}
    return {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": device_class_name, **selectors}}]}}


def claim(name: str, expression: str = "") -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "default"}, "spec": asking(expression)}


def template(name: str = "t") -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "default"}, "spec": {"spec": asking()}}


def claiming(name: str, *claims: str, templates: Sequence[str] = (), cpu: str = "100m", **spec: Any) -> dict[str, Any]:
    """A pod with these claims, and with claims from templates."""
    references = [{"name": each, "resourceClaimName": each} for each in claims]
    references += [{"name": each, "resourceClaimTemplateName": each} for each in templates]
    document = pod(name, cpu, resourceClaims=references, terminationGracePeriodSeconds=1, **spec)
    document["spec"]["containers"][0]["resources"]["claims"] = [{"name": each["name"]} for each in references]
    return document

"""Helpers for the tests of storage controllers."""

from typing import Any

from bayplan.core.api.kinds import CORE_EVENT, PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM

BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"


def phases(world: Any) -> dict[str, str]:
    """The phases of all volumes and claims, by name."""
    found = world.all(PERSISTENT_VOLUME) + world.all(PERSISTENT_VOLUME_CLAIM)
    return {one.metadata.name: one.status.phase for one in found}


def annotations(one: Any) -> set[str]:
    return set(one.metadata.annotations or {})


async def message(world: Any, name: str, reason: str) -> str:
    """The message of an event about an object, once there is one."""
    seen: set[tuple[str, str]] = set()
    for _ in range(500):
        for one in (await world.client.list(CORE_EVENT)).items:
            seen.add((one.involvedObject.name, one.reason))
            if (one.involvedObject.name, one.reason) == (name, reason):
                return str(one.message)
        await world.settle(0.1, step=0.1)
    raise AssertionError(f"{reason} of {name} is missing among {seen}")


def pod(name: str, spec: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    containers = [{"name": "c", "image": "i"}]
    described = {"name": name, "namespace": "default", **metadata}
    return {"metadata": described, "spec": {"containers": containers, "terminationGracePeriodSeconds": 5, **spec}}

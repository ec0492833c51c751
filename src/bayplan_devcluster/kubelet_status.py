"""The statuses that a simulated kubelet reports for a pod. Mirrors pkg/kubelet/kubelet_pods.go and pkg/kubelet/status.

They are strategic merge patches, so they keep the conditions of other components.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec
from lightkube.models.core_v1 import ResourceRequirements

from bayplan.core.api.served import Pod
from bayplan_devcluster.kubelet_admission import Rejection

Patch = dict[str, Any]

RESIZE_PENDING = "PodResizePending"


@dataclass(frozen=True, slots=True)
class Addresses:
    """The IP addresses of a pod and its node."""

    pod: str
    host: str


def running(pod: Pod, addresses: Addresses, now: datetime) -> Patch:
    """All containers run and are ready; init containers have completed."""
    state = {"running": {"startedAt": now}}
    return _patch(
        pod,
        phase="Running",
        conditions=_conditions(pod, now, initialized=True, ready=True, running=True),
        hostIP=addresses.host,
        hostIPs=[{"ip": addresses.host}],
        podIP=addresses.pod,
        podIPs=[{"ip": addresses.pod}],
        startTime=now,
        initContainerStatuses=[
            _container(pod, one, state if one.restartPolicy == "Always" else _terminated(0, "Completed", now, now))
            for one in pod.spec.initContainers or ()
        ],
        containerStatuses=[_container(pod, one, state) for one in pod.spec.containers],
    )


def restarted(pod: Pod, exit_code: int, now: datetime) -> Patch:
    """The containers have failed and restarted."""
    statuses = []
    for one in (pod.status.containerStatuses if pod.status else None) or ():
        began = (one.state.running.startedAt if one.state and one.state.running else None) or now
        container = next(each for each in pod.spec.containers if each.name == one.name)
        status = _container(pod, container, {"running": {"startedAt": now}})
        last = _terminated(exit_code, "Error", began, now)
        statuses.append(status | {"restartCount": one.restartCount + 1, "lastState": last})
    return _patch(pod, containerStatuses=statuses)


def resized(pod: Pod) -> Patch:
    """The pod's current requests are granted and applied."""
    asked = {one.name: one.resources or ResourceRequirements() for one in pod.spec.containers}
    statuses = [
        msgspec.structs.replace(one, resources=asked[one.name], allocatedResources=asked[one.name].requests)
        for one in (pod.status.containerStatuses if pod.status else None) or ()
    ]
    return _patch(pod, containerStatuses=statuses, conditions=[{"type": RESIZE_PENDING, "$patch": "delete"}])


def resize_pending(pod: Pod, reason: str, message: str, now: datetime) -> Patch:
    """The pod's current requests can't be granted."""
    condition = {
        "type": RESIZE_PENDING,
        "status": "True",
        "reason": reason,
        "message": message,
        "lastProbeTime": None,
        "lastTransitionTime": now,
        "observedGeneration": pod.metadata.generation,
    }
    return _patch(pod, conditions=[condition])


def ended(pod: Pod, exit_code: int, now: datetime, *, reason: str = "", message: str = "") -> Patch:
    """All containers have ended: successfully if the exit code is 0 and no reason is given."""
    began = (pod.status.startTime if pod.status else None) or now
    failed = exit_code != 0 or bool(reason)
    state = _terminated(exit_code, "Error" if failed else "Completed", began, now)
    counts = {one.name: one.restartCount for one in (pod.status.containerStatuses if pod.status else None) or ()}
    extra = {"reason": reason, "message": message} if reason else {}
    return _patch(
        pod,
        phase="Failed" if failed else "Succeeded",
        conditions=_conditions(pod, now, initialized=True, ready=False, running=False, failed=failed),
        containerStatuses=[
            _container(pod, one, state) | {"restartCount": counts.get(one.name, 0)} for one in pod.spec.containers
        ],
        **extra,
    )


def rejected(pod: Pod, rejection: Rejection) -> Patch:
    """The pod was rejected."""
    return _patch(pod, phase="Failed", reason=rejection.reason, message=f"Pod was rejected: {rejection.message}")


def _patch(pod: Pod, **status: Any) -> Patch:
    # The uid prevents a patch of a new pod with the same name.
    return {"metadata": {"uid": pod.metadata.uid}, "status": {**status, "observedGeneration": pod.metadata.generation}}


def _conditions(
    pod: Pod, now: datetime, *, initialized: bool, ready: bool, running: bool, failed: bool = False
) -> list[dict[str, Any]]:
    reason = None if ready else "PodFailed" if failed else "PodCompleted"
    verdicts = {
        "PodReadyToStartContainers": (running, None),
        "Initialized": (initialized, None if ready or failed else reason),
        "Ready": (ready, reason),
        "ContainersReady": (ready, reason),
        "PodScheduled": (True, None),
    }
    known = {one.type: one for one in (pod.status.conditions if pod.status else None) or ()}
    conditions = []
    for type_, (verdict, why) in verdicts.items():
        status = "True" if verdict else "False"
        before = known.get(type_)
        since = before.lastTransitionTime if before is not None and before.status == status else now
        conditions.append(
            {
                "type": type_,
                "status": status,
                "lastProbeTime": None,
                "lastTransitionTime": since,
                "observedGeneration": pod.metadata.generation,
                **({"reason": why} if why else {}),
            }
        )
    return conditions


def _container(pod: Pod, container: Any, state: dict[str, Any]) -> dict[str, Any]:
    is_running = "running" in state
    is_completed_init = any(one is container for one in pod.spec.initContainers or ())
    resources = container.resources
    requests = (resources.requests if resources else None) or {}
    digest = hashlib.sha256(f"{pod.metadata.uid}/{container.name}".encode()).hexdigest()
    return {
        "name": container.name,
        "image": container.image,
        "imageID": f"simulated://{container.image}",
        "containerID": f"simulated://{digest}",
        "ready": is_running or is_completed_init,
        "started": is_running,
        "restartCount": 0,
        "state": state,
        **({"allocatedResources": requests} if requests else {}),
        "resources": resources if resources is not None else {},
    }


def _terminated(exit_code: int, reason: str, began: datetime, now: datetime) -> dict[str, Any]:
    return {"terminated": {"exitCode": exit_code, "reason": reason, "startedAt": began, "finishedAt": now}}

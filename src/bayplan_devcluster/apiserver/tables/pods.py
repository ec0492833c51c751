"""The cells of a pod, with the status that its containers' states add up to."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from bayplan.core.api.durations import human
from bayplan_devcluster.apiserver.schema import Object

_ENDED = {"Succeeded": "The pod has completed successfully.", "Failed": "The pod failed."}


def pod_conditions(pod: Object) -> list[Object]:
    """The conditions of the row of a pod that has terminated."""
    phase = pod["status"].get("phase", "")
    if phase not in _ENDED:
        return []
    return [{"type": "Completed", "status": "True", "reason": phase, "message": _ENDED[phase]}]


def pod_ready(pod: Object, _now: datetime) -> str:
    """How many of a pod's containers are ready."""
    reading = _Reading(pod)
    return f"{reading.ready}/{reading.total}"


def pod_status(pod: Object, _now: datetime) -> str:
    """The status of a pod."""
    return str(_Reading(pod).reason)


def pod_restarts(pod: Object, now: datetime) -> str:
    """The restarts of a pod's containers, and when the last of them was."""
    reading = _Reading(pod)
    when = f" ({since_text(reading.last_restart, now)} ago)" if reading.restarts and reading.last_restart else ""
    return f"{reading.restarts}{when}"


class _Reading:
    """The status, restarts and readiness that a row shows for a pod."""

    def __init__(self, pod: Object) -> None:
        self._pod = pod
        self._spec, self._status = pod["spec"], pod["status"]
        self._sidecars = {
            one["name"] for one in self._spec.get("initContainers", ()) if one.get("restartPolicy") == "Always"
        }
        self.total = len(self._spec.get("containers") or ()) + len(self._sidecars)
        self.ready = 0
        self.restarts = 0
        self.last_restart = ""
        self.reason = self._status.get("reason") or self._status.get("phase", "")

        self._read()

    def _read(self) -> None:
        conditions = self._status.get("conditions", ())
        if condition(conditions, "PodScheduled").get("reason") == "SchedulingGated":
            self.reason = "SchedulingGated"
        initializing = self._read_init_containers()
        if not initializing or condition(conditions, "Initialized").get("status") == "True":
            self._read_containers()
        if "deletionTimestamp" in self._pod["metadata"]:
            if self._status.get("reason") == "NodeLost":
                self.reason = "Unknown"
            elif self._status.get("phase") not in {"Succeeded", "Failed"}:
                self.reason = "Terminating"

    def _read_init_containers(self) -> bool:
        """Returns whether the pod waits for an init container."""
        statuses = self._status.get("initContainerStatuses", ())
        for index, container in enumerate(statuses):
            self._count_restarts(container)
            ended, waits = container["state"].get("terminated"), container["state"].get("waiting", {})
            if ended is not None and ended.get("exitCode", 0) == 0:
                continue
            if container["name"] in self._sidecars and container.get("started"):
                self.ready += bool(container.get("ready"))
                continue
            if ended is not None:
                self.reason = f"Init:{_end(ended)}"
            elif waits.get("reason", "PodInitializing") != "PodInitializing":
                self.reason = f"Init:{waits['reason']}"
            else:
                self.reason = f"Init:{index}/{len(self._spec.get('initContainers', ()))}"
            return True
        return False

    def _read_containers(self) -> None:
        sidecars = [one for one in self._status.get("initContainerStatuses", ()) if one["name"] in self._sidecars]
        self.restarts, self.last_restart = 0, ""
        for container in sidecars:
            self._count_restarts(container)
        running, failure = False, ""
        for container in reversed(self._status.get("containerStatuses", ())):
            self._count_restarts(container)
            state = container["state"]
            if state.get("waiting", {}).get("reason"):
                self.reason = state["waiting"]["reason"]
            elif "terminated" in state:
                self.reason = _end(state["terminated"])
                if state["terminated"].get("exitCode"):
                    failure = self.reason
            elif container.get("ready") and "running" in state:
                running = True
                self.ready += 1
        if self.reason == "Completed":
            self.reason = self._after_completion(running=running, failure=failure)

    def _after_completion(self, *, running: bool, failure: str) -> str:
        ready = condition(self._status.get("conditions", ()), "Ready").get("status") == "True"
        if running and ready:
            return "Running"
        return failure or ("NotReady" if running else "Completed")

    def _count_restarts(self, container: Object) -> None:
        self.restarts += container.get("restartCount", 0)
        ended = container.get("lastState", {}).get("terminated", {}).get("finishedAt") or ""
        self.last_restart = max(self.last_restart, ended)


def _end(terminated: Object) -> str:
    if terminated.get("reason"):
        return str(terminated["reason"])
    if terminated.get("signal"):
        return f"Signal:{terminated['signal']}"
    return f"ExitCode:{terminated.get('exitCode', 0)}"


def since_text(moment: str | None, now: datetime) -> str:
    """The time since a moment, `<unknown>` if there is none."""
    return "<unknown>" if not moment else human((now - datetime.fromisoformat(moment)).total_seconds())


def condition(conditions: Sequence[Object], kind: str) -> Object:
    """The condition of a type, {} if there is none."""
    return next((one for one in conditions if one["type"] == kind), {})

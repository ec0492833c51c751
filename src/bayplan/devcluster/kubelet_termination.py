"""How long the containers of a deleted pod take to stop. Mirrors killContainer in pkg/kubelet/kuberuntime."""

from __future__ import annotations

from lightkube.models.core_v1 import Container

from bayplan.devcluster.controllers.served import Pod

STOP_SECONDS = "bayplan.dev/stop-seconds"
"""Annotation: how long the pod's containers run on after SIGTERM."""
SHORTEST_GRACE = 2.0
"""Seconds that a container has after its preStop hook, even if the hook has used up the grace period."""


def stop_seconds(pod: Pod, default: float) -> float:
    """Seconds of the cluster's clock from the deletion of a running pod to the end of its last container.

    Each container first sleeps as its preStop hook says, then takes as long as the pod's annotation says (`default`
    without one) to follow SIGTERM; the kubelet kills it when the grace period is over.
    """
    grace = pod.metadata.deletionGracePeriodSeconds or 0
    if not grace:
        return 0.0
    sidecars = [one for one in pod.spec.initContainers or () if one.restartPolicy == "Always"]
    ends = []
    for container in (*pod.spec.containers, *sidecars):
        hook = min(_sleep(container), grace)
        ends.append(hook + min(_stated(pod, default), max(grace - hook, SHORTEST_GRACE)))
    return max(ends)


def _sleep(container: Container) -> float:
    """Seconds that the preStop hook sleeps. Other hooks take no time: nothing runs in a simulated container."""
    hook = container.lifecycle.preStop if container.lifecycle else None
    return float(hook.sleep.seconds) if hook is not None and hook.sleep is not None else 0.0


def _stated(pod: Pod, default: float) -> float:
    stated = (pod.metadata.annotations or {}).get(STOP_SECONDS)
    try:
        return max(float(stated), 0.0) if stated is not None else default
    except ValueError:  # not a number: as if it were not there
        return default

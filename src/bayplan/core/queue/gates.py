"""Runs the PreEnqueue plugins, which gate pods. Mirrors runPreEnqueuePlugins.

A gated pod is never popped. A plugin that fails gates its pod, too, so that an error can't let a pod pass. PreEnqueue
is pure: a call changes nothing, and the queue leaves it out where no event concerns the pod.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bayplan.core.framework.calling import Caller
from bayplan.core.framework.runner import status_of
from bayplan.core.framework.status import Code, PluginError, Status
from bayplan.core.queue.queued_pod import QueuedPod
from bayplan.foundations.failures import Failures
from bayplan.foundations.log_fields import about_pod


def run_pre_enqueue(queued: QueuedPod, plugins: Sequence[Any], call: Caller, failures: Failures) -> bool:
    """Run the PreEnqueue plugins until one rejects the pod, beginning with the one that gates it already.

    Returns whether the pod is gated, and stores the plugin's name and message in `queued`. A plugin that fails gates
    the pod too, and is recorded in `failures`.
    """
    if queued.gated:
        plugins = sorted(plugins, key=lambda plugin: plugin.name != queued.gating_plugin)
    for plugin in plugins:
        status = _status(plugin, queued, call, failures)
        if status is not None and status.code is not Code.SUCCESS:
            queued.unschedulable_plugins |= {plugin.name}
            queued.gating_plugin, queued.message = plugin.name, status.message
            return True
    if queued.gated:
        queued.gating_plugin, queued.message = "", ""
    return False


def is_still_gated(queued: QueuedPod, plugins: Sequence[Any], call: Caller, failures: Failures) -> bool:
    """Return whether the plugin that gates a pod still does, and update its message. Other plugins aren't called."""
    gating = next((plugin for plugin in plugins if plugin.name == queued.gating_plugin), None)
    status = None if gating is None else _status(gating, queued, call, failures)
    if status is None or status.code is Code.SUCCESS:
        return False
    queued.message = status.message
    return True


def _status(plugin: Any, queued: QueuedPod, call: Caller, failures: Failures) -> Status | None:
    """Return what a plugin says about a pod; None if it succeeds."""
    try:
        answer = call(plugin, "PreEnqueue", plugin.pre_enqueue, queued.pod)
        return None if answer is None else status_of(answer, plugin, "PreEnqueue")
    except PluginError as error:
        error.record(failures, f"pod {about_pod(queued.pod)} stays gated")
        return Status.error(str(error))

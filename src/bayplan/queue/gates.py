"""Gates: PreEnqueue plugins hold a pod back until it may be tried at all. Mirrors runPreEnqueuePlugins."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from bayplan.framework.calling import Caller
from bayplan.framework.runner import status_of
from bayplan.framework.status import Code, PluginError, Status
from bayplan.log_fields import about_pod
from bayplan.queue.queued_pod import QueuedPod

logger = logging.getLogger(__name__)


def held_back(queued: QueuedPod, plugins: Sequence[Any], call: Caller) -> bool:
    """Ask the PreEnqueue plugins, the one that held the pod back the last time first, up to the first that says no.

    Its name and its reason are written to the pod. A plugin that fails holds the pod back too.
    """
    if queued.gated:
        plugins = sorted(plugins, key=lambda plugin: plugin.name != queued.gating_plugin)
    for plugin in plugins:
        status = _ask(plugin, queued, call)
        if status.code is not Code.SUCCESS:
            queued.unschedulable_plugins |= {plugin.name}
            queued.gating_plugin, queued.message = plugin.name, status.message
            return True
    if queued.gated:
        queued.gating_plugin, queued.message = "", ""
    return False


def _ask(plugin: Any, queued: QueuedPod, call: Caller) -> Status:
    try:
        return status_of(call(plugin, "PreEnqueue", plugin.pre_enqueue, queued.pod), plugin, "PreEnqueue")
    except PluginError as error:
        logger.exception("pod %s is held back", about_pod(queued.pod))
        return Status.error(str(error))

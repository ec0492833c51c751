"""What plugins do beside all decisions, each in a task of its own."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Any

from bayplan.framework.interface import Background
from bayplan.framework.profile import Profile, implements

log = logging.getLogger(__name__)

_AGAIN_SECONDS = 10.0


def background_tasks(tasks: asyncio.TaskGroup, profiles: Iterable[Profile]) -> list[asyncio.Task[None]]:
    """Start the background work of every plugin that has some. One that breaks is started again after a while."""
    return [
        tasks.create_task(_keep_running(plugin), name=f"background of {plugin.name}")
        for profile in profiles
        for plugin in profile.every()
        if implements(plugin, Background)
    ]


async def _keep_running(plugin: Any) -> None:
    while True:
        try:
            await plugin.background()
        except Exception:
            log.exception("plugin %s failed in the background", plugin.name)
            await asyncio.sleep(_AGAIN_SECONDS)
        else:
            return

"""A scheduler that runs in this process for a test, with short waits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from bayplan.core.config import ExtraPlugin, default_profile
from bayplan.core.config.types import Extender
from bayplan.running.client.access import ClusterAccess
from bayplan.running.client.http import HttpClient
from bayplan.running.extender.client import HttpExtenders
from bayplan.running.recording.recorder import DecisionRecorder
from bayplan.running.service.scheduler import BuildProfiles, Scheduler
from bayplan.running.service.settings import Peers, Settings

FAST = Settings(initial_backoff=0.05, max_backoff=0.2, blocked_after=0.4, look_for_kind=0.1)
"""Waiting times that suit a test."""


@asynccontextmanager
async def running_scheduler(
    access: ClusterAccess,
    *plugins: ExtraPlugin,
    scheduler_name: str = "bayplan-scheduler",
    build_profiles: BuildProfiles | None = None,
    settings: Settings = FAST,
    extenders: Sequence[Extender] = (),
    recorder: DecisionRecorder | None = None,
    **client_options: Any,
) -> AsyncIterator[Scheduler]:
    """Run a scheduler, yield it once it has synced, and stop it gracefully. Its failure fails the test.

    It has one profile with the default plugins and `plugins`, unless `build_profiles` returns others.
    """
    build = build_profiles or (lambda handle: {scheduler_name: default_profile(scheduler_name, handle, plugins)})
    async with (
        HttpClient(access, **client_options) as client,
        HttpClient(access, **client_options) as events,
        HttpExtenders(extenders) as asked,
    ):
        scheduler = Scheduler(
            client, build, settings, Peers(asked if extenders else None, events=events, recorder=recorder)
        )
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(scheduler.run(stop), name="scheduler under test")
            try:
                await scheduler.synced.wait()
                yield scheduler
            finally:
                stop.set()

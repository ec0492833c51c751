"""Runs a complete scheduler with one plugin, on virtual time, and counts the attempts of rejected pods."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from bayplan.core.api.kinds import POD, Kind
from bayplan.core.api.status import StatusError
from bayplan.core.framework.handle import Handle
from bayplan.core.framework.profile import Point, Profile
from bayplan.running.service.scheduler import Scheduler
from bayplan.running.service.settings import Settings
from bayplan.testing.contract.examples import Example
from bayplan.testing.contract.subject import SCHEDULER, Subject, alone, in_tree
from bayplan.testing.documents import Document
from bayplan.testing.in_memory import load, make_client
from bayplan.testing.virtual_time import VirtualTime


def attempts_of(subject: Subject, example: Example, seconds: float) -> int:
    """Run a scheduler on the example with two pods. Returns the most attempts of one that the plugin rejected."""
    with asyncio.Runner(loop_factory=VirtualTime) as runner:
        return runner.run(_run(subject, example, seconds))


async def _run(subject: Subject, example: Example, seconds: float) -> int:
    profiles: dict[str, Profile] = {}

    def build(handle: Handle) -> dict[str, Profile]:
        usual: dict[Point, list[Any]] = {
            Point.QUEUE_SORT: [in_tree("PrioritySort")],
            Point.PRE_BIND: [],
            Point.BIND: [in_tree("DefaultBinder", handle)],
        }
        profiles[SCHEDULER] = alone(subject.make(handle)).with_plugins(usual)
        return profiles

    twin = {**example.pod, "metadata": {**example.pod["metadata"], "name": "twin", "uid": "twin"}}
    async with make_client() as client:
        for kind, document in (*example.all, (POD, example.pod), (POD, twin)):
            # An API server rejects some objects that the other checks use. The plugin doesn't see those here.
            with suppress(StatusError):
                load(client.server, _complete(kind, document))
        clock: Any = asyncio.get_running_loop()
        scheduler = Scheduler(client, build, Settings(seed=0, clock=clock))
        running = asyncio.create_task(scheduler.run(asyncio.Event()))
        await asyncio.sleep(seconds)
        rejected = [queued for queued in scheduler.queue if subject.name in queued.unschedulable_plugins]
        running.cancel()
        await asyncio.wait({running})
        return max((queued.attempts for queued in rejected), default=0)


def _complete(kind: Kind, document: Document) -> dict[str, Any] | tuple[str, dict[str, Any]]:
    """An object for `load`, with fields that an API server requires: of a pod, images, and limits for its requests."""
    whole = {"apiVersion": kind.api_version, "kind": kind.kind, **document}
    if not kind.model:
        return kind.kind, dict(document)
    if kind is POD:
        containers = [_container(each) for each in document["spec"]["containers"]]
        whole["spec"] = {**document["spec"], "containers": containers}
    return whole


def _container(container: Document) -> dict[str, Any]:
    resources = container.get("resources") or {}
    limits = {**(resources.get("requests") or {}), **(resources.get("limits") or {})}
    return {"image": "image", **container, "resources": {**resources, "limits": limits}}

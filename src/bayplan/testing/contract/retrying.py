"""The promise that rejected pods don't keep the scheduler busy: their own attempts don't make it try them again."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from bayplan.api.kinds import POD, Kind
from bayplan.devcluster.apiserver.status import StatusError
from bayplan.framework import interface
from bayplan.framework.handle import Handle
from bayplan.framework.profile import Point, Profile
from bayplan.plugins.default_binder import DefaultBinder
from bayplan.plugins.priority_sort import PrioritySort
from bayplan.service.scheduler import Scheduler, Settings
from bayplan.testing.contract.examples import Example
from bayplan.testing.contract.promise import Breach, promise
from bayplan.testing.contract.subject import SCHEDULER, Subject, alone
from bayplan.testing.documents import Document
from bayplan.testing.in_memory import load, make_client
from bayplan.testing.virtual_time import VirtualTime

SECONDS = 200.0
"""How long a scheduler runs for an example. Shorter than the time after which every rejected pod is tried again."""
MOST_ATTEMPTS = 3
"""A pod in a cluster that doesn't change needs one attempt. Backoff would allow more than 20 in this time."""


@promise(
    "retries",
    "rejecting pods doesn't make the scheduler try them, or each other, again and again",
    lambda subject: subject.takes_part(Point.RESERVE, Point.PERMIT) or subject.has(interface.Background),
)
def retries(subject: Subject, example: Example) -> None:
    """In a cluster that doesn't change, a scheduler with this plugin tries pods that it rejects only a few times.

    There are two equal pods: when one is rejected after Reserve, its node has room again, and the other one may be
    requeued. The plugin's background task runs, and its PreBind and Bind don't.
    """
    with ThreadPoolExecutor(1) as thread:  # the caller may be inside of an event loop
        attempts = thread.submit(_attempts, subject, example).result()
    if attempts > MOST_ATTEMPTS:
        raise Breach(
            f"nothing changes in the cluster, and the plugin rejects two equal pods in {attempts} attempts each in "
            f"{SECONDS:g} s: each rejection requeues the other pod",
            "register in events() only what can help, with hints that return Hint.SKIP for a pod that was rejected",
        )


def _attempts(subject: Subject, example: Example) -> int:
    with asyncio.Runner(loop_factory=VirtualTime) as runner:
        return runner.run(_run(subject, example))


async def _run(subject: Subject, example: Example) -> int:
    """Run a scheduler on the example with two pods. Returns the most attempts of one that the plugin rejected."""
    profiles: dict[str, Profile] = {}

    def build(handle: Handle) -> dict[str, Profile]:
        profile = alone(subject.make(handle))
        usual: dict[Point, list[Any]] = {
            Point.QUEUE_SORT: [PrioritySort()],
            Point.PRE_BIND: [],
            Point.BIND: [DefaultBinder(handle)],
        }
        profile.plugins = {**profile.plugins, **usual}
        profiles[SCHEDULER] = profile
        return profiles

    twin = {**example.pod, "metadata": {**example.pod["metadata"], "name": "twin", "uid": "twin"}}
    async with make_client() as client:
        for kind, document in (*example.all, (POD, example.pod), (POD, twin)):
            # An API server rejects some objects that the other checks use. The plugin doesn't see those here.
            with suppress(StatusError):
                load(client.server, _complete(kind, document))
        clock: Any = asyncio.get_running_loop()
        scheduler = Scheduler(client, build, Settings(seed=0), clock=clock)
        running = asyncio.create_task(scheduler.run(asyncio.Event()))
        await asyncio.sleep(SECONDS)
        rejected = [queued for queued in scheduler.queue if subject.name in queued.unschedulable_plugins]
        running.cancel()
        await asyncio.wait({running})
        return max((queued.attempts for queued in rejected), default=0)


def _complete(kind: Kind, document: Document) -> dict[str, Any]:
    """An object with fields that an API server requires: of a pod, images, and limits for its requests."""
    whole = {"apiVersion": kind.api_version, "kind": kind.kind, **document}
    if kind is POD:
        containers = [_container(each) for each in document["spec"]["containers"]]
        whole["spec"] = {**document["spec"], "containers": containers}
    return whole


def _container(container: Document) -> dict[str, Any]:
    resources = container.get("resources") or {}
    limits = {**(resources.get("requests") or {}), **(resources.get("limits") or {})}
    return {"image": "image", **container, "resources": {**resources, "limits": limits}}

"""A profile whose Reserve plugins lack their PreFilter fails its pods as kube-scheduler does."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from bayplan.api.kinds import POD
from bayplan.config.profiles import build_profiles
from bayplan.config.types import KubeSchedulerConfiguration
from bayplan.service.scheduler import Scheduler, Settings
from bayplan.testing.builders import make_node
from bayplan.testing.in_memory import make_client
from bayplan.testing.virtual_time import VirtualTime

ALL = {"disabled": [{"name": "*"}]}
MISSING = "no data of 'NodeResourcesFit' in this attempt; check that the profile runs its preFilter and preScore"


@pytest.mark.parametrize(
    ("plugins", "message"),
    [
        ({"preFilter": ALL, "filter": ALL}, 'running Reserve plugin "VolumeBinding": not found'),
        (
            {"preFilter": ALL, "filter": ALL, "reserve": {"disabled": [{"name": "VolumeBinding"}]}},
            'running Reserve plugin "DynamicResources": not found',
        ),
        ({"preFilter": ALL, "filter": ALL, "reserve": ALL}, None),
        (
            {"preFilter": ALL},
            'running "NodeResourcesFit" filter plugin: ' + MISSING,
        ),
        ({}, None),
    ],
)
def test_pods_fail_without_pre_filter(plugins, message, caplog):
    document = {"profiles": [{"schedulerName": "default-scheduler", "plugins": plugins}]}
    configuration = msgspec.convert(document, KubeSchedulerConfiguration)

    async def story():
        async with make_client(make_node("a")) as client:
            scheduler = Scheduler(
                client,
                lambda handle: build_profiles(configuration, handle),
                Settings(clock=asyncio.get_running_loop()),
            )
            stop = asyncio.Event()
            running = asyncio.create_task(scheduler.run(stop))
            await scheduler.synced.wait()
            await client.create(POD, {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
            await asyncio.sleep(3)
            stop.set()
            await running
            [pod] = (await client.list(POD)).items
            return pod.spec.nodeName, [queued.message for queued in scheduler.queue]

    with asyncio.Runner(loop_factory=VirtualTime) as runner:
        assert runner.run(story()) == ((None, [message]) if message else ("a", []))
    assert "Traceback" not in caplog.text

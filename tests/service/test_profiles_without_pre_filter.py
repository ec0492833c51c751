"""A profile whose Reserve plugins lack their PreFilter fails its pods as kube-scheduler does."""

import msgspec
import pytest
from tests.support.stories import in_virtual_time, scheduling

from bayplan.core.config.profiles import build_profiles
from bayplan.core.config.types import KubeSchedulerConfiguration
from bayplan.testing.builders import make_node

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
        ({"preFilter": ALL}, 'running "NodeResourcesFit" filter plugin: ' + MISSING),
        ({}, None),
    ],
)
def test_pods_fail_without_pre_filter(plugins, message, caplog):
    document = {"profiles": [{"schedulerName": "default-scheduler", "plugins": plugins}]}
    configuration = msgspec.convert(document, KubeSchedulerConfiguration)

    async def story():
        async with scheduling(make_node("a"), build=lambda handle: build_profiles(configuration, handle)) as here:
            await here.add("p")
            await here.settle(3)
            return here.nodes(), [queued.message for queued in here.scheduler.queue]

    assert in_virtual_time(story()) == (({}, [message]) if message else ({"p": "a"}, []))
    assert "Traceback" not in caplog.text

"""Each kind that plugins read, or have events of, is followed once."""

import pytest
from tests.support.stories import in_virtual_time, scheduling

from bayplan import Action, ClusterEvent, EventHint
from bayplan.core.api.kinds import custom_kind
from bayplan.core.framework.interface import Plugin

RACKS = "racks.v1.example.com"


@pytest.mark.parametrize("namespaced", [False, True])
def test_a_custom_kind_with_events_is_followed_once(namespaced):
    """An event names the kind, and doesn't say whether it has namespaces."""

    class Racks(Plugin):
        name = "Racks"

        def __init__(self, handle):
            self.racks = handle.objects(custom_kind(RACKS, namespaced=namespaced))

        def events(self):
            return [EventHint(ClusterEvent(RACKS, Action.ADD))]

        def filter(self, cycle, pod, node):
            return None if self.racks else "there is no rack"

    async def listed():
        async with scheduling(plugins=[Racks]) as here:
            return [each.info.resource for each in here.client.transport.sent("list")].count("racks")

    assert in_virtual_time(listed()) == 1

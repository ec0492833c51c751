"""DynamicResources: the time that a search for devices may take on one node."""

import pytest

from bayplan.core.cluster.pod_changes import Removals
from bayplan.core.framework.status import Code
from bayplan.core.plugins.arguments import DynamicResourcesArgs
from bayplan.testing.builders import make_node
from devices import Clock, Devices, claim, device_class, pod_with, request, resource_slice

pytestmark = pytest.mark.feature("DynamicResources: filter timeout")


def test_search_times_out():
    objects = [device_class(), resource_slice("s", "a", "b", node="n1"), claim("c", request(count=2))]
    slow = Devices(objects, args=DynamicResourcesArgs(filterTimeout="500ms"), clock=Clock(steps=1.0))
    status = slow.ask(pod_with("c"))
    assert (status.code, status.message) == (Code.ERROR, "node n1: timed out trying to allocate devices")
    assert Devices(objects, args=DynamicResourcesArgs(filterTimeout="0s"), clock=Clock(steps=1.0)).gets(pod_with("c"))


def test_no_node_is_searched_after_a_timeout():
    nodes = [make_node(name) for name in ("n1", "n2", "n3")]
    objects = [*nodes, device_class(), resource_slice("s", "a", allNodes=True), claim("c", request())]
    cluster = Devices(objects, args=DynamicResourcesArgs(filterTimeout="2s"), clock=Clock(steps=3.0))
    pod = pod_with("c")
    assert cluster.plugin.pre_filter(cluster.cycle, pod, cluster.state.nodes) is None
    before = cluster.clock.time
    rejections = cluster.plugin.filter_nodes(cluster.cycle, pod, cluster.state.nodes)
    assert cluster.clock.time - before == 6.0, "the clock is read at the start, and once after the deadline"
    assert {rejections.statuses[index - 1].message for index in rejections.index} == {
        "node n1: timed out trying to allocate devices"
    }


class SlowAtFirst(Clock):
    """A clock on which the first search takes 30 seconds, and the others take no time."""

    reads = 0

    def __call__(self):
        self.reads += 1
        self.time += 30.0 if self.reads == 2 else 0.0  # after the beginning of the search
        return self.time


def test_in_what_ifs_a_timeout_concerns_one_node():
    """As in upstream's DryRunPreemption, where the other nodes stay candidates."""
    nodes = [make_node(name) for name in ("n1", "n2", "n3")]
    slices = [resource_slice(f"s-{name}", "a", node=name) for name in ("n1", "n2", "n3")]
    cluster = Devices([*nodes, device_class(), *slices, claim("c", request())], clock=SlowAtFirst())
    pod = pod_with("c")
    assert cluster.plugin.pre_filter(cluster.cycle, pod, cluster.state.nodes) is None
    cluster.clock.reads = 0
    what_if = cluster.state.nodes.changed(Removals([[], [], []]))
    for _ in range(2):
        rejections = cluster.plugin.filter_nodes(cluster.cycle, pod, what_if)
        messages = [rejections.statuses[index - 1].message if index else None for index in rejections.index]
        assert messages == ["node n1: timed out trying to allocate devices", None, None]

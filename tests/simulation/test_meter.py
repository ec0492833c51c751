"""What a meter says of utilization: known by construction, and the same as a plain sum at any time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayplan.answers.simulation.meter import ClusterMeter
from bayplan.answers.simulation.metered_nodes import Size

GIB = 1 << 30


def test_requested_and_stranded_are_shares_of_what_is_allocatable():
    meter = ClusterMeter(100.0)
    meter.node_added(0.0, "a", {}, Size(4000, 8 * GIB))
    meter.node_added(0.0, "b", {}, Size(4000, 8 * GIB))
    meter.pod_bound(0.0, "x", "a", "web", None, Size(4000, 2 * GIB))  # 6 GiB of a are stranded: it has no CPU free
    meter.pod_bound(0.0, "y", "b", "web", None, Size(1000, 4 * GIB))  # 3/4 of CPU and 1/2 of memory are free
    found = meter.summary().utilization
    assert found.cpu == pytest.approx(5 / 8)
    assert found.memory == pytest.approx(6 / 16)
    assert found.stranded_memory == pytest.approx(6 / 16)
    assert found.stranded_cpu == pytest.approx(0.25 * 4 / 8)


def test_there_is_no_share_without_nodes():
    found = ClusterMeter(10.0).summary()
    assert found.utilization.cpu is None
    assert all(point.utilization.cpu is None for point in found.curve)


steps = st.lists(
    st.tuples(st.sampled_from(["node", "gone", "pod", "end"]), st.integers(0, 4), st.integers(0, 4000)), max_size=40
)


@given(steps)
def test_the_last_point_is_a_plain_sum(happened):
    meter, nodes, pods = ClusterMeter(100.0), {}, {}
    for at, (what, number, cpu) in enumerate(happened):
        node, pod = f"n{number}", f"p{number}"
        if what == "node":
            if node not in nodes:
                nodes[node] = {}
            meter.node_added(float(at), node, {}, Size(4000, 4 * GIB))
        elif what == "gone" and node in nodes:
            for key in list(nodes[node]):
                meter.pod_left(float(at), key, node, "web")
                del pods[key]
            del nodes[node]
            meter.node_removed(float(at), node)
        elif what == "pod" and pod not in pods and nodes:
            target = min(nodes)
            meter.pod_bound(float(at), pod, target, "web", 0.0, Size(cpu, GIB))
            pods[pod] = target
            nodes[target][pod] = cpu
        elif what == "end" and pod in pods:
            meter.pod_left(float(at), pod, pods[pod], "web")
            del nodes[pods.pop(pod)][pod]
    last = meter.summary().curve[-1].utilization
    if not nodes:
        assert last.cpu is None
    else:
        assert last.cpu == pytest.approx(sum(sum(each.values()) for each in nodes.values()) / (4000 * len(nodes)))
        assert last.memory == pytest.approx(len(pods) / (4 * len(nodes)))

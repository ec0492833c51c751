"""Plugins that write into the arrays of their arguments fail, and corrupt nothing."""

import random

import numpy as np
import pytest

from bayplan.answers.simulation.handle import OfflineHandle
from bayplan.core.config import default_profile
from bayplan.core.framework.interface import Plugin, PostFilterResult
from bayplan.core.framework.status import Status
from bayplan.core.scheduling import decide
from bayplan.core.scheduling.decision import Outcome
from bayplan.core.sharing import Sharing
from bayplan.testing.builders import make_cluster, make_node, make_pod

COLUMNS = {
    "live": lambda nodes: nodes.live,
    "pod_count": lambda nodes: nodes.pod_count,
    "allowed_pods": lambda nodes: nodes.allowed_pods,
    "unschedulable": lambda nodes: nodes.unschedulable,
    "allocatable": lambda nodes: nodes.allocatable("cpu"),
    "requested": lambda nodes: nodes.requested("memory"),
    "requested, unknown": lambda nodes: nodes.requested("example.com/gpu"),
    "nonzero_requested": lambda nodes: nodes.nonzero_requested("cpu"),
    "port_conflicts": lambda nodes: nodes.port_conflicts(make_pod("x", host_ports=[80]).host_ports[0]),
}

LINUX = {"kubernetes.io/os": "linux"}
NO_HELP = PostFilterResult(Status.unschedulable("nothing to do"))


def cluster_with(*plugins):
    return make_cluster(
        *(make_node(name, labels=LINUX) for name in "ac"),
        make_node("b"),
        make_pod("u", node="a", host_ports=[80]),
        plugins=plugins,
    )


def table_of(cluster):
    nodes = cluster.state.nodes
    return [column(nodes).tolist() for column in COLUMNS.values()]


def sharing(plugin):
    """Let pods share the plugin's results, so that it doesn't turn sharing off."""
    plugin.sign = lambda self, pod: ()
    return plugin


@pytest.mark.parametrize("column", COLUMNS.values(), ids=COLUMNS)
@pytest.mark.parametrize("form", ["filter_nodes", "score_nodes", "pre_filter", "pre_score"])
def test_writing_into_a_column_is_an_error_of_the_plugin(column, form):
    def write(self, cycle, pod, nodes):
        if pod.name == "bad":
            column(nodes)[...] = 0
        return np.zeros(len(nodes), dtype=np.int64) if form == "score_nodes" else None

    cluster = cluster_with(type("Writer", (Plugin,), {"name": "Writer", form: write}))
    before = table_of(cluster)
    decision = cluster.decide(make_pod("bad"))
    assert decision.outcome is Outcome.ERROR
    assert "read-only" in decision.message
    assert decision.failed_plugin == "Writer"
    assert table_of(cluster) == before
    assert cluster.decide(make_pod("good")).outcome is Outcome.SCHEDULED


def test_verdicts_and_rows_are_read_only():
    class Writer(Plugin):
        name = "Writer"

        def post_filter(self, cycle, pod, diagnosis, what_if):
            for array in (diagnosis.verdicts.codes, diagnosis.verdicts.feasible_mask):
                with pytest.raises(ValueError, match="read-only"):
                    array[0] = 1
            return PostFilterResult(Status.unschedulable("nothing to do"))

        def pre_score(self, cycle, pod, nodes):
            nodes.rows[0] = 2

    cluster = cluster_with(Writer)
    assert cluster.decide(make_pod("huge", cpu="100")).outcome is Outcome.UNSCHEDULABLE
    narrow = make_pod("p", node_selector={"kubernetes.io/hostname": "b"})
    assert cluster.decide(narrow).message.endswith("assignment destination is read-only")


def unlocked(array):
    """The array made writable if numpy allows it, else a copy; both as a plugin that insists would get them."""
    try:
        array.flags.writeable = True
    except ValueError:
        return array.copy()
    return array


@pytest.mark.parametrize("form", ["filter_nodes", "pre_filter", "pre_score", "score_nodes", "post_filter"])
def test_plugin_that_makes_arrays_writable_changes_nothing_for_later_pods(form):
    def write(self, cycle, pod, nodes, *others):
        if form == "post_filter":
            verdicts = nodes.verdicts
            arrays = [verdicts.codes, verdicts.feasible_mask]
            nodes = verdicts.nodes
        else:
            arrays = [nodes.rows] if isinstance(nodes.rows, np.ndarray) else []
        arrays += [column(nodes) for column in COLUMNS.values()]
        if self.active:
            for array in arrays:
                unlocked(array)[...] = 1
        return {"score_nodes": np.zeros(len(nodes), dtype=np.int64)}.get(form) if form != "post_filter" else NO_HELP

    def outcomes(*, active):
        plugin = sharing(type("Writer", (Plugin,), {"name": "Writer", form: write, "active": active}))
        cluster = cluster_with(plugin)
        profile, shared = cluster.profile, Sharing(cluster.profile)
        pods = [make_pod(f"p{n}", cpu=cpu, node_selector=LINUX) for n, cpu in enumerate(["1", "1", "9", "9", "1", "9"])]
        told = []
        for pod in pods:
            decision = decide(profile, cluster.state, pod, random.Random(0), start=shared.start)
            told.append((decision.node, decision.message))
            if decision.node:
                cluster.state.assume(pod, decision.node)
        assert shared.used
        return told, table_of(cluster)

    assert outcomes(active=True) == outcomes(active=False)


@sharing
class Raw(Plugin):
    """Returns columns and its own buffer as raw scores."""

    name = "Raw"

    def __init__(self):
        self.buffer = np.zeros(3, dtype=np.int64)

    def score_nodes(self, cycle, pod, nodes):
        self.buffer[: len(nodes)] = nodes.allocatable("cpu")
        return self.buffer if len(nodes) == 3 else nodes.requested("cpu")

    def normalize_scores(self, cycle, pod, scores, nodes):
        return np.minimum(scores, 100)


def test_scores_that_are_columns_or_buffers_are_copied():
    cluster = make_cluster(make_node("a"), make_node("b"), make_node("c"))
    state, plugin = cluster.state, Raw()
    profile = default_profile("default-scheduler", OfflineHandle(state), [plugin])
    shared = Sharing(profile)
    for number in range(8):
        pod = make_pod(f"p{number}", cpu="100m")
        decision = decide(profile, state, pod, random.Random(0), start=shared.start)
        assert decision.outcome is Outcome.SCHEDULED
        state.assume(pod, decision.node)
        plugin.buffer[:] = -1
        assert state.nodes.requested("cpu").sum() == 100 * (number + 1)
    assert shared.used > 0

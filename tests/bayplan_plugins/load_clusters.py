"""Clusters with measured loads, for the tests of Trimaran."""

from bayplan.answers.simulation.handle import OfflineHandle
from bayplan.plugin import CycleState, Score
from bayplan.testing import make_cluster, make_pod
from bayplan_plugins.trimaran.loads import LOAD_REPORTS
from bayplan_plugins.trimaran.sources import LoadReport, Metric, NodeLoad

END = 1_790_000_000
WATCHER = "http://watcher:2020"
KEY = "load-watcher"
"""The name of its report."""


def load(metrics):
    return NodeLoad.of(Metric(*each) for each in metrics)


def report_of(loads, key=KEY):
    """A LoadReport as an object of a snapshot has it."""
    nodes = {name: [getattr(each, field) for field in NodeLoad.__struct_fields__] for name, each in loads.nodes.items()}
    head = {"apiVersion": "bayplan.dev/v1alpha1", "kind": "LoadReport", "metadata": {"name": key, "uid": key}}
    return head | {"end": loads.end, "nodes": nodes}


def report(handle, loads, key=KEY, end=END):
    """Put a report as the task does. `loads`: metrics by node."""
    content = report_of(LoadReport(end, {name: load(each) for name, each in loads.items()}))
    handle.feed(LOAD_REPORTS, "LoadReport").put(key, {field: content[field] for field in ("end", "nodes")})


def containers(*amounts, fields=("requests", "limits")):
    """Containers with [millicores, bytes] each."""
    return [
        {"name": f"c{at}", "resources": {field: {"cpu": f"{cpu}m", "memory": str(memory)} for field in fields}}
        for at, (cpu, memory) in enumerate(amounts)
    ]


def pod_of(*amounts, name="p", **fields):
    return make_pod(name, spec={"containers": containers(*amounts)}, **fields)


class Loaded:
    """A plugin in a cluster, and the handle that it has."""

    def __init__(self, plugin, args, *objects):
        self.state = make_cluster(*objects, plugins=[]).state
        self.handle = OfflineHandle(self.state)
        self.plugin = plugin(args, self.handle)

    def report(self, loads, end=END):
        report(self.handle, loads, self.plugin._loads._source.key, end)

    def scores(self, pod):
        """The raw scores of all nodes, in both forms."""
        nodes = self.state.nodes
        found = self.plugin.score_nodes(CycleState(), pod, nodes).tolist()
        if isinstance(self.plugin, Score):
            assert [self.plugin.score(CycleState(), pod, nodes.info(at)) for at in range(len(nodes))] == found
        return found

import pytest
from playground import Playground

from bayplan.foundations.clock import RunningClock
from bayplan.testing.observer import Observer
from bayplan_devcluster.cluster import DevCluster
from bayplan_devcluster.kubelet import make_node


@pytest.fixture
async def playground(tmp_path):
    """A cluster with a control plane node, a node for cron jobs and two others. A minute takes two seconds."""
    nodes = [
        make_node("node-control", labels={"tier": "control"}),
        make_node("node-cronjob", labels={"tier": "cronjob"}),
        make_node("node-a"),
        make_node("node-b"),
    ]
    async with DevCluster(nodes, clock=RunningClock(30)) as cluster, Observer(cluster.client) as observer:
        await cluster.nodes_ready()
        kubeconfig = tmp_path / "kubeconfig"
        cluster.write_kubeconfig(kubeconfig)
        yield Playground(cluster, observer, kubeconfig)

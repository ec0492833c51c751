from __future__ import annotations

import pytest
from playground import Playground

from bayplan.clock import RunningClock
from bayplan.devcluster.cluster import DevCluster
from bayplan.devcluster.kubelet import make_node
from bayplan.testing.witness import Witness


@pytest.fixture
async def playground(tmp_path):
    """Four nodes: one of the control plane, one for cron jobs, two of no tier. A minute passes in two seconds."""
    nodes = [
        make_node("node-control", labels={"tier": "control"}),
        make_node("node-cronjob", labels={"tier": "cronjob"}),
        make_node("node-a"),
        make_node("node-b"),
    ]
    async with DevCluster(nodes, clock=RunningClock(30)) as cluster, Witness(cluster.client) as witness:
        await cluster.nodes_ready()
        kubeconfig = tmp_path / "kubeconfig"
        cluster.write_kubeconfig(kubeconfig)
        yield Playground(cluster, witness, kubeconfig)

"""Writes whose replies are lost or that arrive late, over real sockets: nothing is held twice, and all pods run."""

import math
import random
from contextlib import asynccontextmanager

import pytest
import yaml
from claimed_devices import devices_of
from device_objects import claiming, template
from running import bayplan_run
from tests.support.tables import cases
from workloads import pod

from bayplan.core.api.kinds import RESOURCE_CLAIM_TEMPLATE
from bayplan_devcluster.kubelet import RUN_SECONDS

pytestmark = [
    pytest.mark.usefixtures("invariants"),
    pytest.mark.feature("Writes without a reply: nothing is held twice, over real sockets"),
]

LATE = 2.0
"""Seconds within which a late request arrives."""
ALL, NO_CONDITIONS = "", r"^(?!.*/pods/[^/]+/status)"
FATES = (ALL, {"drop_response": True}), (NO_CONDITIONS, {"late": LATE}), (ALL, {"late": math.inf})
"""The reply is lost; the request arrives after its sender has given it up; it never arrives.

A late condition is one that no client can take back: patches of conditions name no version. So it would say that a pod
is pending after it was bound.
"""


def disturb(proxy, share):
    """From now on, this share of the writes gets no reply, each fate as often as the others."""
    rng = random.Random(0)
    return [
        proxy.inject(method, path, times=None, share=_of_the_rest(share, number), rng=rng, **what)
        for method in ("POST", "PUT", "PATCH", "DELETE")
        for number, (path, what) in enumerate(FATES)
    ]


def _of_the_rest(share, number):
    """The share of one fate, of the writes that the fates before it have left."""
    each = share / len(FATES)
    return each / (1 - number * each)


def short_lived(document):
    """The pod, which ends soon: what it held is taken at once."""
    metadata = {**document["metadata"], "annotations": {RUN_SECONDS: "0.3"}}
    return {"metadata": metadata, "spec": {**document["spec"], "restartPolicy": "Never"}}


@asynccontextmanager
async def scheduling_through(proxy, cluster, folder):
    """Run `bayplan run` behind the proxy. A lost renewal of its lease is another test's subject."""
    document = yaml.safe_load(cluster.scheduler_kubeconfig.read_text())
    document["clusters"][0]["cluster"] = {"server": proxy.url}
    path = folder / "kubeconfig-of-the-proxy"
    path.write_text(yaml.safe_dump(document))
    async with bayplan_run("--kubeconfig", path, "--leader-elect=false") as running:
        yield running


@cases("share", {"a fifth of the replies": 0.2, "half of the replies": 0.5})
async def test_nothing_is_held_twice(cluster, proxy, tmp_path, share):
    await crowd(cluster, proxy, tmp_path, share, nodes=4, room=3, devices=8)


@pytest.mark.soak
@cases("share", {"a fifth of the replies": 0.2, "half of the replies": 0.5})
async def test_nothing_is_held_twice_on_90_nodes(cluster, proxy, tmp_path, share):
    await crowd(cluster, proxy, tmp_path, share, nodes=90, room=4, devices=300)


async def crowd(cluster, proxy, folder, share, *, nodes, room, devices):
    """Half again as many pods as fit, and as many claims: so some wait for what others hold."""
    names = await cluster.add_nodes(nodes, cpu=str(room))
    plain = [pod(f"full-{number:03}", "1", terminationGracePeriodSeconds=0) for number in range(nodes * room * 3 // 2)]
    with_claims = [claiming(f"device-{number:03}", templates=["t"], cpu="1m") for number in range(devices * 3 // 2)]
    made = [short_lived(each) for each in (*plain, *with_claims)]
    async with devices_of(cluster) as claims:
        await claims.create(RESOURCE_CLAIM_TEMPLATE, template())
        for at, name in enumerate(names):
            await claims.slice(name, *(f"gpu-{number}" for number in range(at, devices, nodes)))
        faults = disturb(proxy, share)
        async with scheduling_through(proxy, cluster, folder):
            await cluster.create_fast(made)
            await cluster.observer.until(lambda: _phases(cluster) == {"Succeeded"})
            await proxy.arrived()
        assert {each["metadata"]["name"] for each in with_claims} <= {
            name.removeprefix("default/") for name in cluster.observer.pods
        }
        assert len(claims.users_seen) >= len(with_claims)
        assert sum(fault.hits for fault in faults) > share * len(made), "the network was as bad as it should be"


def _phases(cluster):
    return {each["status"]["phase"] for each in cluster.observer.pods.values()}

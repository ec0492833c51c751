"""check foretells what the real Kueue does with jobs: which it admits, which wait for quota, and which wait forever."""

import asyncio

import pytest
from tests.support.kueue import KueueError, kueue_cluster, kueue_kind, kueue_program

from bayplan.core.api.kinds import JOB
from bayplan.insight import Insight, Snapshot

QUOTA = 8
NEVER, WAITS = "kueue-never-admits", "kueue-waits"
JOBS = [
    ("a-fits", {"cpu": "1"}, 2, "queue", None),
    ("b-too-large", {"cpu": "1"}, QUOTA + 1, "queue", NEVER),
    ("c-takes-more", {"cpu": "1"}, 3, "queue", None),
    ("d-waits", {"cpu": "1"}, 4, "queue", WAITS),
    ("e-other-resource", {"cpu": "1m", "memory": "1Mi"}, 1, "queue", NEVER),
    ("f-lost", {"cpu": "1m"}, 1, "queueue", NEVER),
    ("g-few-at-a-time", {"cpu": "1"}, 1, "queue", None),
]
FOREVER = ("unavailable in ClusterQueue", "maximum capacity", "doesn't exist")
"""What Kueue says of a workload that it can never admit."""


def job(name, requests, count, queue):
    container = {"name": "main", "image": "i", "resources": {"requests": requests}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default", "labels": {"kueue.x-k8s.io/queue-name": queue}},
        "spec": {"suspend": True, "parallelism": count, "completions": 10 * count, "template": template},
    }


async def said_of(client, name):
    """What Kueue says of a job's quota: whether it has it, and why not."""
    async with asyncio.timeout(120):
        while True:
            for workload in (await client.list(kueue_kind("workloads"), "default")).items:
                if workload.metadata.name.startswith(f"job-{name}-"):
                    for each in (workload.get("status") or {}).get("conditions") or ():
                        if each["type"] == "QuotaReserved":
                            return each["status"] == "True", each["message"]
            await asyncio.sleep(0.2)


@pytest.mark.timeout(600)
async def test_kueue_admits_what_check_says():
    try:
        kueue_program()
    except KueueError as error:
        pytest.skip(str(error))
    async with kueue_cluster() as cluster:
        await cluster.add_nodes(1)
        await cluster.add_queue(QUOTA, check=False)
        documents = [job(*each) for *each, _ in JOBS]
        snapshot = await asyncio.to_thread(Snapshot.from_cluster, cluster.kubeconfig)
        found = await asyncio.to_thread(Insight(snapshot).check, documents)
        foretold = {each.object: each.rule for each in found.findings if each.rule in {NEVER, WAITS}}
        happened = {}
        for document in documents:
            await cluster.client.create(JOB, document, "default")
            name = document["metadata"]["name"]
            admitted, message = await said_of(cluster.client, name)
            if not admitted:
                happened[f"job default/{name}"] = NEVER if any(map(message.__contains__, FOREVER)) else WAITS
    assert happened == foretold
    assert foretold == {f"job default/{name}": rule for name, _, _, _, rule in JOBS if rule}

"""Pods with claims on the embedded cluster. The test is the controller that binds claims and makes volumes."""

from __future__ import annotations

import asyncio
from contextlib import aclosing, asynccontextmanager

import pytest

from bayplan.api.kinds import PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, POD, STORAGE_CLASS
from bayplan.client import ClusterAccess
from bayplan.devcluster.cluster import DevCluster
from bayplan.testing import make_node, make_pod
from bayplan.testing.live import as_sent
from bayplan.testing.running import running_scheduler

pytestmark = pytest.mark.feature("VolumeBinding: on the embedded cluster")

SELECTED = "volume.kubernetes.io/selected-node"


def storage_class(name, provisioner):
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": provisioner,
        "volumeBindingMode": "WaitForFirstConsumer",
    }


def claim(name, of):
    resources = {"requests": {"storage": "1Gi"}}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": of, "resources": resources},
    }


def volume(name, of, node):
    expression = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Gi"},
            "storageClassName": of,
            "local": {"path": "/data"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}},
        },
    }


def using(name, claim_name):
    pod = make_pod(name, spec={"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": claim_name}}]})
    return as_sent(pod)


@asynccontextmanager
async def running():
    """A cluster with two nodes and a scheduler. Yields a client."""
    async with DevCluster([make_node("a"), make_node("b")]) as cluster:
        await cluster.nodes_ready()
        access = ClusterAccess(server=cluster.url)
        async with running_scheduler(access, scheduler_name="default-scheduler"), asyncio.timeout(30):
            yield cluster.client


async def seen(client, kind, condition):
    """The first version of an object of a kind that a condition holds of."""
    async with aclosing(client.watch(kind)) as events:
        async for event in events:
            if condition(event.object):
                return event.object
    raise AssertionError("the watch ended")


async def bind(client, claim_name, volume_name):
    """What the controller does in the end."""
    annotations = {"pv.kubernetes.io/bind-completed": "yes"}
    patch = {"metadata": {"annotations": annotations}, "spec": {"volumeName": volume_name}}
    await client.patch(PERSISTENT_VOLUME_CLAIM, claim_name, patch, "default")


async def test_a_pod_goes_where_its_volume_is_once_that_is_bound():
    async with running() as client:
        await client.create(STORAGE_CLASS, storage_class("local", "kubernetes.io/no-provisioner"))
        await client.create(PERSISTENT_VOLUME, volume("v", "local", "b"))
        available = {"status": {"phase": "Available"}}
        await client.patch(PERSISTENT_VOLUME, "v", available, subresource="status")
        await client.create(PERSISTENT_VOLUME_CLAIM, claim("c", "local"))
        await client.create(*using("p", "c"))
        taken = await seen(client, PERSISTENT_VOLUME, lambda each: each.spec.claimRef is not None)
        assert (taken.spec.claimRef.namespace, taken.spec.claimRef.name) == ("default", "c")
        assert (await client.get(POD, "p", "default")).spec.nodeName is None
        await bind(client, "c", "v")
        pod = await seen(client, POD, lambda each: each.metadata.name == "p" and each.spec.nodeName)
        assert pod.spec.nodeName == "b"


async def test_a_volume_is_made_where_the_pod_is_to_go():
    async with running() as client:
        await client.create(STORAGE_CLASS, storage_class("made", "disk.example.com"))
        await client.create(PERSISTENT_VOLUME_CLAIM, claim("c", "made"))
        await client.create(*using("p", "c"))
        asked = await seen(client, PERSISTENT_VOLUME_CLAIM, lambda each: SELECTED in (each.metadata.annotations or {}))
        node = asked.metadata.annotations[SELECTED]
        await client.create(PERSISTENT_VOLUME, volume("new", "made", node))
        await bind(client, "c", "new")
        pod = await seen(client, POD, lambda each: each.metadata.name == "p" and each.spec.nodeName)
        assert pod.spec.nodeName == node


async def test_a_provisioner_that_gives_up_has_the_pod_tried_again():
    async with running() as client:
        await client.create(STORAGE_CLASS, storage_class("made", "disk.example.com"))
        await client.create(PERSISTENT_VOLUME_CLAIM, claim("c", "made"))
        await client.create(*using("p", "c"))
        first = await seen(client, PERSISTENT_VOLUME_CLAIM, lambda each: SELECTED in (each.metadata.annotations or {}))
        taken_away = {"metadata": {"annotations": {SELECTED: None, "tried": "once"}}}
        await client.patch(PERSISTENT_VOLUME_CLAIM, "c", taken_away, "default")
        again = await seen(
            client,
            PERSISTENT_VOLUME_CLAIM,
            lambda each: {SELECTED, "tried"} <= set(each.metadata.annotations or {}),
        )
        assert first.metadata.resourceVersion != again.metadata.resourceVersion
        node = again.metadata.annotations[SELECTED]
        await client.create(PERSISTENT_VOLUME, volume("new", "made", node))
        await bind(client, "c", "new")
        pod = await seen(client, POD, lambda each: each.metadata.name == "p" and each.spec.nodeName)
        assert pod.spec.nodeName == node

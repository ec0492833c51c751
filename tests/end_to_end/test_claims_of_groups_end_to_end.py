"""Claims of PodGroups as of Kubernetes 1.36 and 1.37, with the scheduler, the controllers and the kubelets."""

from contextlib import asynccontextmanager

import pytest
from device_objects import asking, device_class, resource_slice, template
from running import running_scheduler
from tests.support.waiting import until
from workloads import NAME, pod

from bayplan.client import ClusterAccess
from bayplan.core.api.kinds import (
    DEVICE_CLASS,
    POD,
    POD_GROUP,
    POD_GROUP_V1ALPHA2,
    RESOURCE_CLAIM,
    RESOURCE_CLAIM_TEMPLATE,
    RESOURCE_SLICE,
)
from bayplan.core.config import default_profile
from bayplan.core.versions import gates_of
from bayplan_devcluster.apiserver import ApiServer
from bayplan_devcluster.cluster import DevCluster

GATES = ("GenericWorkload", "GangScheduling", "WorkloadAwarePreemption", "DRAWorkloadResourceClaims")
SHARED = {"name": "shared", "resourceClaimTemplateName": "t"}
NAMED = {"name": "named", "resourceClaimName": "c"}

pytestmark = pytest.mark.feature("DynamicResources: claims of PodGroups")


class Scene:
    """A cluster of three nodes with one device on each of the first two, and a scheduler."""

    def __init__(self, cluster, kind):
        self.client, self.kind = cluster.client, kind

    async def add_group(self, *references, name="crew", least=3):
        spec = {"schedulingPolicy": {"gang": {"minCount": least}}, "resourceClaims": list(references)}
        await self.client.create(self.kind, {"metadata": {"name": name, "namespace": "default"}, "spec": spec})

    async def add(self, *names, reference, of="crew", **spec):
        for name in names:
            document = pod(
                name, resourceClaims=[reference], schedulingGroup={"podGroupName": of}, terminationGracePeriodSeconds=1
            )
            document["spec"] |= spec
            document["spec"]["containers"][0]["resources"]["claims"] = [{"name": reference["name"]}]
            await self.client.create(POD, document)

    async def pods(self):
        return {each.metadata.name: each for each in (await self.client.list(POD, "default")).items}

    async def claims(self):
        return (await self.client.list(RESOURCE_CLAIM, "default")).items

    async def is_empty(self):
        return not await self.pods()

    async def has_no_claims(self):
        return not await self.claims()

    async def run(self, *names):
        """Wait until pods run. Returns their nodes."""

        async def running():
            found = await self.pods()
            return all(found[name].status.phase == "Running" for name in names) and found

        found = await until(running)
        return {found[name].spec.nodeName for name in names}


@asynccontextmanager
async def scene_of(version):
    on = gates_of(version)
    gates = on.but(*(gate for gate in GATES if version == "1.36" or gate in {GATES[0], GATES[3]}))
    kind = POD_GROUP_V1ALPHA2 if version == "1.36" else POD_GROUP
    async with DevCluster(3, server=ApiServer(version=version, alpha=True, gates=gates)) as cluster:
        await cluster.nodes_ready()
        await cluster.client.create(DEVICE_CLASS, device_class())
        for node in ("node-0", "node-1"):
            await cluster.client.create(RESOURCE_SLICE, resource_slice(node, "gpu-0"))
        await cluster.client.create(RESOURCE_CLAIM_TEMPLATE, template())

        def build(handle):
            return {NAME: default_profile(NAME, handle, gates=gates)}

        async with running_scheduler(ClusterAccess(server=cluster.url), build_profiles=build, names_have_order=True):
            yield Scene(cluster, kind)


@pytest.fixture(params=["1.36", "1.37"])
async def scene(request):
    async with scene_of(request.param) as scene:
        yield scene


def users(claim):
    return [(each.resource, each.name) for each in (claim.status and claim.status.reservedFor) or ()]


async def test_a_group_shares_the_claim_from_its_template(scene):
    await scene.add_group(SHARED)
    await scene.add("one", "two", "three", reference=SHARED)
    nodes = await scene.run("one", "two", "three")
    [claim] = await scene.claims()
    assert users(claim) == [("podgroups", "crew")]
    [result] = claim.status.allocation.devices.results
    assert nodes == {result.pool}
    for name in ("one", "two", "three"):
        await scene.client.delete(POD, name, "default")
    await until(scene.is_empty)
    [claim] = await scene.claims()
    assert users(claim) == [("podgroups", "crew")]
    await scene.client.delete(scene.kind, "crew", "default")
    await until(scene.has_no_claims)


async def test_two_groups_have_claims_of_their_own(scene):
    for group in ("red", "blue"):
        await scene.add_group(SHARED, name=group, least=2)
        await scene.add(f"{group}-1", f"{group}-2", reference=SHARED, of=group)
    red, blue = await scene.run("red-1", "red-2"), await scene.run("blue-1", "blue-2")
    assert len(red) == len(blue) == 1
    assert red != blue
    assert sorted(users(claim) for claim in await scene.claims()) == [[("podgroups", "blue")], [("podgroups", "red")]]


async def test_a_group_returns_the_claim_that_it_cannot_use(scene):
    await scene.client.create(RESOURCE_CLAIM, {"metadata": {"name": "c", "namespace": "default"}, "spec": asking()})
    await scene.add_group(NAMED, name="first", least=1)
    await scene.add("first", reference=NAMED, of="first", nodeSelector={"kubernetes.io/hostname": "node-0"})
    assert await scene.run("first") == {"node-0"}
    await scene.client.delete(POD, "first", "default")
    await until(scene.is_empty)
    await scene.add("again", reference=NAMED, of="first", nodeSelector={"kubernetes.io/hostname": "node-1"})
    assert await scene.run("again") == {"node-1"}
    [claim] = await scene.claims()
    assert users(claim) == [("podgroups", "first")]

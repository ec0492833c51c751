import asyncio

from bayplan.client import PatchType
from bayplan.core.api.kinds import CONFIG_MAP, NAMESPACE
from bayplan_devcluster.apiserver import ADMIN, Address, ApiServer, Tls
from bayplan_devcluster.cluster import DevCluster
from bayplan_devcluster.controllers.namespace_contents import ROOT_CA as NAME


async def test_every_namespace_has_the_certificate_authority(world):
    await world.create(NAMESPACE, {"metadata": {"name": "team"}})
    maps = world.cluster.informers.of(CONFIG_MAP)
    namespaces = ("default", "kube-system", "kube-public", "kube-node-lease", "team")

    await world.until(lambda: all(maps.get(f"{name}/{NAME}") for name in namespaces))
    assert maps.get(f"team/{NAME}").data == {"ca.crt": ""}


async def test_deleted_or_changed_certificate_authority_is_restored(world):
    maps = world.cluster.informers.of(CONFIG_MAP)
    first = await world.until(lambda: maps.get(f"default/{NAME}"))
    await world.client.delete(CONFIG_MAP, NAME, "default")
    await world.until(lambda: (one := maps.get(f"default/{NAME}")) and one.metadata.uid != first.metadata.uid)

    await world.client.patch(CONFIG_MAP, NAME, {"data": {"ca.crt": "x"}}, "default", type=PatchType.MERGE)
    await world.until(lambda: maps.get(f"default/{NAME}").data == {"ca.crt": ""})


async def test_cluster_with_tls_publishes_its_authority():
    async with DevCluster(0, server=ApiServer(address=Address(tls=Tls.create()), tokens={"secret": ADMIN})) as cluster:
        changed, maps = asyncio.Event(), cluster.informers.of(CONFIG_MAP)
        maps.listen(lambda *_: changed.set())
        async with asyncio.timeout(15):
            await changed.wait()
        published = next(iter(maps.objects.values()))

    assert published.data["ca.crt"].startswith("-----BEGIN CERTIFICATE-----")

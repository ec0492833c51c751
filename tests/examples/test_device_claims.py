from collections import Counter

from playground import EXAMPLES, Playground

from bayplan.core.api.kinds import POD, RESOURCE_CLAIM
from bayplan.foundations.clock import RunningClock
from bayplan.testing.observer import Observer
from bayplan_devcluster import manifests
from bayplan_devcluster.cluster import DevCluster


async def test_fourth_pod_waits_until_a_device_is_released(tmp_path):
    async with DevCluster(3, clock=RunningClock(30)) as cluster, Observer(cluster.client) as observer:
        await cluster.nodes_ready()
        await manifests.create(cluster.client, manifests.read([EXAMPLES / "manifests" / "device_claims.yaml"]))
        cluster.write_kubeconfig(tmp_path / "kubeconfig")

        def phases() -> Counter[tuple[str, str]]:
            return Counter((pod["status"]["phase"], pod["spec"].get("nodeName", "")) for pod in observer.pods.values())

        full = {("Running", "node-0"): 2, ("Running", "node-1"): 1, ("Pending", ""): 1}
        async with Playground(cluster, observer, tmp_path / "kubeconfig").running(
            "-m", "bayplan", "run", "--secure-port=0"
        ):
            await observer.until(lambda: phases() == full)
            chosen = sorted(
                claim.status.allocation.devices.results[0].request
                for claim in (await cluster.client.list(RESOURCE_CLAIM)).items
                if claim.status.allocation is not None
            )
            assert chosen == ["gpu/any", "gpu/large", "gpu/large"]
            [deleted, *_] = [key for key in observer.pods if observer.node_of(key) == "node-1"]
            await cluster.client.delete(POD, deleted.removeprefix("default/"), "default")
            await observer.until(lambda: deleted not in observer.pods and phases() == full)

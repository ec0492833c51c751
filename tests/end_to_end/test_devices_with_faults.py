"""More pods than devices, with faults: each device has one user at a time, and all pods run eventually."""

import pytest
from claimed_devices import devices_of
from device_objects import claiming, template
from running import running_scheduler
from tests.support.tables import cases

from bayplan.core.api.kinds import RESOURCE_CLAIM_TEMPLATE
from bayplan_devcluster.kubelet import RUN_SECONDS

pytestmark = pytest.mark.usefixtures("invariants")

CLAIM, STATUS = "/resourceclaims/[^/]*$", "/resourceclaims/.*/status$"


def short_lived(name):
    """A pod that needs a device for a short time."""
    document = claiming(name, templates=["t"], restartPolicy="Never")
    document["metadata"]["annotations"] = {RUN_SECONDS: "0.2"}
    return document


@pytest.fixture
async def devices(cluster):
    async with devices_of(cluster) as devices:
        yield devices


@pytest.mark.feature("DynamicResources: end to end")
@cases(
    "faults",
    {
        "no faults": [],
        "errors": [("PUT", STATUS, {"status": 500}), ("PUT", CLAIM, {"status": 403})],
        "conflicts": [("PUT", STATUS, {"status": 409}), ("PUT", CLAIM, {"status": 409})],
        "no replies": [("PUT", STATUS, {"drop_response": True}), ("PUT", CLAIM, {"drop_response": True})],
        "delayed, not bound": [("PUT", STATUS, {"delay": 0.2}), ("POST", "/binding$", {"status": 403})],
    },
)
async def test_all_pods_get_a_device_in_turn(cluster, devices, proxy, faults):
    names = [f"p-{number:02}" for number in range(18)]
    await devices.offer("a", "gpu-0", "gpu-1")
    await devices.offer("b", "gpu-0", "gpu-1", "gpu-2", "gpu-3")
    await devices.create(RESOURCE_CLAIM_TEMPLATE, template())

    def phases():
        return {cluster.observer.pods[f"default/{name}"]["status"]["phase"] for name in names}

    async with running_scheduler(proxy.access, names_have_order=True):  # of the pools
        injected = [proxy.inject(method, path, times=8, **what) for method, path, what in faults]
        await cluster.create_fast([short_lived(name) for name in names])
        await cluster.observer.until(lambda: phases() == {"Succeeded"})
    assert [fault.hits for fault in injected] == [8] * len(injected)
    await cluster.observer.until(lambda: not devices.all)

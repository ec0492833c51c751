"""Requests whose pods come with claims: devices from ResourceClaimTemplates, and generic ephemeral volumes."""

from answering import answering

from bayplan.core.api.kinds import (
    DEVICE_CLASS,
    PERSISTENT_VOLUME,
    RESOURCE_CLAIM_TEMPLATE,
    RESOURCE_SLICE,
    STORAGE_CLASS,
)

DRIVER = "gpu.example.com"
CLAIM = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}
CLAIMS = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one"}]}


async def add_devices(here, node, *devices):
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    offered = [{"name": each} for each in devices]
    spec = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": offered}
    await here.story.create(RESOURCE_SLICE, {"metadata": {"name": f"slice-{node}"}, "spec": spec})


async def add_class(here):
    selectors = [{"cel": {"expression": f"device.driver == '{DRIVER}'"}}]
    await here.story.create(DEVICE_CLASS, {"metadata": {"name": "gpu"}, "spec": {"selectors": selectors}})
    metadata = {"name": "one", "namespace": "default"}
    await here.story.create(RESOURCE_CLAIM_TEMPLATE, {"metadata": metadata, "spec": {"spec": CLAIM}})


async def test_devices_are_counted_and_held(here):
    await add_class(here)
    for node in ("a", "b"):
        await here.story.add_node(node, cpu="8")
    await add_devices(here, "a", "gpu-0", "gpu-1")
    await add_devices(here, "b", "gpu-0")
    await here.ask("train", cpu="1", count=2, **CLAIMS)
    await here.ask("large", cpu="1", count=2, **CLAIMS)
    await here.ask("small", cpu="1", count=1, **CLAIMS)
    assert await here.answer("train") == ("Provisioned", "True", "CapacityIsFound")
    assert await here.answer("large") == ("Provisioned", "False", "CapacityIsNotFound")
    assert "1 of 2 members fit; the next one: 0/2 nodes are available: 2 cannot allocate all claims" in (
        await here.message("large")
    )
    assert await here.answer("small") == ("Provisioned", "True", "CapacityIsFound")
    await here.delete("train")
    await here.settle()
    assert await here.answer("large") == ("Provisioned", "True", "CapacityIsFound")


async def test_devices_are_chosen_again_after_a_restart():
    async with answering() as before:
        await add_class(before)
        await before.story.add_node("a", cpu="8")
        await add_devices(before, "a", "gpu-0", "gpu-1")
        await before.ask("train", count=2, **CLAIMS)
        assert before.held() == {"a": 2}
        client = before.client
        client.close = client_stays_open
    async with answering(client=client) as after:
        await after.settle()
        assert after.held() == {"a": 2}
        await after.ask("more", count=1, **CLAIMS)
        assert await after.answer("more") == ("Provisioned", "False", "CapacityIsNotFound")
        await after.settle(600)
        assert await after.answer("train") == ("BookingExpired", "True", "CapacityReservationTimeExpired")


async def test_a_claim_template_that_is_missing_is_named(here):
    await here.story.add_node("a")
    await here.ask("train", **CLAIMS)
    assert await here.answer("train") == ("Failed", "True", "FailedToCreatePods")
    assert await here.message("train", "Failed") == "PodTemplate train: there is no ResourceClaimTemplate one"


async def test_volumes_of_the_pods_say_where_they_fit(here):
    for node in ("a", "b"):
        await here.story.add_node(node, cpu="8")
    metadata = {"name": "local", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}
    local = {"provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer"}
    await here.story.create(STORAGE_CLASS, {"metadata": metadata, **local})
    terms = [{"matchExpressions": [{"key": "disk", "operator": "Exists"}]}]
    await here.story.add_node("c", cpu="8", disk="yes")
    for number in range(2):
        spec = {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "local",
            "local": {"path": f"/d/{number}"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
        }
        status = {"phase": "Available"}
        await here.story.create(
            PERSISTENT_VOLUME, {"metadata": {"name": f"v-{number}"}, "spec": spec, "status": status}
        )
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    volumes = [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": claim}}}]
    await here.ask("large", count=3, volumes=volumes)
    assert await here.answer("large") == ("Provisioned", "False", "CapacityIsNotFound")
    assert (await here.message("large")).startswith("2 of 3 members fit")
    await here.ask("train", count=2, volumes=volumes)
    assert await here.answer("train") == ("Provisioned", "True", "CapacityIsFound")
    assert here.held() == {"c": 2}


async def client_stays_open():
    """Do nothing, in place of closing a client that another scheduler goes on with."""

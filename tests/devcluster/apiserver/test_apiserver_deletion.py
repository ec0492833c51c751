"""Deletion: grace periods, finalizers, dependents, namespaces, evictions."""

import pytest

from bayplan_devcluster.apiserver.storage.garbage_collector import STEPS_AT_ONCE

PODS = "/api/v1/namespaces/default/pods"
MAPS = "/api/v1/namespaces/default/configmaps"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"


def owned_by(owner, *, blocks=False):
    kind = {"apiVersion": "v1", "kind": "ConfigMap", "name": owner["metadata"]["name"]}
    return {"ownerReferences": [{**kind, "uid": owner["metadata"]["uid"], "blockOwnerDeletion": blocks}]}


async def test_deleted_bound_pod_waits_for_its_kubelet(api, make_pod):
    await api.create(PODS, make_pod(node="n"))
    first = await api.delete(f"{PODS}/p")
    assert first["metadata"]["deletionTimestamp"] == "2026-01-01T00:00:30Z"
    shorter = await api.delete(f"{PODS}/p?gracePeriodSeconds=5")
    assert shorter["metadata"]["deletionTimestamp"] == "2026-01-01T00:00:05Z"
    longer = await api.delete(f"{PODS}/p", {"gracePeriodSeconds": 60})
    assert longer["metadata"]["deletionGracePeriodSeconds"] == 5
    await api.delete(f"{PODS}/p", {"gracePeriodSeconds": 0})
    await api.get(f"{PODS}/p", status=404)


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
async def test_terminated_pod_is_removed_at_once(api, make_pod, phase):
    await api.create(PODS, make_pod(node="n"))
    await api.patch(f"{PODS}/p/status", {"status": {"phase": phase}})
    await api.delete(f"{PODS}/p")
    await api.get(f"{PODS}/p", status=404)


async def test_delete_checks_preconditions(api, make_config_map):
    created = await api.create(MAPS, make_config_map())
    await api.delete(f"{MAPS}/m", {"preconditions": {"resourceVersion": "1"}}, status=409)
    answer = await api.delete(f"{MAPS}/m", {"preconditions": {"uid": created["metadata"]["uid"]}})
    assert (answer["status"], answer["details"]["name"]) == ("Success", "m")


async def test_deleted_object_stays_until_its_last_finalizer_is_removed(api, make_config_map):
    await api.create(MAPS, make_config_map(finalizers=["x.y/a", "x.y/b"]))
    marked = await api.delete(f"{MAPS}/m")
    assert marked["metadata"]["deletionTimestamp"] == "2026-01-01T00:00:00Z"
    await api.patch(f"{MAPS}/m", {"metadata": {"finalizers": ["x.y/b", "x.y/c"]}}, status=422)
    await api.patch(f"{MAPS}/m", {"metadata": {"finalizers": ["x.y/b"]}})
    await api.create(MAPS, make_config_map(), status=409)
    await api.patch(f"{MAPS}/m", {"metadata": {"finalizers": None}})
    await api.get(f"{MAPS}/m", status=404)


async def test_dependents_are_removed_with_their_owner(api, make_config_map):
    owner = await api.create(MAPS, make_config_map("owner"))
    child = await api.create(MAPS, make_config_map("child", **owned_by(owner)))
    await api.create(MAPS, make_config_map("grandchild", **owned_by(child)))
    await api.create(MAPS, make_config_map("other"))
    await api.delete(f"{MAPS}/owner")
    await api.gone(f"{MAPS}/grandchild")
    assert [item["metadata"]["name"] for item in (await api.get(MAPS))["items"]] == ["other"]


async def test_orphan_policy_keeps_dependents(api, make_config_map):
    owner = await api.create(MAPS, make_config_map("owner"))
    await api.create(MAPS, make_config_map("child", **owned_by(owner)))
    await api.delete(f"{MAPS}/owner?propagationPolicy=Orphan")
    await api.gone(f"{MAPS}/owner")
    assert "ownerReferences" not in (await api.get(f"{MAPS}/child"))["metadata"]


async def test_foreground_deletion_removes_dependents_first(api, make_config_map):
    owner = await api.create(MAPS, make_config_map("owner"))
    await api.create(MAPS, make_config_map("child", finalizers=["x.y/a"], **owned_by(owner, blocks=True)))
    marked = await api.delete(f"{MAPS}/owner", {"propagationPolicy": "Foreground"})
    assert marked["metadata"]["finalizers"] == ["foregroundDeletion"]
    while "deletionTimestamp" not in (await api.get(f"{MAPS}/child"))["metadata"]:
        pass
    await api.get(f"{MAPS}/owner")
    await api.patch(f"{MAPS}/child", {"metadata": {"finalizers": None}})
    await api.gone(f"{MAPS}/owner")


async def test_owner_of_an_unserved_kind_counts_as_existing(api, make_config_map):
    fleet = {"apiVersion": "example.com/v1", "kind": "Fleet", "name": "f", "uid": "u-1"}
    gone = {"apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": "u-2"}
    await api.create(MAPS, make_config_map("of-fleet", ownerReferences=[fleet]))
    await api.create(MAPS, make_config_map("orphan", ownerReferences=[gone]))
    await api.gone(f"{MAPS}/orphan")
    await api.get(f"{MAPS}/of-fleet")


async def test_object_created_with_a_missing_owner_is_removed(api, make_config_map):
    owner = await api.create(MAPS, make_config_map("owner"))
    await api.delete(f"{MAPS}/owner")
    await api.create(MAPS, make_config_map("late", **owned_by(owner)))
    await api.gone(f"{MAPS}/late")


async def test_object_with_one_existing_owner_stays(api, make_config_map):
    first = await api.create(MAPS, make_config_map("first"))
    second = await api.create(MAPS, make_config_map("second"))
    owners = owned_by(first)["ownerReferences"] + owned_by(second)["ownerReferences"]
    await api.create(MAPS, make_config_map("child", ownerReferences=owners))
    await api.delete(f"{MAPS}/first")
    while len((await api.get(f"{MAPS}/child"))["metadata"]["ownerReferences"]) == 2:
        pass
    assert (await api.get(f"{MAPS}/child"))["metadata"]["ownerReferences"][0]["name"] == "second"


async def test_namespace_is_removed_after_its_contents(api, make_pod):
    await api.create("/api/v1/namespaces", {"metadata": {"name": "team"}})
    pods = "/api/v1/namespaces/team/pods"
    await api.create(pods, make_pod("waits", node="n"))
    await api.create(pods, make_pod("goes"))
    assert (await api.delete("/api/v1/namespaces/team"))["status"]["phase"] == "Terminating"
    rejected = await api.create(pods, make_pod("late"), status=403)
    assert "because it is being terminated" in rejected["message"]
    await api.gone(f"{pods}/goes")
    await api.get("/api/v1/namespaces/team")
    await api.delete(f"{pods}/waits?gracePeriodSeconds=0")
    await api.gone("/api/v1/namespaces/team")


async def test_large_namespace_is_emptied_in_steps(api, server, make_config_map):
    await api.create("/api/v1/namespaces", {"metadata": {"name": "team"}})
    for number in range(3 * STEPS_AT_ONCE):
        server.load([{"apiVersion": "v1", "kind": "ConfigMap", **make_config_map(f"m{number}", namespace="team")}])
    await api.delete("/api/v1/namespaces/team")
    await api.gone("/api/v1/namespaces/team")
    assert (await api.get("/api/v1/namespaces/team/configmaps"))["items"] == []


async def test_delete_collection_by_selector(api, make_config_map):
    await api.create(MAPS, make_config_map("a", labels={"x": "1"}))
    await api.create(MAPS, make_config_map("b"))
    assert len((await api.delete(f"{MAPS}?labelSelector=x"))["items"]) == 1
    assert [item["metadata"]["name"] for item in (await api.get(MAPS))["items"]] == ["b"]


async def test_eviction_checks_the_disruption_budget(api, make_pod):
    running = make_pod(node="n")
    running["metadata"]["labels"] = {"a": "b"}
    await api.create(PODS, running)
    ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    await api.patch(f"{PODS}/p/status", {"status": ready})
    spec = {"minAvailable": 1, "selector": {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}}
    await api.create(BUDGETS, {"metadata": {"name": "pdb"}, "spec": spec})
    eviction = {"metadata": {"name": "p"}}
    await api.create(f"{PODS}/p/eviction", eviction, status=429)
    status = {"observedGeneration": 1, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1}
    await api.patch(f"{BUDGETS}/pdb/status", {"status": status})
    rejected = await api.create(f"{PODS}/p/eviction", eviction, status=429)
    assert "needs 1 healthy pods and has 1 currently" in rejected["details"]["causes"][0]["message"]
    await api.patch(f"{BUDGETS}/pdb/status", {"status": {"disruptionsAllowed": 1}})
    await api.create(f"{PODS}/p/eviction", {**eviction, "deleteOptions": {"dryRun": ["All"]}})
    await api.create(f"{PODS}/p/eviction", eviction)
    spent = (await api.get(f"{BUDGETS}/pdb"))["status"]
    assert (spent["disruptionsAllowed"], list(spent["disruptedPods"])) == (0, ["p"])
    evicted = await api.get(f"{PODS}/p")
    assert evicted["status"]["conditions"][-1]["reason"] == "EvictionByEvictionAPI"
    assert evicted["metadata"]["deletionGracePeriodSeconds"] == 30

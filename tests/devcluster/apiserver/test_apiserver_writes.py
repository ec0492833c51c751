"""Creates and updates over HTTP that the recorded conversation does not contain."""

import io

import pytest

PODS = "/api/v1/namespaces/default/pods"
MAPS = "/api/v1/namespaces/default/configmaps"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


def deployment(labels, selector=None):
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    return {"metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": selector or labels}, "template": template}}


async def test_update_without_changes_keeps_the_version(api, make_config_map):
    created = await api.create(MAPS, make_config_map())
    assert await api.patch(f"{MAPS}/m", {"data": {"a": "1"}}) == created
    changed = await api.patch(f"{MAPS}/m", {"data": {"b": "2"}})
    assert int(changed["metadata"]["resourceVersion"]) > int(created["metadata"]["resourceVersion"])


async def test_generation_counts_only_changes_of_the_spec(api):
    await api.create(DEPLOYMENTS, deployment({"a": "b"}))
    assert (await api.patch(f"{DEPLOYMENTS}/d", {"metadata": {"labels": {"x": "y"}}}))["metadata"]["generation"] == 1
    assert (await api.patch(f"{DEPLOYMENTS}/d", {"spec": {"replicas": 2}}))["metadata"]["generation"] == 2
    status = {"status": {"replicas": 2}}
    assert (await api.patch(f"{DEPLOYMENTS}/d/status", status))["metadata"]["generation"] == 2
    assert (await api.patch(f"{DEPLOYMENTS}/d", {"status": {"replicas": 7}}))["status"]["replicas"] == 2


async def test_scale_reads_and_writes_replicas(api):
    await api.create(DEPLOYMENTS, deployment({"a": "b"}))
    scale = await api.get(f"{DEPLOYMENTS}/d/scale")
    assert (scale["spec"], scale["status"]) == ({"replicas": 1}, {"replicas": 0, "selector": "a=b"})
    scale["spec"]["replicas"] = 5
    assert (await api.put(f"{DEPLOYMENTS}/d/scale", scale))["spec"] == {"replicas": 5}
    assert (await api.get(f"{DEPLOYMENTS}/d"))["spec"]["replicas"] == 5
    await api.put(f"{DEPLOYMENTS}/d/scale", {**scale, "spec": {"replicas": 1}}, status=409)


async def test_update_checks_uid_and_version(api, make_config_map):
    created = await api.create(MAPS, make_config_map())
    created["metadata"]["uid"] = "another"
    answer = await api.put(f"{MAPS}/m", created, status=409)
    assert "Precondition failed: UID in precondition: another" in answer["message"]


async def test_version_0_in_an_update_matches_any_version(api, make_config_map):
    created = await api.create(MAPS, make_config_map())
    await api.patch(f"{MAPS}/m", {"data": {"b": "2"}})
    created["metadata"]["resourceVersion"] = "0"
    assert (await api.put(f"{MAPS}/m", {**created, "data": {"c": "3"}}))["data"] == {"c": "3"}
    lease = {"metadata": {"name": "l", "resourceVersion": "0"}, "spec": {"holderIdentity": "me"}}
    await api.create(LEASES, lease)
    answer = await api.put(f"{LEASES}/l", lease, status=422)
    assert "must be specified for an update" in answer["message"]


async def test_lease_update_requires_a_version_and_may_create(api):
    lease = {"metadata": {"name": "l"}, "spec": {"holderIdentity": "me"}}
    await api.put(f"{LEASES}/l", lease, status=201)
    answer = await api.put(f"{LEASES}/l", lease, status=422)
    assert "must be specified for an update" in answer["message"]


async def test_status_cannot_be_deleted(api, make_pod):
    await api.create(PODS, make_pod())
    await api.delete(f"{PODS}/p/status", status=405)
    await api.get(f"{PODS}/p/status")


async def test_object_created_by_an_update_gets_the_name_in_the_url(api):
    await api.put(f"{LEASES}/l", {"metadata": {"name": "other"}}, status=400)


async def test_dry_runs_store_nothing(api, make_config_map):
    await api.create(f"{MAPS}?dryRun=All", make_config_map())
    await api.get(f"{MAPS}/m", status=404)
    await api.create(MAPS, make_config_map())
    assert (await api.patch(f"{MAPS}/m?dryRun=All", {"data": {"b": "2"}}))["data"] == {"a": "1", "b": "2"}
    await api.delete(f"{MAPS}/m?dryRun=All")
    assert (await api.get(f"{MAPS}/m"))["data"] == {"a": "1"}


async def test_bound_pod_gets_the_topology_labels_of_its_node(api, make_pod):
    labels = {"topology.kubernetes.io/zone": "z", "topology.kubernetes.io/region": "r", "disk": "ssd"}
    await api.create("/api/v1/nodes", {"metadata": {"name": "n", "labels": labels}})
    await api.create(PODS, make_pod())
    target = {"kind": "Node", "name": "n"}
    await api.create(f"{PODS}/p/binding", {"metadata": {"name": "p"}, "target": target})
    bound = await api.get(f"{PODS}/p")
    assert bound["metadata"]["labels"] == {key: value for key, value in labels.items() if key != "disk"}
    assert bound["status"]["conditions"][0]["lastTransitionTime"] == "2026-01-01T00:00:00Z"


async def test_pod_gets_the_priority_of_its_class(api, make_pod):
    classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
    await api.create(classes, {"metadata": {"name": "low"}, "value": -5, "globalDefault": True})
    await api.create(classes, {"metadata": {"name": "meek"}, "value": 9, "preemptionPolicy": "Never"})
    assert (await api.create(PODS, make_pod("a")))["spec"]["priority"] == -5
    named = (await api.create(PODS, make_pod("b", priorityClassName="meek")))["spec"]
    assert (named["priority"], named["preemptionPolicy"]) == (9, "Never")
    await api.create(PODS, make_pod("c", priorityClassName="meek", priority=10), status=403)
    assert (await api.patch(f"{PODS}/b", {"spec": {"priority": None}}))["spec"]["priority"] == 9


async def test_too_large_body_is_rejected(api):
    body = io.BytesIO(b"x" * (3 * 1024 * 1024 + 1))
    async with api.session.post(MAPS, data=body, headers={"Content-Type": "application/json"}) as response:
        assert (response.status, (await response.json())["reason"]) == (413, "RequestEntityTooLarge")


async def test_yaml_bodies_and_responses(api):
    status, _ = await api("POST", MAPS, "metadata: {name: m}\ndata: {a: b}", **{"Content-Type": "application/yaml"})
    assert status == 201
    status, answer = await api("GET", f"{MAPS}/m", Accept="application/yaml")
    assert status == 200
    assert "data:\n  a: b\n" in answer


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ('{"metadata": {"name": "m"}, "data": {"a": "b", "a": "c"}}', 'duplicate field "data.a"'),
        ('{"metadata": {"name": "m", "colour": 1}}', 'unknown field "metadata.colour"'),
        ('{"metadata": {"name": "m"}, "data": {"a": "b"}', "unexpected end of JSON input"),
        ('["a"]', "an object is expected"),
        ("", "unexpected end of JSON input"),
        ("k8s", "invalid character 'k' looking for beginning of value"),
    ],
)
async def test_malformed_body_is_rejected(api, body, message):
    answer = await api.create(f"{MAPS}?fieldValidation=Strict", body, status=400)
    assert message in answer["message"]


async def test_field_name_cannot_inject_headers(api):
    body = {"metadata": {"name": "m"}, "a\r\nX-Forged: 1\r\n": 1}
    async with api.session.post(MAPS, json=body) as response:
        assert response.status == 201
        assert "X-Forged" not in response.headers
        assert response.headers["Warning"].startswith('299 - "unknown field')


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"tolerations": [{"operator": "Equal"}]}, "spec.tolerations[0].operator"),
        ({"tolerations": [{"key": "a", "effect": "Never"}]}, "spec.tolerations[0].effect"),
        ({"nodeSelector": {"a b": "c"}}, "spec.nodeSelector"),
        ({"schedulingGates": [{"name": "a/b"}], "nodeName": "n"}, "spec.nodeName"),
        ({"containers": [{"name": "c", "image": "i"}, {"name": "c", "image": "i"}]}, "spec.containers[1].name"),
        ({"containers": [{"name": "c"}]}, "spec.containers[0].image"),
        ({"restartPolicy": "Sometimes"}, "spec.restartPolicy"),
        ({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": ""}]}}},
         "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey"),
        ({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}}},
         "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"),
        ({"topologySpreadConstraints": [{"maxSkew": 0, "topologyKey": "a", "whenUnsatisfiable": "DoNotSchedule"}]},
         "spec.topologySpreadConstraints[0].maxSkew"),
    ],
)  # fmt: skip
async def test_invalid_pod_is_rejected_with_the_field(api, make_pod, spec, field):
    answer = await api.create(PODS, make_pod(**spec), status=422)
    assert field in [cause["field"] for cause in answer["details"]["causes"]]


async def test_workload_must_select_its_own_pods(api):
    answer = await api.create(DEPLOYMENTS, deployment({"a": "b"}, {"a": "c"}), status=422)
    assert "`selector` does not match template `labels`" in answer["message"]


async def test_services_get_different_addresses(api):
    services = "/api/v1/namespaces/default/services"
    body = {"spec": {"ports": [{"port": 80}]}}
    first = await api.create(services, {"metadata": {"name": "a"}, **body})
    second = await api.create(services, {"metadata": {"name": "b"}, **body})
    assert first["spec"]["clusterIP"] != second["spec"]["clusterIP"]
    kept = await api.put(f"{services}/a", {"metadata": {"name": "a"}, "spec": {"ports": [{"port": 81}]}})
    assert kept["spec"]["clusterIP"] == first["spec"]["clusterIP"]


async def test_internal_error_is_answered_and_logged(api, server, monkeypatch, caplog):
    def broken(*_):
        raise RuntimeError("oops")

    monkeypatch.setattr(type(server.storage), "find", broken)
    answer = await api.get(f"{PODS}/p", status=500)
    assert answer["reason"] == "InternalError"
    assert "oops" in caplog.text


@pytest.mark.parametrize("field", ["kind", "apiVersion"])
async def test_kind_that_is_not_a_string_is_rejected(api, field):
    rejected = await api.create(PODS, {field: {"a": 1}, "metadata": {"name": "p"}}, 400)
    assert f'{field} must be a string, not {{"a": 1}}' in rejected["message"]

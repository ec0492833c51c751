"""LimitRanges, ResourceQuotas and RuntimeClasses: their effect on new pods and claims, and the usage of quotas."""

from tests.support.tables import cases

PODS = "/api/v1/namespaces/default/pods"
QUOTAS = "/api/v1/namespaces/default/resourcequotas"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
LIMIT_RANGES = "/api/v1/namespaces/default/limitranges"
RUNTIME_CLASSES = "/apis/node.k8s.io/v1/runtimeclasses"


def container(requests=None, limits=None, name="c"):
    resources = {key: value for key, value in (("requests", requests), ("limits", limits)) if value}
    return {"name": name, "image": "i", "resources": resources}


def pod(name="p", requests=None, limits=None, **spec):
    return {"metadata": {"name": name}, "spec": {"containers": [container(requests, limits)], **spec}}


def quota(hard, name="quota", **spec):
    return {"metadata": {"name": name}, "spec": {"hard": hard, **spec}}


def limit_range(*items):
    return {"metadata": {"name": "limits"}, "spec": {"limits": list(items)}}


async def used(client, name="quota"):
    return (await client.get(f"{QUOTAS}/{name}"))["status"]["used"]


# Quotas


async def test_new_quota_counts_existing_objects(client):
    await client.create(PODS, pod(requests={"cpu": "250m", "memory": "64Mi"}))
    created = await client.create(QUOTAS, quota({"pods": "3", "requests.cpu": "1", "memory": "1Gi", "configmaps": "5"}))

    assert created["metadata"]["name"] == "quota"
    status = (await client.get(f"{QUOTAS}/quota"))["status"]
    assert status["hard"] == {"pods": "3", "requests.cpu": "1", "memory": "1Gi", "configmaps": "5"}
    assert status["used"] == {"pods": "1", "requests.cpu": "250m", "memory": "64Mi", "configmaps": "0"}


async def test_usage_follows_creates_and_deletes(client):
    await client.create(QUOTAS, quota({"pods": "3", "requests.cpu": "1", "count/configmaps": "2"}))
    await client.create(PODS, pod("a", {"cpu": "300m"}))
    await client.create(PODS, pod("b", {"cpu": "300m"}))
    await client.create("/api/v1/namespaces/default/configmaps", {"metadata": {"name": "m"}})
    assert await used(client) == {"pods": "2", "requests.cpu": "600m", "count/configmaps": "1"}

    await client.delete(f"{PODS}/a")
    assert await used(client) == {"pods": "1", "requests.cpu": "300m", "count/configmaps": "1"}


async def test_terminated_pod_no_longer_uses_compute_resources(client):
    await client.create(QUOTAS, quota({"pods": "3", "requests.cpu": "1", "count/pods": "5"}))
    await client.create(PODS, pod("a", {"cpu": "300m"}))
    await client.patch(f"{PODS}/a/status", {"status": {"phase": "Succeeded"}})

    assert await used(client) == {"pods": "0", "requests.cpu": "0", "count/pods": "1"}


async def test_exceeded_quota_rejects_the_pod(client):
    await client.create(QUOTAS, quota({"pods": "2", "requests.cpu": "1"}))
    await client.create(PODS, pod("a", {"cpu": "800m"}))
    error = await client.create(PODS, pod("b", {"cpu": "300m"}), status=403)

    assert error["message"] == (
        'pods "b" is forbidden: exceeded quota: quota, requested: requests.cpu=300m, used: requests.cpu=800m, '
        "limited: requests.cpu=1"
    )
    assert await used(client) == {"pods": "1", "requests.cpu": "800m"}


async def test_quota_of_cpu_requires_that_containers_request_it(client):
    await client.create(QUOTAS, quota({"requests.cpu": "1", "limits.memory": "1Gi"}))
    error = await client.create(PODS, pod("a"), status=403)

    message = 'pods "a" is forbidden: failed quota: quota: must specify limits.memory for: c; requests.cpu for: c'
    assert error["message"] == message


async def test_dry_run_is_checked_but_not_counted(client):
    await client.create(QUOTAS, quota({"pods": "1"}))
    await client.create(f"{PODS}?dryRun=All", pod("a"))
    assert await used(client) == {"pods": "0"}

    await client.create(PODS, pod("a"))
    await client.create(f"{PODS}?dryRun=All", pod("b"), status=403)


async def test_changed_quota_is_counted_again(client):
    await client.create(QUOTAS, quota({"pods": "1"}))
    await client.create(PODS, pod("a"))
    await client.patch(f"{QUOTAS}/quota", {"spec": {"hard": {"pods": "2", "secrets": "1"}}})

    status = (await client.get(f"{QUOTAS}/quota"))["status"]
    assert status == {"hard": {"pods": "2", "secrets": "1"}, "used": {"pods": "1", "secrets": "0"}}


async def test_deleted_quota_limits_nothing(client):
    await client.create(QUOTAS, quota({"pods": "0"}))
    await client.create(PODS, pod("a"), status=403)
    await client.delete(f"{QUOTAS}/quota")
    await client.create(PODS, pod("a"))


@cases(
    "scope, inside, outside",
    {
        "best effort": ({"scopes": ["BestEffort"]}, pod("a"), pod("b", {"cpu": "1"})),
        "not best effort": ({"scopes": ["NotBestEffort"]}, pod("a", {"cpu": "1"}), pod("b")),
        "terminating": ({"scopes": ["Terminating"]}, pod("a", activeDeadlineSeconds=5), pod("b")),
        "not terminating": ({"scopes": ["NotTerminating"]}, pod("a"), pod("b", activeDeadlineSeconds=5)),
        "priority class": (
            {
                "scopeSelector": {
                    "matchExpressions": [
                        {"scopeName": "PriorityClass", "operator": "In", "values": ["system-node-critical"]}
                    ]
                }
            },
            pod("a", priorityClassName="system-node-critical"),
            pod("b"),
        ),
    },
)
async def test_quota_counts_the_pods_in_its_scopes(client, scope, inside, outside):
    await client.create(QUOTAS, quota({"pods": "1"}, **scope))
    await client.create(PODS, outside)
    assert await used(client) == {"pods": "0"}
    await client.create(PODS, inside)
    assert await used(client) == {"pods": "1"}
    await client.create(PODS, {**inside, "metadata": {"name": "c"}}, status=403)


async def test_quota_counts_storage_by_class(client):
    by_class = "fast.storageclass.storage.k8s.io/requests.storage"
    await client.create(QUOTAS, quota({"requests.storage": "3Gi", by_class: "1Gi", "persistentvolumeclaims": "5"}))
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    await client.create(CLAIMS, {"metadata": {"name": "a"}, "spec": {**claim, "storageClassName": "fast"}})
    await client.create(CLAIMS, {"metadata": {"name": "b"}, "spec": {**claim, "storageClassName": "slow"}})

    assert await used(client) == {"requests.storage": "2Gi", by_class: "1Gi", "persistentvolumeclaims": "2"}
    error = await client.create(
        CLAIMS, {"metadata": {"name": "c"}, "spec": {**claim, "storageClassName": "fast"}}, status=403
    )
    assert f"requested: {by_class}=1Gi, used: {by_class}=1Gi, limited: {by_class}=1Gi" in error["message"]


async def test_quota_counts_devices_by_class(client):
    claims = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
    gpus, nics = (f"{name}.deviceclass.resource.k8s.io/devices" for name in ("gpu", "nic"))
    await client.create(QUOTAS, quota({gpus: "5", nics: "40"}))
    alternatives = [
        {"name": "large", "deviceClassName": "gpu", "count": 1},
        {"name": "small", "deviceClassName": "gpu", "count": 3},
        {"name": "any", "deviceClassName": "nic", "allocationMode": "All"},
    ]
    requests = [{"name": "one", "firstAvailable": alternatives}, {"name": "two", "exactly": {"deviceClassName": "gpu"}}]
    claim = {"metadata": {"name": "a"}, "spec": {"devices": {"requests": requests}}}
    await client.create(claims, claim)
    assert await used(client) == {gpus: "4", nics: "32"}

    error = await client.create(claims, {**claim, "metadata": {"name": "b"}}, status=403)
    assert f"used: {gpus}=4,{nics}=32, limited: {gpus}=5,{nics}=40" in error["message"]


async def test_quota_counts_node_ports_when_the_type_of_a_service_changes(client):
    services = "/api/v1/namespaces/default/services"
    await client.create(QUOTAS, quota({"services.nodeports": "0"}))
    await client.create(services, {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}})
    error = await client.patch(f"{services}/s", {"spec": {"type": "NodePort"}}, status=403)

    assert "exceeded quota: quota, requested: services.nodeports=1" in error["message"]


async def test_quota_validation_reports_every_wrong_field(client):
    bad = quota({"gpus": "1", "pods": "500m", "cpu": "-1"}, scopes=["BestEffort", "NotBestEffort", "Odd"])
    error = await client.create(QUOTAS, bad, status=422)

    fields = [cause["field"] for cause in error["details"]["causes"]]
    assert {"spec.hard[gpus]", "spec.hard[pods]", "spec.hard[cpu]", "spec.scopes"} <= set(fields)
    assert 'Invalid value: "gpus": must be a standard resource for quota' in error["message"]


# Limit ranges


async def test_limit_range_sets_missing_requests_and_limits(client):
    item = {"type": "Container", "default": {"cpu": "1"}, "defaultRequest": {"cpu": "500m"}}
    await client.create(LIMIT_RANGES, limit_range(item))
    created = await client.create(PODS, pod())

    assert created["spec"]["containers"][0]["resources"] == {"requests": {"cpu": "500m"}, "limits": {"cpu": "1"}}
    noted = "LimitRanger plugin set: cpu request for container c; cpu limit for container c"
    assert created["metadata"]["annotations"] == {"kubernetes.io/limit-ranger": noted}
    assert created["status"]["qosClass"] == "Burstable"


async def test_limit_range_completes_itself(client):
    item = {"type": "Container", "max": {"cpu": "2"}, "min": {"cpu": "100m", "memory": "1Mi"}}
    created = await client.create(LIMIT_RANGES, limit_range(item))

    completed = created["spec"]["limits"][0]
    assert (completed["default"], completed["defaultRequest"]) == ({"cpu": "2"}, {"cpu": "2", "memory": "1Mi"})


@cases(
    "item, requests, limits, message",
    {
        "below the minimum": (
            {"min": {"cpu": "1"}},
            {"cpu": "500m"},
            {},
            "minimum cpu usage per Container is 1, but request is 500m",
        ),
        "above the maximum": (
            {"max": {"cpu": "1"}},
            {"cpu": "1"},
            {"cpu": "2"},
            "maximum cpu usage per Container is 1, but limit is 2",
        ),
        "ratio": (
            {"maxLimitRequestRatio": {"cpu": "2"}},
            {"cpu": "1"},
            {"cpu": "3"},
            "cpu max limit to request ratio per Container is 2, but provided ratio is 3.000000",
        ),
        "ratio without request": (
            {"maxLimitRequestRatio": {"memory": "2"}},
            {},
            {},
            "memory max limit to request ratio per Container is 2, but no request is specified or request is 0",
        ),
        "pod without limit": (
            {"type": "Pod", "max": {"memory": "1Gi"}},
            {},
            {},
            "maximum memory usage per Pod is 1Gi.  No limit is specified",
        ),
    },
)
async def test_limit_range_rejects_pods(client, item, requests, limits, message):
    await client.create(LIMIT_RANGES, limit_range({"type": "Container", **item}))
    error = await client.create(PODS, pod("p", requests, limits), status=403)

    assert error["message"] == f'pods "p" is forbidden: {message}'


async def test_limit_range_rejects_claims(client):
    item = {"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}, "max": {"storage": "2Gi"}}
    await client.create(LIMIT_RANGES, limit_range(item))
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "3Gi"}}}
    error = await client.create(CLAIMS, {"metadata": {"name": "c"}, "spec": spec}, status=403)

    assert error["message"] == (
        'persistentvolumeclaims "c" is forbidden: maximum storage usage per PersistentVolumeClaim is 2Gi, but request '
        "is 3Gi"
    )


async def test_limit_range_leaves_other_namespaces_alone(client):
    await client.create("/api/v1/namespaces", {"metadata": {"name": "other"}})
    item = {"type": "Container", "default": {"cpu": "1"}}
    await client.create("/api/v1/namespaces/other/limitranges", limit_range(item))
    created = await client.create(PODS, pod())

    assert created["spec"]["containers"][0]["resources"] == {}


@cases(
    "item, message",
    {
        "type": ({"type": "Node"}, 'Invalid value: "Node": must be a standard limit type or fully qualified'),
        "default of a pod": (
            {"type": "Pod", "default": {"cpu": "1"}},
            "Forbidden: may not be specified when `type` is 'Pod'",
        ),
        "minimum above maximum": (
            {"type": "Container", "min": {"cpu": "2"}, "max": {"cpu": "1"}},
            "min value 2 is greater than max value 1",
        ),
        "claim without storage": (
            {"type": "PersistentVolumeClaim"},
            "either minimum or maximum storage value is required, but neither was provided",
        ),
    },
)
async def test_limit_range_validation(client, item, message):
    error = await client.create(LIMIT_RANGES, limit_range(item), status=422)

    assert message in error["message"]


# Runtime classes


async def test_runtime_class_completes_the_pod(client):
    scheduling = {"nodeSelector": {"runtime": "gvisor"}, "tolerations": [{"key": "gvisor", "operator": "Exists"}]}
    runtime_class = {"metadata": {"name": "gvisor"}, "handler": "runsc", "overhead": {"podFixed": {"cpu": "250m"}}}
    await client.create(RUNTIME_CLASSES, {**runtime_class, "scheduling": scheduling})
    created = await client.create(PODS, pod(runtimeClassName="gvisor"))

    assert created["spec"]["overhead"] == {"cpu": "250m"}
    assert created["spec"]["nodeSelector"] == {"runtime": "gvisor"}
    assert {"key": "gvisor", "operator": "Exists"} in created["spec"]["tolerations"]


@cases(
    "spec, message",
    {
        "unknown class": ({"runtimeClassName": "none"}, 'pod rejected: RuntimeClass "none" not found'),
        "overhead without class": (
            {"overhead": {"cpu": "1"}},
            "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead",
        ),
        "other overhead": (
            {"runtimeClassName": "gvisor", "overhead": {"cpu": "1"}},
            "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead",
        ),
        "other node selector": (
            {"runtimeClassName": "gvisor", "nodeSelector": {"runtime": "runc"}},
            "conflict: runtimeClass.scheduling.nodeSelector[runtime] = gvisor; pod.spec.nodeSelector[runtime] = runc",
        ),
    },
)
async def test_runtime_class_rejects_contradictions(client, spec, message):
    runtime_class = {"metadata": {"name": "gvisor"}, "handler": "runsc", "overhead": {"podFixed": {"cpu": "250m"}}}
    await client.create(RUNTIME_CLASSES, {**runtime_class, "scheduling": {"nodeSelector": {"runtime": "gvisor"}}})
    error = await client.create(PODS, pod(**spec), status=403)

    assert error["message"] == f'pods "p" is forbidden: {message}'

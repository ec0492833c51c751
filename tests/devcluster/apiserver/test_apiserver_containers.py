"""Validation of containers, claims, volumes and device selectors: every wrong field is reported."""

import pytest
from tests.support.tables import cases

PODS = "/api/v1/namespaces/default/pods"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
INIT_ONLY = "may not be set for init containers without restartPolicy=Always"
HTTP = {"httpGet": {"port": 80}}
VARIABLE = (
    'Invalid value: "A=B": a valid environment variable name must consist only of printable ASCII characters other '
    "than '='"
)


def causes(error):
    return {
        (cause["field"].removeprefix("spec.containers[0]."), cause["message"]) for cause in error["details"]["causes"]
    }


@cases(
    "container, expected",
    {
        "users": (
            {"securityContext": {"runAsUser": -5, "runAsGroup": 2**31}},
            {
                ("securityContext.runAsUser", "Invalid value: -5: must be between 0 and 2147483647, inclusive"),
                (
                    "securityContext.runAsGroup",
                    "Invalid value: 2147483648: must be between 0 and 2147483647, inclusive",
                ),
            },
        ),
        "probe": (
            {"livenessProbe": {"periodSeconds": -1, "successThreshold": 2}},
            {
                ("livenessProbe", "Required value: must specify a handler type"),
                ("livenessProbe.periodSeconds", "Invalid value: -1: must be greater than or equal to 0"),
                ("livenessProbe.successThreshold", "Invalid value: 2: must be 1"),
            },
        ),
        "handlers": (
            {"readinessProbe": {"httpGet": {"port": 0, "scheme": "FTP"}, "tcpSocket": {"port": "a--b"}}},
            {
                ("readinessProbe.tcpSocket", "Forbidden: may not specify more than 1 handler type"),
                ("readinessProbe.httpGet.port", "Invalid value: 0: must be between 1 and 65535, inclusive"),
                ("readinessProbe.httpGet.scheme", 'Unsupported value: "FTP": supported values: "HTTP", "HTTPS"'),
            },
        ),
        "sleep": (
            {"lifecycle": {"preStop": {"sleep": {"seconds": 60}}}},
            {
                (
                    "lifecycle.preStop.sleep",
                    "Invalid value: 60: must be non-negative and less than terminationGracePeriodSeconds (30)",
                )
            },
        ),
        "environment": (
            {"env": [{"name": "A=B"}, {"name": "C", "value": "1", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}]},
            {
                ("env[0].name", VARIABLE),
                (
                    "env[1].valueFrom.fieldRef.fieldPath",
                    'Invalid value: "x": error converting fieldPath: field label not supported: x',
                ),
                ("env[1].valueFrom", 'Invalid value: "": may not be specified when `value` is not empty'),
            },
        ),
        "ports": (
            {
                "ports": [
                    {"containerPort": 80, "name": "web", "hostPort": 80},
                    {"containerPort": 99999, "name": "web", "hostPort": 80},
                ]
            },
            {
                ("ports[1].name", 'Duplicate value: "web"'),
                ("ports[1].containerPort", "Invalid value: 99999: must be between 1 and 65535, inclusive"),
                ("ports[1].hostPort", 'Duplicate value: "TCP//80"'),
            },
        ),
    },
)
async def test_every_wrong_field_of_a_container_is_reported(client, container, expected):
    spec = {"containers": [{"name": "c", "image": "i", **container}]}
    error = await client.create(PODS, {"metadata": {"name": "p"}, "spec": spec}, status=422)

    assert causes(error) == expected


async def test_init_containers_have_no_probes_unless_they_restart(client):
    init = {"name": "i", "image": "i", "livenessProbe": HTTP, "lifecycle": {"preStop": HTTP}}
    spec = {"containers": [{"name": "c", "image": "i"}], "initContainers": [init]}
    error = await client.create(PODS, {"metadata": {"name": "p"}, "spec": spec}, status=422)

    expected = {
        (f"spec.initContainers[0].{field}", f"Forbidden: {INIT_ONLY}") for field in ("lifecycle", "livenessProbe")
    }
    assert causes(error) == expected
    sidecar = {**spec, "initContainers": [{**init, "restartPolicy": "Always"}]}
    await client.create(PODS, {"metadata": {"name": "p"}, "spec": sidecar})


async def test_security_context_of_a_pod_is_validated(client):
    context = {"fsGroup": -1, "supplementalGroups": [1, -2], "fsGroupChangePolicy": "Never"}
    spec = {"containers": [{"name": "c", "image": "i"}], "securityContext": context}
    error = await client.create(PODS, {"metadata": {"name": "p"}, "spec": spec}, status=422)

    assert [cause["field"] for cause in error["details"]["causes"]] == [
        "spec.securityContext.fsGroup",
        "spec.securityContext.supplementalGroups[1]",
        "spec.securityContext.fsGroupChangePolicy",
    ]


@pytest.mark.parametrize(
    "change",
    [
        {"accessModes": ["ReadOnlyMany"]},
        {"resources": {"requests": {"storage": "2Gi"}}},
        {"storageClassName": "other"},
        {"volumeMode": "Block"},
    ],
    ids=lambda change: next(iter(change)),
)
async def test_spec_of_a_pending_claim_is_immutable(client, change):
    spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": "fast", "resources": {"requests": {"storage": "1Gi"}}}
    await client.create(CLAIMS, {"metadata": {"name": "c"}, "spec": spec})
    error = await client.patch(f"{CLAIMS}/c", {"spec": change}, status=422)

    assert "spec: Forbidden: spec is immutable after creation except resources.requests" in error["message"]


async def test_bound_claim_grows_but_does_not_shrink_below_its_capacity(client):
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2Gi"}}}
    await client.create(CLAIMS, {"metadata": {"name": "c"}, "spec": spec})
    await client.patch(f"{CLAIMS}/c", {"spec": {"volumeName": "v"}})
    await client.patch(f"{CLAIMS}/c/status", {"status": {"phase": "Bound", "capacity": {"storage": "2Gi"}}})
    await client.patch(f"{CLAIMS}/c", {"spec": {"resources": {"requests": {"storage": "3Gi"}}}})
    error = await client.patch(f"{CLAIMS}/c", {"spec": {"resources": {"requests": {"storage": "1Gi"}}}}, status=422)

    assert "spec.resources.requests.storage: Forbidden: field can not be less than status.capacity" in error["message"]


async def test_node_affinity_of_a_volume_is_validated(client):
    term = {"matchExpressions": [{"key": "bad key", "operator": "In", "values": []}]}
    spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "local": {"path": "/v"}}
    volume = {"metadata": {"name": "v"}, "spec": {**spec, "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}}}}
    error = await client.create("/api/v1/persistentvolumes", volume, status=422)

    where = "spec.nodeAffinity.required.nodeSelectorTerms[0].matchExpressions[0]"
    assert [cause["field"] for cause in error["details"]["causes"]] == [f"{where}.values", f"{where}.key"]


async def test_empty_selector_expression_of_a_device_class_is_rejected(client):
    device_class = {"metadata": {"name": "d"}, "spec": {"selectors": [{"cel": {"expression": ""}}]}}
    error = await client.create("/apis/resource.k8s.io/v1/deviceclasses", device_class, status=422)

    assert 'spec.selectors[0].cel.expression: Invalid value: "": compilation failed' in error["message"]

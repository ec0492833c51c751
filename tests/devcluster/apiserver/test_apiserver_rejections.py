"""Valid objects with one wrong value are rejected, with the errors of kube-apiserver."""

import copy

import pytest
from mutations import KINDS
from tests.support.tables import cases
from valid_objects import VALID_OBJECTS

SUBDOMAIN = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.'"
LABEL = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-'"
KEY = "name part must consist of alphanumeric characters, '-', '_' or '.'"
REMOVED = "(removed)"
LARGE = "9" * 20


def kind_of(name):
    return next(kind for kind in KINDS if kind.kind == name)


def changed(name, path, value):
    """A valid object with another value at a dotted path."""
    document = copy.deepcopy(VALID_OBJECTS[name])
    *parents, last = (int(key) if key.isdigit() else key for key in path.split("."))
    parent = document
    for key in parents:
        parent = parent[key]
    if value is REMOVED:
        del parent[last]
    else:
        parent[last] = value
    return document


NEW_OBJECTS = [
    ("Service", "spec.ports.0.name", "A_b", "spec.ports[0].name", LABEL),
    ("Service", "spec.ports.0.targetPort", 70000, "spec.ports[0].targetPort", "must be between 1 and 65535"),
    ("Service", "spec.ports.0.nodePort", 30000, "spec.ports[0].nodePort", "may not be used when `type` is 'ClusterIP'"),
    ("Service", "spec.selector.app", "-a", "spec.selector", "a valid label must be an empty string"),
    ("Service", "spec.sessionAffinity", "x", "spec.sessionAffinity", 'Unsupported value: "x"'),
    ("Service", "spec.type", "ExternalName", "spec.externalName", "Required value"),
    ("StorageClass", "provisioner", "a b", "provisioner", KEY),
    ("StorageClass", "reclaimPolicy", "Keep", "reclaimPolicy", 'supported values: "Delete", "Retain"'),
    ("StorageClass", "allowedTopologies.0", {}, "allowedTopologies[0].matchLabelExpressions", 'Duplicate value: ""'),
    ("CSINode", "spec.drivers.0.nodeID", REMOVED, "spec.drivers[0].nodeID", "Required value"),
    ("CSINode", "spec.drivers.0.topologyKeys", ["a", "a"], "spec.drivers[0]", 'Duplicate value: "a"'),
    ("CSIDriver", "spec.fsGroupPolicy", "x", "spec.fsGroupPolicy", 'Unsupported value: "x"'),
    ("CSIDriver", "spec.tokenRequests.0.expirationSeconds", 1, "spec.tokenRequests[0].expirationSeconds", "10 minutes"),
    ("CSIStorageCapacity", "storageClassName", "A_b", "storageClassName", SUBDOMAIN),
    ("CSIStorageCapacity", "capacity", "-5", "capacity", "must be greater than or equal to 0"),
    ("VolumeAttachment", "spec.attacher", "x" * 64, "spec.attacher", "may not be more than 63 bytes"),
    ("VolumeAttachment", "spec.source", {}, "spec.source", "must specify exactly one of inlineVolumeSpec and"),
    ("PersistentVolume", "spec.hostPath.type", "x", "spec.hostPath.type", 'Unsupported value: "x"'),
    ("PersistentVolume", "spec.capacity.storage", "0", "spec.capacity[storage]", "must be greater than zero"),
    ("PersistentVolumeClaim", "spec.storageClassName", "A_b", "spec.storageClassName", SUBDOMAIN),
    ("ReplicationController", "spec.template", REMOVED, "spec.template", "Required value"),
    ("ReplicationController", "spec.selector.app", "x", "spec.template.metadata.labels", "`selector` does not match"),
    ("ConfigMap", "data", {"a b": ""}, "data[a b]", "a valid config key must consist of"),
    ("RoleBinding", "roleRef.name", "a/b", "roleRef.name", "may not contain '/'"),
    ("DeviceClass", "spec.selectors.0.cel.expression", "1 + ", "spec.selectors[0].cel.expression", "compilation"),
    ("ResourceClaim", "spec.devices.constraints.0.matchAttribute", "a", "spec.devices.constraints[0].matchAttribute",
     "a fully qualified name must be a domain and a name"),
    ("ResourceSlice", "spec.devices.0.attributes.a", {}, "spec.devices[0].attributes[a]", "exactly one value"),
    ("Pod", "spec.containers.0.env.0.valueFrom.fieldRef.fieldPath", "spec.nope",
     "spec.containers[0].env[0].valueFrom.fieldRef.fieldPath", "field label not supported: spec.nope"),
    ("Pod", "spec.volumes.0.projected.sources.0.serviceAccountToken.path", "../t", "spec.volumes[0].projected.path",
     "must not contain '..'"),
    ("Pod", "spec.hostname", "A", "spec.hostname", LABEL),
    ("Lease", "metadata.generateName", "A-", "metadata.generateName", SUBDOMAIN),
]  # fmt: skip
"""(kind, path, value, path of the error, part of its message)"""


@pytest.mark.parametrize(("name", "path", "value", "field", "message"), NEW_OBJECTS, ids=lambda value: str(value)[:40])
async def test_new_object_with_a_wrong_value_is_rejected(client, name, path, value, field, message):
    error = await client.create(kind_of(name).path("default"), changed(name, path, value), status=422)
    causes = {cause["field"]: cause["message"] for cause in error["details"]["causes"]}
    assert message in causes.get(field, ""), causes


@pytest.mark.parametrize(
    ("name", "path", "value", "field"),
    [
        ("StorageClass", "provisioner", "y", "provisioner"),
        ("CSINode", "spec.drivers.0.nodeID", "m", "spec.drivers"),
        ("CSIStorageCapacity", "storageClassName", "t", "storageClassName"),
        ("CSIDriver", "spec.attachRequired", False, "spec.attachedRequired"),
        ("VolumeAttachment", "spec.nodeName", "m", "spec"),
        ("PersistentVolume", "spec.hostPath.path", "/w", "spec.persistentvolumesource"),
        ("PersistentVolume", "spec.nodeAffinity", REMOVED, "nodeAffinity"),
        ("ConfigMap", "metadata.deletionGracePeriodSeconds", 0, "metadata.deletionGracePeriodSeconds"),
    ],
)
async def test_immutable_field_is_not_changed(client, name, path, value, field):
    kind = kind_of(name)
    created = await client.create(kind.path("default"), VALID_OBJECTS[name])
    new = changed(name, path, value)
    new["metadata"]["resourceVersion"] = created["metadata"]["resourceVersion"]
    error = await client.put(kind.path("default", "a"), new, status=422)
    assert field in {cause["field"] for cause in error["details"]["causes"]}


@cases(
    "metadata, status, message",
    {
        "no name": ({}, 400, "the name of the object (a based on URL) was undeterminable: name must be provided"),
        "text": ({"name": "a", "resourceVersion": "x"}, 500, 'strconv.ParseUint: parsing "x": invalid syntax'),
        "large": (
            {"name": "a", "resourceVersion": "9" * 20},
            500,
            f'strconv.ParseUint: parsing "{"9" * 20}": value out of range',
        ),
        "zero": ({"name": "a", "resourceVersion": "0"}, 200, None),
    },
)
async def test_update_needs_a_name_and_a_number_as_version(client, metadata, status, message):
    path = kind_of("ConfigMap").path("default")
    await client.create(path, VALID_OBJECTS["ConfigMap"])
    answer = await client.put(f"{path}/a", {"metadata": metadata}, status=status)
    assert answer.get("message") == message


async def test_dry_run_of_a_create_ignores_the_version(client):
    document = {"metadata": {"name": "a", "resourceVersion": "5"}}
    path = kind_of("ConfigMap").path("default")
    await client.create(f"{path}?dryRun=All", document)
    error = await client.create(path, document, status=500)
    assert error["message"] == "resourceVersion should not be set on objects to be created"


async def test_empty_dry_run_option_is_rejected(client):
    path = kind_of("ConfigMap").path("default")
    error = await client.create(f"{path}?dryRun=", VALID_OBJECTS["ConfigMap"], status=422)
    assert error["details"]["causes"][0]["message"] == 'Unsupported value: [""]: supported values: "All"'


@cases(
    "spec, problem",
    {
        "list": ({"containers": "x"}, '.spec.containers: expected list, got "x"'),
        "element": (
            {"containers": [1]},
            ".spec.containers: element 0: associative list with keys may not have non-map elements",
        ),
        "two errors": (
            {"containers": [{"name": "c", "image": 5}], "os": True},
            'errors:\n  .spec.containers[name="c"].image: expected string, got 5\n  .spec.os: expected map, got true',
        ),
        "map": ({"affinity": []}, ".spec.affinity: expected map, got []"),
        "unknown": ({"nope": 1}, ".spec.nope: field not declared in schema"),
        "duplicate": (
            {"containers": [{"name": "c"}, {"name": "c"}]},
            '.spec.containers: duplicate entries for key [name="c"]',
        ),
    },
)
async def test_applied_configuration_with_wrong_types_is_rejected(client, spec, problem):
    document = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
    path = kind_of("Pod").path("default", "p")
    error = await client.patch(f"{path}?fieldManager=test", document, status=500, kind="apply")
    assert error["message"] == f"failed to create typed patch object (/p; /v1, Kind=Pod): {problem}"

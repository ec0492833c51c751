"""The table of API types agrees with itself, with the models, and with the sources of Kubernetes.

lightkube's models are those of 1.37. The table has the types of 1.36, and some that 1.37 adds or changes.
"""

import os
import re
import runpy
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import lightkube.models
import msgspec
import pytest

from bayplan.core.api import scheduling_v1alpha2
from bayplan.core.api.kinds import KINDS, VERSIONED_KINDS
from bayplan.core.api.type_table import Field, Fields, fields_of, go_name, table

MODULES = [
    module.name
    for module in iter_modules(lightkube.models.__path__)
    if re.search(r"_v\d+$", module.name) or module.name in {"scheduling_v1alpha3", "scheduling_v1beta1"}
]
NOT_SERVED = {
    "authentication_v1.TokenRequestSpec": {"attestations"},
    "autoscaling_v2.HorizontalPodAutoscalerCondition": {"observedGeneration"},
    "batch_v1.JobSpec": {"scheduling"},
    "core_v1.ClusterTrustBundleProjection": {"user"},
    "core_v1.ConfigMapVolumeSource": {"defaultUser"},
    "core_v1.DownwardAPIVolumeFile": {"user"},
    "core_v1.DownwardAPIVolumeSource": {"defaultUser"},
    "core_v1.EmptyDirVolumeSource": {"mode"},
    "core_v1.GRPCAction": {"mode"},
    "core_v1.HTTPGetAction": {"protocol"},
    "core_v1.KeyToPath": {"user"},
    "core_v1.NodeSystemInfo": {"runningInUserNamespace"},
    "core_v1.PersistentVolumeClaimStatus": {"healthStatus"},
    "core_v1.PodCertificateProjection": {"user"},
    "core_v1.PodSpec": {"evictionResponders"},
    "core_v1.PodStatus": {"volumeHealth"},
    "core_v1.ProjectedVolumeSource": {"defaultUser"},
    "core_v1.SecretVolumeSource": {"defaultUser"},
    "core_v1.ServiceAccountTokenProjection": {"user"},
    "core_v1.VolumeMount": {"bindMountOptions"},
    "resource_v1.DeviceRequestAllocationResult": {"skipNodeOperations"},
    "resource_v1.ResourceSliceSpec": {"partitionTypeAttribute", "skipNodeOperations"},
    "storage_v1.CSINode": {"status"},
}
"""Fields of 1.37 that the server drops, as kube-apiserver does with most of them unless a feature gate is on."""
GONE = {
    "core_v1.NodeAllocatableResourceClaimStatus": {"resources"},
    "resource_v1.Device": {"nodeAllocatableResourceMappings"},
}
"""Fields of 1.36 that 1.37 doesn't have."""
KINDS_NOT_SERVED = {
    "certificates_v1.ClusterTrustBundle",
    "certificates_v1.PodCertificateRequest",
    "storagemigration_v1.StorageVersionMigration",
    *(f"scheduling_v1alpha3.{kind}" for kind in ("PodGroup", "Workload")),
}
"""Kinds of 1.37 that the server doesn't have. PodGroups and Workloads are served as v1beta1."""
REQUIRED_SINCE_1_37 = {
    "apps_v1.ControllerRevision": {"data"},
    "apps_v1.DaemonSet": {"spec"},
    "apps_v1.Deployment": {"spec"},
    "apps_v1.ReplicaSet": {"spec"},
    "apps_v1.StatefulSet": {"spec"},
    "flowcontrol_v1.FlowSchema": {"spec"},
    "flowcontrol_v1.FlowSchemaCondition": {"type"},
    "flowcontrol_v1.LimitedPriorityLevelConfiguration": {"limitResponse"},
    "flowcontrol_v1.PriorityLevelConfiguration": {"spec"},
    "flowcontrol_v1.PriorityLevelConfigurationCondition": {"type"},
}
REQUIRED_UNTIL_1_37 = {
    "apps_v1.ControllerRevision": {"revision"},
    "apps_v1.DaemonSetCondition": {"status", "type"},
    "apps_v1.DeploymentCondition": {"status", "type"},
    "apps_v1.ReplicaSetCondition": {"status", "type"},
    "apps_v1.StatefulSetCondition": {"status", "type"},
    "resource_v1.DeviceClass": {"spec"},
    "resource_v1.ResourceClaim": {"spec"},
    "resource_v1.ResourceClaimTemplate": {"spec"},
    "resource_v1.ResourceClaimTemplateSpec": {"spec"},
}
"""What OpenAPI calls required. kube-apiserver decodes a body without these fields in both versions."""
PLAIN = {"string": "str", "bytes": "str", "bool": "bool", "int32": "int", "int64": "int", "float64": "float"}
OPAQUE = {"object": {"RawExtension", "FieldsV1"}, "any": {"JSON"}}


def models(module):
    found = vars(import_module(f"lightkube.models.{module}"))
    for name, model in found.items():
        if isinstance(model, type) and issubclass(model, msgspec.Struct) and model.__module__.endswith(module):
            yield f"{module}.{name}", model


@pytest.fixture(scope="module")
def known():
    """The models of all types in the table."""
    return {name: model for module in MODULES for name, model in models(module) if name in table()}


def test_table_has_every_kind_of_lightkube():
    kinds = {
        name
        for module in MODULES
        for name, model in models(module)
        if {"kind", "metadata"} <= set(model.__struct_fields__) and not name.endswith("List")
    }
    assert kinds - table().keys() == KINDS_NOT_SERVED
    assert {kind.model for kind in (*KINDS, *VERSIONED_KINDS) if kind.version != "v1alpha2"} <= kinds


def test_fields_equal_the_models(known):
    assert len(known) > 450
    for name, model in known.items():
        served = fields_of(name).keys() - GONE.get(name, set())
        assert served == set(model.__struct_encode_fields__) - NOT_SERVED.get(name, set()), name


def test_models_of_1_36_have_the_fields_of_the_table():
    module = "scheduling_v1alpha2"
    ours = {name: model for name, model in vars(scheduling_v1alpha2).items() if f"{module}.{name}" in table()}
    assert len(ours) == 15
    for name, model in ours.items():
        fields = fields_of(f"{module}.{name}")
        optional = len(model.__struct_fields__) - len(model.__struct_defaults__)
        assert fields.keys() == set(model.__struct_fields__), name
        assert {key for key, field in fields.items() if field.required} == set(model.__struct_fields__[:optional]), name


def test_types_equal_the_models(known):
    for name, model in known.items():
        annotations = dict(zip(model.__struct_encode_fields__, model.__struct_fields__, strict=True))
        for key, field in fields_of(name).items():
            if key in GONE.get(name, ()):
                continue
            given = model.__annotations__[annotations[key]].removeprefix("Optional[").removesuffix("]")
            given = given.removeprefix("List[").removesuffix("]").rpartition(".")[2]
            kind = field.type.removeprefix("[]")
            expected = (
                {"dict", "Dict"}
                if kind.startswith("{}")
                else OPAQUE.get(kind, {PLAIN.get(kind, go_name(kind).rpartition(".")[2])})
            )
            assert given in expected, (name, key)


def test_required_fields_equal_the_models(known):
    for name, model in known.items():
        required = model.__struct_encode_fields__[: len(model.__struct_fields__) - len(model.__struct_defaults__)]
        served = {key for key, field in fields_of(name).items() if field.required}
        since, until = REQUIRED_SINCE_1_37.get(name, set()), REQUIRED_UNTIL_1_37.get(name, set())
        assert (served - until) | since == set(required), name


def elements(field: Field) -> str:
    return field.type.replace("[]", "").replace("{}", "")


def test_field_numbers_are_unique():
    for name, fields in table().items():
        numbers = [field.number for field in fields.values() if field.number]
        assert len(numbers) == len(set(numbers)), name


def test_fields_refer_to_types_of_the_table():
    fields = [field for each in table().values() for field in each.values()]
    assert {elements(field) for field in fields if "." in elements(field)} <= table().keys()


def test_lists_are_merged_by_fields_of_their_elements():
    for name in table():
        for key, field in fields_of(name).items():
            keys = {*field.keys, *([field.patch_key] if field.patch_key else [])}
            assert not keys or keys <= fields_of(elements(field)).keys(), (name, key)
            assert (field.merge == "map") == bool(field.keys), (name, key)
            assert field.merge not in {"set", "map"} or field.type.startswith("[]"), (name, key)


def test_table_is_the_output_of_its_script(tmp_path):
    tree = os.environ.get("BAYPLAN_KUBERNETES_SOURCE")
    if not tree:
        pytest.skip("BAYPLAN_KUBERNETES_SOURCE names no source tree of Kubernetes 1.36")
    script = runpy.run_path(str(Path(__file__).parents[3] / "tools/api_tables.py"))
    written = msgspec.json.decode(script["TABLE"].read_bytes(), type=dict[str, Fields])
    assert script["Table"](Path(tree)).types == written

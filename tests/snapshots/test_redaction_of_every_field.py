"""Every text of every kind is replaced or dropped in a redacted snapshot, but for those that docs/insight.md lists."""

import gzip
import itertools
import re

import pytest

from bayplan.answers.snapshots.redaction.kinds import FIELDS
from bayplan.answers.snapshots.redaction.plugin_kinds import OF_PLUGINS
from bayplan.core.api import kueue
from bayplan.core.api.kinds import KINDS, VERSIONED_KINDS
from bayplan.core.api.type_table import fields_of, table
from bayplan.insight import Insight, Snapshot

MODELS = {(kind.group, kind.plural): kind for kind in (*KINDS, *VERSIONED_KINDS)}
KEPT = {
    "the names of drivers and provisioners": r"driver|attacher|provisioner|csidrivers/metadata\.name|drivers\[\]\.name",
    "the names of schedulers": r"schedulerName",
    "the names of resources": r"resourceName|extendedResourceName|capacityKey"
    r"|nodeAllocatableResourceClaimStatuses\[\]\.(mapping|overhead)\[\]\.name|"
    r"(requests|limits|capacity|allocatable|overhead|hard|used|podFixed|allocatedResources|max|min|default|defaultRequest"
    r"|maxLimitRequestRatio|consumedCapacity|nodeAllocatableResource(Mapping)?s|minResources"
    r"|nodeAllocatableResourceClaimStatuses\[\]\.resources)\{key\}",
    "the names of the attributes of devices": r"attributes\{key\}|(match|distinct)Attribute"
    r"|derivedAttributes\[\]\.name",
    "the versions in attributes": r"versions?(\[\])?",
    "CEL expressions": r"(cel|derivedAttributes\[\])\.expression",
    "the features that nodes declare": r"declaredFeatures\[\]",
}
"""What is kept, as docs/insight.md lists it: the ends of the paths."""


class Marks:
    """Makes objects with a text of its own in every field that may have any."""

    def __init__(self) -> None:
        self.paths: dict[str, str] = {}
        self._numbers = itertools.count()

    def at(self, path: str) -> str:
        mark = f"mark{next(self._numbers)}x"
        self.paths[mark] = path
        return mark

    def value(self, kind, path, outer=()):
        if kind.startswith("[]"):
            return [self.value(kind[2:], f"{path}[]", outer)]
        if kind.startswith("{}"):
            return {self.at(f"{path}{{key}}"): self.value(kind[2:], f"{path}{{}}", outer)}
        match kind:
            case "string" | "bytes" | "IntOrString":
                return self.at(path)
            case "int32" | "int64" | "float64":
                return 1
            case "bool":
                return True
            case "Quantity":
                return "1"
            case "Time" | "MicroTime":
                return "2026-01-01T00:00:00Z"
            case "any" | "object":
                return {self.at(f"{path}{{key}}"): self.at(path)}
        if outer.count(kind) > 1:
            return None
        fields = fields_of(kind).items()
        return {name: self.value(each.type, f"{path}.{name}", (*outer, kind)) for name, each in fields}

    def left_in(self, text: str) -> set[str]:
        return {self.paths[mark] for mark in set(re.findall(r"mark[0-9]+x", text))}


def marked(marks, resource):
    if resource == ("scheduling.x-k8s.io", "podgroups"):
        header = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup"}
        spec = {"minMember": 1, "minResources": {marks.at("minResources{key}"): "1"}, "queue": marks.at("spec.queue")}
        metadata = marks.value("meta_v1.ObjectMeta", "podgroups/metadata")
        return {**header, "metadata": metadata, "spec": spec, "status": {"phase": marks.at("status.phase")}}
    if resource == ("scheduling.x-k8s.io", "elasticquotas"):
        header = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "ElasticQuota"}
        spec = {bound: {marks.at("minResources{key}"): "1"} for bound in ("min", "max")}
        metadata = marks.value("meta_v1.ObjectMeta", "elasticquotas/metadata")
        return {**header, "metadata": metadata, "spec": spec | {"tree": marks.at("spec.tree")}}
    if resource in OF_PLUGINS:
        return marked_of_plugins(marks, *resource)
    if resource not in MODELS:
        return marked_custom(marks, *resource)
    kind = MODELS[resource]
    model = kind.model if kind.model in table() else next(each for each in table() if each.endswith(f".{kind.kind}"))
    document = marks.value(model, kind.plural)
    document["metadata"]["name"] = marks.at(f"{kind.plural}/metadata.name")
    return {**document, "apiVersion": kind.api_version, "kind": kind.kind}


def marked_custom(marks, group, plural):
    """An object of a custom kind that is read, with all fields of which any kind of its group has some."""
    name = {"provisioningrequests": "ProvisioningRequest"}.get(plural) or next(
        name for kind, name in kueue.NAMES.items() if kind.plural == plural
    )

    def text(path):
        return marks.at(f"{plural}/{path}")

    conditions = [{field: text(f"conditions[].{field}") for field in ("type", "status", "reason", "message")}]
    template = {"metadata": {"labels": {text("template{key}"): text("template")}}}
    template["spec"] = marks.value("core_v1.PodSpec", f"{plural}/template.spec")
    amounts = {"name": text("podSets[].requests{key}"), "nominalQuota": "1", "total": "1", "note": text("note")}
    flavors = [{"name": text("flavors[].name"), "resources": [amounts]}]
    spec = {
        field: text(f"spec.{field}")
        for field in ("queueName", "clusterQueue", "cohort", "cohortName", "parent", "parentName", "controllerName")
    }
    spec |= {
        "provisioningClassName": text("spec.provisioningClassName"),
        "podSets": [
            {"name": text("podSets[].name"), "count": 1, "template": template, "podTemplateRef": {"name": text("ref")}}
        ],
        "parameters": {text("parameters{key}"): text("parameters")},
        "nodeLabels": {text("nodeLabels{key}"): text("nodeLabels")},
        "resourceGroups": [{"coveredResources": [text("podSets[].requests{key}")], "flavors": flavors}],
    }
    status = {
        "conditions": conditions,
        "provisioningClassDetails": {text("details{key}"): text("details")},
        "admission": {"clusterQueue": text("admission.clusterQueue")},
        "admissionChecks": [{"name": text("checks[].name"), "state": "Ready", "message": text("checks[].message")}],
        "flavorsReservation": flavors,
    }
    metadata = marks.value("meta_v1.ObjectMeta", f"{plural}/metadata")
    version = "v1" if plural == "provisioningrequests" else kueue.VERSIONS[0]
    return {"apiVersion": f"{group}/{version}", "kind": name, "metadata": metadata, "spec": spec, "status": status}


def marked_of_plugins(marks, group, plural):
    """An object of a kind of scheduler-plugins, with all fields of which any of these kinds has some."""
    version, kind = {
        "appgroups": ("v1alpha1", "AppGroup"),
        "networktopologies": ("v1alpha1", "NetworkTopology"),
        "noderesourcetopologies": ("v1alpha2", "NodeResourceTopology"),
        "loadreports": ("v1alpha1", "LoadReport"),
        "seccompprofiles": ("v1beta1", "SeccompProfile"),
    }[plural]

    def text(path):
        return marks.at(f"{plural}/{path}")

    def workload(path):
        return {field: text(f"{path}.{field}") for field in ("kind", "name", "namespace", "selector")}

    dependencies = [{"workload": workload("dependencies"), "minBandwidth": "1", "maxNetworkCost": 1}]
    costs = [{"destination": text("destination"), "bandwidthCapacity": "1", "networkCost": 1, "name": text("cost")}]
    origins = [{"origin": text("origin"), "costList": costs}]
    named = [{"name": text("attribute.name"), "value": text("attribute.value")}]
    resources = [{"name": marks.at("podSets[].requests{key}"), "available": "1", "allocatable": "1", "capacity": "1"}]
    spec = {
        "topologySortingAlgorithm": text("algorithm"),
        "configmapName": text("configmap"),
        "syscalls": [{"action": text("action"), "names": [text("names")]}],
        "workloads": [{"workload": workload("workloads"), "dependencies": dependencies}],
        "weights": [{"name": text("weights"), "topologyList": [{"topologyKey": text("key"), "originList": origins}]}],
    }
    zone = {"name": text("zone"), "type": text("type"), "parent": text("parent"), "costs": costs, "attributes": named}
    return {
        "apiVersion": f"{group}/{version}",
        "kind": kind,
        "metadata": marks.value("meta_v1.ObjectMeta", f"{plural}/metadata"),
        "spec": spec,
        "status": {"topologyOrder": [{"workload": workload("order"), "index": 1}]},
        "topologyPolicies": [text("policy")],
        "attributes": named,
        "zones": [zone | {"resources": resources}],
        "end": 1,
        "nodes": {text("nodes{key}"): [1.5, None, text("nodes")]},
    }


@pytest.mark.parametrize("resource", FIELDS, ids=".".join)
def test_only_documented_texts_are_left(tmp_path, resource):
    marks = Marks()
    Snapshot.of([marked(marks, resource)]).save(tmp_path / "redacted", redact=True)
    text = gzip.decompress((tmp_path / "redacted").read_bytes()).decode()

    documented = re.compile("|".join(f"(.*[./])?({pattern})" for pattern in KEPT.values()))
    assert {path for path in marks.left_in(text) if not documented.fullmatch(path)} == set()
    assert len(marks.paths) > 10
    assert Insight(Snapshot.load(tmp_path / "redacted")).world.contents.problems == []


def test_attributes_that_an_expression_reads_stay(tmp_path):
    attributes = {"model": {"string": "a100"}, "example.com/serial": {"string": "s-123"}, "rack": {"strings": ["r7"]}}
    device = {"name": "gpu-0", "attributes": attributes}
    spec = {"driver": "example.com", "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1}, "nodeName": "n"}
    expression = {"cel": {"expression": "device.attributes['example.com'].model == 'a100'"}}
    header = {"apiVersion": "resource.k8s.io/v1"}
    slices = {**header, "kind": "ResourceSlice", "metadata": {"name": "s"}, "spec": {**spec, "devices": [device]}}
    classes = {**header, "kind": "DeviceClass", "metadata": {"name": "c"}, "spec": {"selectors": [expression]}}
    Snapshot.of([slices, classes]).save(tmp_path / "redacted", redact=True)
    text = gzip.decompress((tmp_path / "redacted").read_bytes()).decode()

    assert '"model":{"string":"a100"}' in text
    assert not re.search("s-123|r7|gpu-0", text)

"""Redacted snapshots: nothing private is left, and the scheduler decides as on the original, up to the names."""

import gzip
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.insight.bayplan_documents import document

from bayplan.answers.snapshots.documents import identify
from bayplan.answers.snapshots.reading import Reading
from bayplan.answers.snapshots.redaction.kinds import FIELDS
from bayplan.answers.snapshots.redaction.names import Names
from bayplan.answers.snapshots.redaction.plugin_kinds import OF_PLUGINS
from bayplan.answers.snapshots.redaction.redacting import redact
from bayplan.answers.snapshots.rights import EFFECTS, REQUIRED
from bayplan.core.api.kinds import NODE, PERSISTENT_VOLUME_CLAIM, POD, custom_kind
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.insight import Snapshot
from bayplan.testing import make_cluster
from bayplan.testing.conformance import replay
from bayplan.testing.documents import document_of
from bayplan.testing.scenarios import family_of, read_scenarios
from bayplan.testing.strategies import clusters, pods

RECORDINGS = sorted((Path(__file__).parents[1] / "data" / "oracle").glob("*.jsonl.gz"))
SCENARIOS_PER_FAMILY = 8
WORDED = {"message", "preFilter", "absentNodes", "postFilterMessage"}
"""Fields of a decision whose texts have names in them."""


def redacted(snapshot):
    reading, names = redact(Reading(snapshot.documents))
    return Snapshot(reading.documents, gaps=reading.gaps), names


class Renamed:
    """A recorded scenario with the names of its redacted cluster."""

    def __init__(self, scenario: dict[str, Any]) -> None:
        before = Snapshot.of([*scenario["objects"], *scenario["pending"]])
        after, self.names = redacted(before)
        keys = {kind: dict(zip(known, after.of_kind(kind), strict=True)) for kind, known in before.documents.items()}

        def new(obj: dict[str, Any]) -> dict[str, Any] | None:
            kind, key, _ = identify(obj)
            return after.document(kind, keys[kind][key])

        self.objects, self.pending = map(new, scenario["objects"]), map(new, scenario["pending"])

    def node(self, name: str) -> str:
        return self.names.new("node", name)

    def pod(self, key: str) -> str:
        namespace, _, name = key.partition("/")
        return f"{self.names.new('namespace', namespace)}/{self.names.new('pod', name)}"

    def decision(self, step: dict[str, Any]) -> dict[str, Any]:
        renamed = step | {"pod": self.pod(step["pod"]), "acceptable": [*map(self.outcome, step.get("acceptable", []))]}
        for field in ("feasible", "best"):
            renamed[field] = sorted(map(self.node, step.get(field, [])))
        for field in ("rejected", "scores"):
            renamed[field] = {self.node(name): value for name, value in step.get(field, {}).items()}
        return renamed | {"chosen": self.node(step.get("chosen", ""))} | self.outcome(step)

    def outcome(self, step: dict[str, Any]) -> dict[str, Any]:
        return {
            "nominated": self.node(step.get("nominated", "")),
            "victims": [self.pod(victim) for victim in step.get("victims", [])],
        }


def named_by_configuration(recorded: dict[str, Any]) -> bool:
    """Whether the configuration, which isn't redacted, names labels of the cluster."""
    return "addedAffinity" in str(recorded["scenario"].get("config"))


@pytest.mark.parametrize("path", RECORDINGS, ids=family_of)
def test_recorded_decisions_are_the_same_on_the_redacted_cluster(path, tmp_path):
    lines = []
    with gzip.open(path) as recordings:
        for line, _ in zip(recordings, range(SCENARIOS_PER_FAMILY), strict=False):
            recorded = msgspec.json.decode(line)
            if named_by_configuration(recorded):
                continue
            renamed = Renamed(recorded["scenario"])
            recorded["scenario"] |= {"objects": list(renamed.objects), "pending": list(renamed.pending)}
            for step in recorded["decisions"]:
                step.pop("allocations", None)  # the names of claims, requests and devices in it are others
            recorded["decisions"] = [renamed.decision(step) for step in recorded["decisions"]]
            lines.append(msgspec.json.encode(recorded))
    target = tmp_path / "redacted.jsonl"
    target.write_bytes(b"\n".join(lines))

    different = [
        (scenario.name, step.pod, each)
        for scenario in read_scenarios(target)
        for step in replay(scenario).steps
        for each in step.differences
        if each.field not in WORDED and not same_rejection(each)
    ]
    assert lines
    assert different == []


def same_rejection(difference):
    """Whether only the reasons differ, which may name labels and taints."""
    one, other = difference.expected, difference.got
    return (
        difference.field.startswith("rejected[")
        and one
        and other
        and (one.code, one.plugin) == (other.code, other.plugin)
    )


@settings(max_examples=100)
@given(clusters(words=["acme.example/tier", "web"]), pods(words=["acme.example/tier", "web"]))
def test_decisions_are_the_same_on_the_redacted_cluster(objects, pod):
    before = Snapshot.of([headed(obj) for obj in (*objects, pod)])
    after, names = redacted(before)

    one = decision_on(before, pod.key)
    other = decision_on(after, f"{names.new('namespace', pod.namespace)}/{names.new('pod', pod.name)}")
    assert other.outcome == one.outcome
    assert other.node == (names.new("node", one.node) if one.node else one.node)
    assert other.feasible.tolist() == one.feasible.tolist()
    assert (other.scores is None) == (one.scores is None)
    if one.scores is not None:
        assert other.scores.total.tolist() == one.scores.total.tolist()
    assert len(other.victims) == len(one.victims)


def headed(obj):
    """An object as a document with `apiVersion` and `kind`."""
    kind, fields = document_of(obj)
    return {"apiVersion": kind.api_version, "kind": kind.kind, **fields}


def decision_on(snapshot, waiting):
    pending = PodInfo.from_raw(snapshot.of_kind(POD)[waiting])
    return make_cluster(*snapshot.but(remove=[(POD, waiting)]).objects()).decide(pending)


SECRET = "hunter2"


def private_pod():
    return document(
        "Pod",
        f"{SECRET}-web",
        namespace=f"{SECRET}-shop",
        spec={
            "nodeName": f"{SECRET}-node",
            "serviceAccountName": SECRET,
            "hostname": SECRET,
            "imagePullSecrets": [{"name": SECRET}],
            "nodeSelector": {f"{SECRET}/pool": SECRET},
            "tolerations": [{"key": SECRET, "value": SECRET, "effect": "NoSchedule"}],
            "containers": [
                {
                    "name": SECRET,
                    "image": f"registry.{SECRET}/web:1",
                    "command": [SECRET],
                    "args": [f"--password={SECRET}"],
                    "env": [{"name": "PASSWORD", "value": SECRET}],
                    "envFrom": [{"secretRef": {"name": SECRET}}],
                    "workingDir": SECRET,
                    "livenessProbe": {"exec": {"command": [SECRET]}},
                    "volumeMounts": [{"name": SECRET, "mountPath": SECRET}],
                }
            ],
            "volumes": [
                {"name": SECRET, "secret": {"secretName": SECRET}},
                {"name": f"{SECRET}2", "hostPath": {"path": f"/{SECRET}"}},
                {"name": "data", "ephemeral": {"volumeClaimTemplate": {"spec": {"storageClassName": SECRET}}}},
            ],
            "affinity": {
                "podAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": [
                        {
                            "topologyKey": f"{SECRET}/rack",
                            "namespaces": [SECRET],
                            "labelSelector": {
                                "matchExpressions": [{"key": SECRET, "operator": "In", "values": [SECRET]}]
                            },
                        }
                    ]
                }
            },
        },
        status={
            "phase": "Running",
            "message": SECRET,
            "conditions": [{"type": "Ready", "status": "True", "message": SECRET}],
            "containerStatuses": [
                {"name": SECRET, "image": SECRET, "imageID": SECRET, "ready": True, "restartCount": 0}
            ],
        },
    )


def private_objects():
    pod = private_pod()
    pod["metadata"] |= {
        "labels": {"app": SECRET, SECRET: "yes", "team": f"{SECRET}-a"},
        "annotations": {"note": SECRET, "kubectl.kubernetes.io/last-applied-configuration": SECRET},
        "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"{SECRET}-rs", "uid": "1"}],
        "finalizers": [SECRET],
    }
    node = document("Node", f"{SECRET}-node", namespace="", spec={"providerID": SECRET, "taints": []})
    node["metadata"]["labels"] = {"kubernetes.io/hostname": f"{SECRET}-node", f"{SECRET}/rack": SECRET}
    node["status"] = {
        "addresses": [{"type": "Hostname", "address": SECRET}],
        "images": [{"names": [f"registry.{SECRET}/web:1"], "sizeBytes": 10}],
        "conditions": [{"type": "Ready", "status": "True", "message": SECRET}],
    }
    claim = document(
        "PersistentVolumeClaim", f"{SECRET}-web-data", namespace=f"{SECRET}-shop", spec={"volumeName": SECRET}
    )
    return [pod, node, claim, document("Thing", SECRET, "example.com/v1", spec={"key": SECRET})]


def test_nothing_private_is_left(tmp_path):
    path = tmp_path / "redacted"
    Snapshot.of(private_objects(), source=f"cluster {SECRET}").save(path, redact=True)

    assert SECRET.encode() not in gzip.decompress(path.read_bytes())


def only(snapshot, kind):
    """The only object of a kind."""
    (key,) = snapshot.of_kind(kind)
    return snapshot.document(kind, key)


def test_names_are_replaced_wherever_they_refer_to_an_object():
    snapshot, _ = redacted(Snapshot.of(private_objects()))
    pod, node = only(snapshot, POD), only(snapshot, NODE)

    name = node["metadata"]["name"]
    assert pod["spec"]["nodeName"] == name == node["metadata"]["labels"]["kubernetes.io/hostname"]
    rack = pod["spec"]["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0]["topologyKey"]
    assert rack in node["metadata"]["labels"]
    assert pod["spec"]["containers"][0]["image"] == node["status"]["images"][0]["names"][0]
    (claim,) = snapshot.of_kind(PERSISTENT_VOLUME_CLAIM)
    assert claim == f"{pod['metadata']['namespace']}/{pod['metadata']['name']}-{pod['spec']['volumes'][2]['name']}"


def test_odd_values_of_a_dump_do_no_harm():
    node = document("Node", "a", namespace="", spec={"taints": "none"}, status={"images": [None, {"names": [3]}]})
    node["metadata"] |= {"labels": {"tier": 3}, "annotations": [], "ownerReferences": ["a"]}
    pod = document("Pod", "web", spec={"tolerations": [{"key": None, "value": 3}, 4], "containers": {}, "volumes": [3]})
    snapshot, _ = redacted(Snapshot.of([node, pod]))

    assert only(snapshot, NODE)["spec"] == {}
    assert only(snapshot, POD)["spec"]["tolerations"] == [{"key": ""}]


def test_custom_objects_become_a_gap():
    snapshot, _ = redacted(Snapshot.of(private_objects()))

    assert [(gap.kind, gap.reason) for gap in snapshot.gaps] == [
        (custom_kind("things.v1.example.com"), "left out of the redacted snapshot")
    ]


def test_every_kind_that_is_read_can_be_redacted():
    read = {(kind.group, kind.plural) for kind in (*REQUIRED, *EFFECTS)}
    assert read <= set(FIELDS) <= read | set(OF_PLUGINS)


def numbered(collect):
    names = Names()
    collect(names)
    names.number()
    return collect(names)


@pytest.mark.parametrize(
    ("key", "kept"),
    [
        ("topology.kubernetes.io/zone", True),
        ("kubernetes.io/hostname", True),
        ("app.kubernetes.io/name", True),
        ("eks.amazonaws.com/nodegroup", True),
        ("app", False),
        ("acme.example/kubernetes.io", False),
        ("notkubernetes.io/zone", False),
    ],
)
def test_keys_of_kubernetes_and_of_vendors_are_kept(key, kept):
    assert (numbered(lambda names: names.key(key)) == key) == kept


@pytest.mark.parametrize("value", ["", "4", "-1", "2.5", "true"])
def test_numbers_and_booleans_are_kept(value):
    assert numbered(lambda names: names.value("tier", value)) == value


@pytest.mark.parametrize("name", ["default", "kube-system"])
def test_namespaces_of_kubernetes_are_kept(name):
    assert numbered(lambda names: names.new("namespace", name)) == name


def test_zones_of_one_region_keep_a_common_region():
    zones = ["europe-west1-b", "europe-west1-c", "us-east1-b", "cellar"]
    new = numbered(lambda names: [names.value("topology.kubernetes.io/zone", zone) for zone in zones])
    regions = [zone.rpartition("-")[0] for zone in new]

    assert regions[0] == regions[1] != regions[2]
    assert len(set(new)) == 4
    assert "-" not in new[3]
    assert numbered(lambda names: names.zones("__".join(zones))) == "__".join(new)


@given(st.lists(st.text(st.characters(categories=["Ll", "Nd"]), min_size=1), unique=True))
def test_new_names_have_the_order_of_the_names(originals):
    new = numbered(lambda names: [names.new("pod", name) for name in originals])

    assert [name for _, name in sorted(zip(originals, new, strict=True))] == sorted(new)
    assert len(set(new)) == len(originals)

"""Findings have the line of the field that they are about."""

import json

import pytest
import yaml
from checked_clusters import cluster
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.commands import bayplan
from tests.support.tables import cases

from bayplan.answers.insight.checking.lines import FieldLines, field_of
from bayplan.insight import Snapshot

WRONG = """\
# A comment before the object.
apiVersion: apps/v1 # pending
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  replicas: 2 # replicas-beside-autoscaler
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      nodeSelector:
        kubernetes.io/hostname: a
        disktype: standart # no-node-has-label
      tolerations:
        - {key: other, operator: Exists}
        - operator: Exists
          key: example.com/bacth # tolerates-no-taint
      affinity:
        podAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
            - labelSelector: {matchLabels: {app: lwo}} # affinity-matches-nothing
              topologyKey: kubernetes.io/hostname
      topologySpreadConstraints:
        - maxSkew: 1
          topologyKey: kubernetes.io/hostname
          whenUnsatisfiable: ScheduleAnyway
          labelSelector: {matchLabels: {app: other}} # spread-misses-itself
      containers:
        - name: main
          image: nginx
          resources:
            requests:
              cpu: 100m
              memory: 64m # tiny-memory
        - {name: sidecar, image: nginx} # no-requests
---
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Service
  metadata: {name: web, namespace: shop}
  spec:
    ports: [{port: 80}]
    selector: {app: wbe} # selector-matches-nothing
- apiVersion: apps/v1
  kind: Deployment
  metadata: {name: typo, namespace: shop}
  spec:
    replicas: 0
    replicaz: 1 # refused
    selector: {matchLabels: {app: typo}}
    template:
      metadata: {labels: {app: typo}}
      spec:
        containers: [{name: main, image: i, resources: {requests: {cpu: 1m}}}]
- apiVersion: autoscaling/v2
  kind: HorizontalPodAutoscaler
  metadata: {name: web, namespace: shop}
  spec: {maxReplicas: 5, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}}
- apiVersion: policy/v1
  kind: PodDisruptionBudget
  metadata: {name: low, namespace: shop}
  spec:
    selector: {matchLabels: {app: low}}
    maxUnavailable: 0 # budget-blocks-drains
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Snapshot.of(cluster()).save("cluster.bayplan")
    return tmp_path


def lines_of(file):
    found = json.loads(bayplan("check", file, "--from", "cluster.bayplan", "-o", "json", status=1).stdout)
    return {each["rule"]: each["line"] for each in found["findings"]}


def test_each_finding_has_the_line_of_its_field(folder):
    (folder / "wrong.yaml").write_text(WRONG)
    marked = {line.rpartition("# ")[2]: number for number, line in enumerate(WRONG.splitlines(), 1) if " # " in line}
    assert lines_of("wrong.yaml") == marked


def test_json_has_lines_too(folder):
    text = json.dumps(next(yaml.safe_load_all(WRONG)), indent=2)
    (folder / "wrong.json").write_text(text)
    lines = lines_of("wrong.json")
    assert '"disktype": "standart"' in text.splitlines()[lines["no-node-has-label"] - 1]
    assert '"memory": "64m"' in text.splitlines()[lines["tiny-memory"] - 1]


def test_several_objects_of_json_in_a_row_have_those_of_the_objects(folder):
    first, others = yaml.safe_load_all(WRONG)
    (folder / "wrong.json").write_text("\n".join(map(json.dumps, [first, others["items"][0]])))
    assert lines_of("wrong.json")["selector-matches-nothing"] == 2


def test_a_file_that_is_gone_or_another_one_costs_the_line_only(folder):
    lines, named = FieldLines(), ("Deployment", "web")
    assert lines.line("gone.yaml", 7, named, "spec.replicas") == 7
    assert lines.line("standard input", 7, named, "spec.replicas") == 7
    for name, text in (("binary.yaml", "\0"), ("odd.yaml", "{"), ("list.yaml", "- a"), ("other.yaml", "a: 1")):
        (folder / name).write_text(text)
        assert lines.line(name, 3, named, "spec.replicas") == 3


@given(path=st.text("spec.replicas[0]-x/\n", max_size=30))
@settings(max_examples=50, deadline=None, derandomize=True)
def test_any_path_has_a_line_of_its_document(path, tmp_path_factory):
    file = tmp_path_factory.getbasetemp() / "paths.yaml"
    file.write_text("a: 1\n---\nspec:\n  replicas: 1\n")
    assert 3 <= FieldLines().line(str(file), 3, ("", ""), path) <= 4


@cases(
    "message, field",
    {
        "unknown": (
            'strict decoding error: unknown field "spec.template.spec.contaners"',
            "spec.template.spec.contaners",
        ),
        "invalid": ('Service "web" is invalid: spec.ports: Required value', "spec.ports"),
        "several": (
            'Pod "a" is invalid: [spec.containers[0].image: Required value, spec.x: y]',
            "spec.containers[0].image",
        ),
        "type": (
            "cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32",
            "spec.replicas",
        ),
        "none": ('pods "a" is forbidden: exceeded quota: team', ""),
    },
)
def test_errors_name_their_field(message, field):
    assert field_of(message) == field

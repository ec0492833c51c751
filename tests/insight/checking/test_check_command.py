"""bayplan check: its exit status, the forms that pipelines read, and one line for what can't be checked."""

import gzip
import json
import re
import xml.etree.ElementTree as ET
from urllib.parse import unquote

import pytest
import yaml
from checked_clusters import MISTAKES, WEB, cluster, deployment
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from tests.support.commands import bayplan
from tests.support.tables import cases

from bayplan.answers.insight.checking import forms
from bayplan.answers.insight.checking.findings import Finding
from bayplan.answers.insight.checking.rules import RULES
from bayplan.insight import Snapshot

TEXT = {"type": "object", "required": ["text"], "properties": {"text": {"type": "string", "minLength": 1}}}
LEVEL = {"enum": ["none", "note", "warning", "error"]}
LOCATION = {
    "type": "object",
    "required": ["physicalLocation"],
    "properties": {
        "physicalLocation": {
            "type": "object",
            "required": ["artifactLocation", "region"],
            "properties": {
                "artifactLocation": {
                    "type": "object",
                    "required": ["uri"],
                    "properties": {"uri": {"type": "string", "pattern": r"^[\w.~:/?#@!$&'()*+,;=%-]+$"}},
                },
                "region": {
                    "type": "object",
                    "required": ["startLine"],
                    "properties": {"startLine": {"type": "integer", "minimum": 1}},
                },
            },
        },
        "logicalLocations": {
            "type": "array",
            "items": {"type": "object", "properties": {"fullyQualifiedName": {"type": "string"}}},
        },
    },
}
RULE = {
    "type": "object",
    "required": ["id", "shortDescription", "fullDescription", "help"],
    "properties": {
        "id": {"type": "string", "maxLength": 255},
        "shortDescription": TEXT,
        "fullDescription": TEXT,
        "help": TEXT,
        "defaultConfiguration": {"type": "object", "properties": {"level": LEVEL}},
    },
}
RESULT = {
    "type": "object",
    "required": ["ruleId", "ruleIndex", "level", "message", "locations", "partialFingerprints"],
    "properties": {
        "ruleIndex": {"type": "integer", "minimum": 0},
        "level": LEVEL,
        "message": TEXT,
        "locations": {"type": "array", "minItems": 1, "maxItems": 1, "items": LOCATION},
        "partialFingerprints": {"type": "object", "additionalProperties": {"type": "string"}, "minProperties": 1},
    },
}
DRIVER = {
    "type": "object",
    "required": ["name", "rules"],
    "properties": {"name": {"type": "string"}, "rules": {"type": "array", "items": RULE, "uniqueItems": True}},
}
RUN = {
    "type": "object",
    "required": ["tool", "results"],
    "properties": {
        "tool": {"type": "object", "required": ["driver"], "properties": {"driver": DRIVER}},
        "columnKind": {"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
        "results": {"type": "array", "items": RESULT},
    },
}
SARIF = Draft202012Validator(
    {
        "type": "object",
        "required": ["version", "runs"],
        "properties": {"version": {"const": "2.1.0"}, "runs": {"type": "array", "items": RUN, "minItems": 1}},
    }
)
"""What SARIF 2.1.0 and GitHub's code scanning ask of the fields that are written."""
ANNOTATION = re.compile(r"::(error|warning|notice) ((?:\w+=[^,:\r\n]*,?)+)::(.+)")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Snapshot.of(cluster()).save("cluster.bayplan")
    (tmp_path / "right.yaml").write_text(yaml.dump(WEB))
    documents = [*MISTAKES["the next rollout"][0], *MISTAKES["service"][0][1:], deployment("note", requests={})]
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "wrong.yaml").write_text("---\n".join(map(yaml.dump, documents)))
    return tmp_path


def test_exit_status_says_whether_the_check_passes(folder):
    right = bayplan("check", "-f", "right.yaml", "--from", "cluster.bayplan")
    assert right.stdout == "nothing is wrong; 2 of 2 pods of 1 object would be placed\n"
    bayplan("check", "-f", "app", "--from", "cluster.bayplan", status=1)
    (folder / "notes.yaml").write_text(yaml.dump(deployment("note", requests={})))
    for level, status in (("error", 0), ("warning", 0), ("note", 1)):
        bayplan("check", "-f", "notes.yaml", "--from", "cluster.bayplan", "--fail-on", level, status=status)


def test_finding_names_the_object_the_file_the_line_and_the_next_step(folder):
    found = json.loads(bayplan("check", "-f", "app", "--from", "cluster.bayplan", "-o", "json", status=1).stdout)
    text = (folder / "app" / "wrong.yaml").read_text().splitlines()
    lines = {each["object"]: (each["file"], each["line"]) for each in found["findings"]}
    assert lines["deployment shop/web"][0] == lines["service shop/web"][0] == "app/wrong.yaml"
    assert text[lines["deployment shop/web"][1] - 1] == "spec:"
    assert text[lines["service shop/web"][1] - 1] == "  selector:"
    assert not found["passes"]
    assert all(each["next"] for each in found["findings"])
    shown = bayplan("check", "-f", "app", "--from", "cluster.bayplan", status=1).stdout
    assert "error: deployment shop/web (app/wrong.yaml:6): rollout-stuck\n" in shown
    assert "  next: set maxSurge to 0" in shown


def test_sarif_has_what_code_scanning_needs():
    log = json.loads(bayplan("check", "-f", "app", "--from", "cluster.bayplan", "-o", "sarif", status=1).stdout)
    SARIF.validate(log)
    (run,) = log["runs"]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert rules == list(RULES)
    assert all(rules[each["ruleIndex"]] == each["ruleId"] for each in run["results"])
    places = [each["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for each in run["results"]]
    assert set(places) == {"app/wrong.yaml"}
    assert {each["level"] for each in run["results"]} == {"error", "warning", "note"}


def test_annotations_are_workflow_commands():
    shown = bayplan("check", "-f", "app", "--from", "cluster.bayplan", "-o", "github", status=1).stdout
    found = [ANNOTATION.fullmatch(line) for line in shown.splitlines()]
    assert all(found)
    assert [each[1] for each in found] == ["error", "warning", "notice"]
    assert "file=app/wrong.yaml,line=6,title=rollout-stuck%3A deployment shop/web" in found[0][2]
    assert "%0ANext: set maxSurge" in found[0][3]


def test_nothing_wrong_is_no_annotation():
    assert bayplan("check", "-f", "right.yaml", "--from", "cluster.bayplan", "-o", "github").stdout == ""


def test_junit_has_a_test_for_each_rule():
    suites = ET.fromstring(bayplan("check", "-f", "app", "--from", "cluster.bayplan", "-o", "junit", status=1).stdout)
    suite = suites[0]
    tests = {each.get("name"): each for each in suite}
    assert list(tests) == list(RULES)
    assert int(suite.get("tests")) == len(RULES)
    failed = {name for name, each in tests.items() if each.find("failure") is not None}
    assert failed == {"rollout-stuck"}
    assert int(suite.get("failures")) == len(failed)
    assert tests["rollout-stuck"].get("file") == "app/wrong.yaml"
    assert "requests neither cpu nor memory" in tests["no-requests"].findtext("system-out")
    assert "app=wbe" in tests["selector-matches-nothing"].findtext("system-out")


FINDINGS = st.builds(
    Finding,
    rule=st.sampled_from(sorted(RULES)),
    object=st.text(min_size=1, max_size=20),
    message=st.text(max_size=30),
    next=st.text(max_size=20),
    file=st.sampled_from(["", "a b/ü.yaml", "/tmp/x.yaml", 'q"<&>.yaml'])
    | st.text(max_size=10).map(lambda x: f"d/{x}"),
    line=st.integers(0, 9),
)


@settings(max_examples=30, deadline=None)
@given(st.lists(FINDINGS, max_size=4))
def test_forms_are_well_formed_whatever_the_names_are(findings):
    log = json.loads(forms.sarif(findings))
    SARIF.validate(log)
    for each, found in zip(log["runs"][0]["results"], findings, strict=True):
        uri = each["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
        assert not found.file or unquote(uri, errors="surrogatepass").removeprefix("file://").endswith(
            found.file.rpartition("/")[2]
        )
    lines = forms.github(findings)
    assert len(re.split(r"\r\n|\r|\n", lines)) == max(len(findings), 1)
    suites = ET.fromstring(forms.junit(findings).encode())
    assert len(suites[0]) == len(RULES)


UNUSABLE = {
    "future snapshot": (["-f", "right.yaml", "--from", "newer.bayplan"], "newer.bayplan is a snapshot of version 99"),
    "no cluster": (["-f", "right.yaml", "--kubeconfig", "kubeconfig"], "cannot read nodes of http://127.0.0.1:1"),
    "no kubeconfig": (["-f", "right.yaml", "--kubeconfig", "none"], "none: cannot read the kubeconfig"),
    "typo in YAML": (
        ["-f", "typo.yaml", "--from", "cluster.bayplan"],
        "typo.yaml, document 1 (line 3): not valid YAML",
    ),
    "typo in a kind": (
        ["-f", "kind.yaml", "--from", "cluster.bayplan"],
        "kind.yaml, document 1 (line 1): Deploymnet web: there is no kind Deploymnet in apps/v1: did you mean",
    ),
    "typo in a field": (
        ["-f", "field.yaml", "--from", "cluster.bayplan"],
        'unknown field "spec.replcas"',
    ),
    "empty folder": (["-f", "empty", "--from", "cluster.bayplan"], "empty: no file in this directory ends in .yaml"),
    "missing file": (["-f", "none.yaml", "--from", "cluster.bayplan"], "none.yaml: No such file or directory"),
}


@cases("arguments, message", UNUSABLE)
def test_what_cannot_be_checked_is_one_line(arguments, message, folder):
    header, *lines = gzip.decompress((folder / "cluster.bayplan").read_bytes()).splitlines()
    newer = json.dumps(json.loads(header) | {"version": 99}).encode()
    (folder / "newer.bayplan").write_bytes(gzip.compress(b"\n".join([newer, *lines])))
    users = [{"name": "u", "user": {"token": "t"}}]
    clusters = [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}]
    contexts = [{"name": "x", "context": {"cluster": "c", "user": "u"}}]
    config = {"users": users, "clusters": clusters, "contexts": contexts, "current-context": "x"}
    (folder / "kubeconfig").write_text(yaml.dump(config))
    (folder / "typo.yaml").write_text("apiVersion: v1\nkind: Pod\n\tmetadata: {}\n")
    (folder / "kind.yaml").write_text(yaml.dump({**WEB, "kind": "Deploymnet"}))
    (folder / "field.yaml").write_text(yaml.dump({**WEB, "spec": {**WEB["spec"], "replcas": 3}}))
    (folder / "empty").mkdir()
    result = bayplan("check", *arguments, "--emulated-version", "1.36", status=2)
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert message in line

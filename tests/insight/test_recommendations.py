"""Recommendations of other tools are read as they write them; what can't be used is one line each."""

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.tables import cases

from bayplan.answers.insight.answers import QuestionError
from bayplan.answers.insight.recommendations.applying import WorkloadRequests, changes_text
from bayplan.answers.insight.recommendations.files import read_documents
from bayplan.answers.insight.recommendations.reading import recommendations_in
from bayplan.answers.insight.recommendations.recommendation import text_of


def vpa(target=None, policy=None, **more):
    found = {"containerName": "main", "target": target or {"cpu": "250m", "memory": "262144k"}}
    return {
        "apiVersion": "autoscaling.k8s.io/v1",
        "kind": "VerticalPodAutoscaler",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {
            "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "updatePolicy": {"updateMode": "Off"},
            "resourcePolicy": {"containerPolicies": [policy]} if policy else None,
        },
        "status": {"recommendation": {"containerRecommendations": [found]}},
        **more,
    }


def krr(requests, limits=None, **about):
    values = {name: {"value": value, "severity": "OK"} for name, value in requests.items()}
    most = {name: {"value": value, "severity": "OK"} for name, value in (limits or {}).items()}
    known = {"cluster": None, "name": "web", "container": "main", "namespace": "shop", "kind": "Deployment", **about}
    recommended = {"requests": values, "limits": most, "info": {"cpu": None, "memory": None}}
    return {"scans": [{"object": known, "recommended": recommended, "severity": "OK"}], "score": 90}


def goldilocks(field="workloads", **workload):
    container = {
        "containerName": "main",
        "lowerBound": {"cpu": "15m", "memory": "105M"},
        "target": {"cpu": "25m", "memory": "263M"},
        "requests": {"cpu": "1"},
    }
    found = {"controllerName": "web", **workload, "containers": {"main": container}}
    return {"Namespaces": {"shop": {"namespace": "shop", field: {"web": found}}}}


def row(**fields):
    return {"namespace": "shop", "kind": "Deployment", "name": "web", "container": "main", **fields}


def read(*documents):
    found = recommendations_in(documents)
    return [
        (
            f"{each.target.kind} {each.target.namespace}/{each.target.name} {each.container}",
            {name: text_of(name, amount) for name, amount in each.requests.items()},
        )
        for each in found.found
    ], list(found.problems)


WEB = "Deployment shop/web main"
SOURCES = {
    "a VPA": (vpa(), [(WEB, {"cpu": "250m", "memory": "250Mi"})]),
    "a list of VPAs": ({"kind": "List", "items": [vpa()]}, [(WEB, {"cpu": "250m", "memory": "250Mi"})]),
    "a typed list": (
        {"kind": "VerticalPodAutoscalerList", "items": [{**vpa(), "kind": "VerticalPodAutoscaler"}]},
        [(WEB, {"cpu": "250m", "memory": "250Mi"})],
    ),
    "minAllowed": (vpa(policy={"containerName": "main", "minAllowed": {"cpu": "1"}}), "1"),
    "maxAllowed": (vpa(policy={"containerName": "*", "maxAllowed": {"cpu": "100m"}}), "100m"),
    "the maximum counts last": (
        vpa(policy={"containerName": "*", "minAllowed": {"cpu": "1"}, "maxAllowed": {"cpu": "100m"}}),
        "100m",
    ),
    "controlledResources": (
        vpa(policy={"containerName": "main", "controlledResources": ["cpu"]}),
        [(WEB, {"cpu": "250m"})],
    ),
    "KRR": (krr({"cpu": 0.0125, "memory": 209715200.0}), [(WEB, {"cpu": "13m", "memory": "200Mi"})]),
    "KRR without cpu": (krr({"cpu": "?", "memory": 209715200.0}), [(WEB, {"memory": "200Mi"})]),
    "KRR with NaN": (krr({"cpu": math.nan, "memory": 209715200.0}), [(WEB, {"memory": "200Mi"})]),
    "Goldilocks": (
        goldilocks(controllerType="StatefulSet"),
        [("StatefulSet shop/web main", {"cpu": "25m", "memory": "263000000"})],
    ),
    "Goldilocks of old": (goldilocks("deployments"), [(WEB, {"cpu": "25m", "memory": "263000000"})]),
    "a row": (row(cpu="300m", memory="512Mi"), [(WEB, {"cpu": "300m", "memory": "512Mi"})]),
    "a row of numbers": (row(cpu=0.3, memory=536870912), [(WEB, {"cpu": "300m", "memory": "512Mi"})]),
}


@cases("document, expected", SOURCES)
def test_source_is_read(document, expected):
    found, problems = read(document)

    assert problems == []
    assert (found[0][1]["cpu"] if isinstance(expected, str) else found) == expected


PROBLEMS = {
    "negative": (row(cpu="-1"), "cpu -1: expected more than 0, as in 250m"),
    "zero": (row(cpu=0), "cpu 0: expected more than 0"),
    "absurd": (row(cpu="99999"), "cpu 99999 is more than a node has: expected at most 10k"),
    "infinite": (row(cpu=math.inf), "inf is not a quantity"),
    "without a unit": (row(memory="512"), "memory 512 is too little: expected at least 1Mi, as in 512Mi"),
    "no quantity": (row(cpu="much"), "'much' is not a quantity"),
    "true": (row(cpu=True), "True is not a quantity"),
    "nothing": (row(), "there is no recommendation for cpu or memory"),
    "no container": ({**row(cpu="1"), "container": ""}, "container is missing"),
    "no kind": ({**row(cpu="1"), "kind": None}, "kind is missing"),
    "another column": (row(gpu="1"), "there is no column gpu: expected namespace, kind, name, container, cpu, memory"),
    "a VPA without status": (vpa(status={}), "has no recommendation yet"),
    "a policy that is off": (vpa(policy={"containerName": "main", "mode": "Off"}), "its resource policy has the mode"),
    "a VPA that controls nothing": (
        vpa({"cpu": "1"}, policy={"containerName": "*", "controlledResources": ["memory"]}),
        "controlledResources has none of those that are recommended",
    ),
    "a scan of nothing": ({"scans": [{}]}, "scans[0]: expected an object and what is recommended for it"),
    "no scans": ({"scans": []}, "scans is empty"),
    "a limit below its request": (krr({"cpu": 1.0}, {"cpu": 0.5}), "the limit of cpu is 500m, and less than the"),
    "another object": ({"kind": "Pod"}, "Pod: expected VerticalPodAutoscaler objects, a report of KRR"),
    "a list of numbers": ({"kind": "List", "items": [1]}, "expected VerticalPodAutoscaler objects"),
}


@cases("document, message", PROBLEMS)
def test_what_cannot_be_used_is_one_line_and_the_others_are_read(document, message):
    found, problems = read(document, row(cpu="300m"))

    assert [each[1] for each in found] == [{"cpu": "300m"}]
    assert len(problems) == 1
    assert message in problems[0]
    assert "\n" not in problems[0]


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=6,
)
DOCUMENTS = [vpa(policy={"containerName": "main"}), krr({"cpu": 1.0}, {"cpu": None}), goldilocks(), row(cpu="1")]


def paths_of(value, path=()):
    yield path
    for key, each in value.items() if isinstance(value, dict) else enumerate(value if isinstance(value, list) else ()):
        yield from paths_of(each, (*path, key))


@settings(max_examples=150, derandomize=True, deadline=None)
@given(st.data())
def test_odd_documents_are_never_a_traceback(data):
    document = json.loads(json.dumps(data.draw(st.sampled_from(DOCUMENTS))))
    path = data.draw(st.sampled_from([each for each in paths_of(document) if each]))
    place = document
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = data.draw(VALUES)

    found = recommendations_in([document])

    assert all("\n" not in each for each in found.problems)


CSV = "Namespace;Kind;Name;Container;CPU;Memory\nshop;Deployment;web;main;300m;512Mi\nshop;Deployment;web\n"
FILES = {
    "a table": ("r.csv", CSV, ["r.csv, line 3: container is missing"]),
    "many cells": ("r.csv", "name,container,cpu\na,b,1,2\n", ["r.csv, line 2: there are more cells than columns"]),
    "JSON": ("r.json", json.dumps(krr({"cpu": -1.0})), ["r.json: scans[0]: container main: cpu -1.0: expected more"]),
    "a list": ("r.json", json.dumps([row(cpu="0")]), ["r.json: container main: cpu 0: expected more than 0"]),
    "documents": ("r.yaml", "---\nkind: Pod\n---\nkind: Pod\n", ["r.yaml (line 2): Pod: expected", "(line 4): Pod"]),
}


@cases("name, text, expected", FILES)
def test_file_is_read_with_its_places(tmp_path, name, text, expected):
    path = tmp_path / name
    path.write_text(text)

    problems = recommendations_in(read_documents(path)).problems

    assert len(problems) == len(expected)
    assert all(message in problem for message, problem in zip(expected, problems, strict=True))


BAD_FILES = {
    "empty": ("", "is empty: expected VerticalPodAutoscaler objects"),
    "a text": ("hello", "expected VerticalPodAutoscaler objects, a report of KRR or Goldilocks"),
    "no YAML": ("a: [", "not valid YAML"),
    "no UTF-8": (b"\xff\xff", "not a text file in UTF-8"),
    "missing": (None, "No such file or directory"),
}


@cases("content, message", BAD_FILES)
def test_file_that_cannot_be_read_is_an_error_of_one_line(tmp_path, content, message):
    path = tmp_path / "recommendations.yaml"
    if content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(QuestionError, match=message) as error:
        read_documents(path)
    assert "\n" not in str(error.value)


def spec(requests=None, limits=None):
    resources = {"requests": requests, "limits": limits}
    return {"containers": [{"name": "main", "resources": {name: each for name, each in resources.items() if each}}]}


def resources_after(document, before, factor=1.0):
    (found,) = recommendations_in([document]).found
    return WorkloadRequests({"main": found}, factor).applied(before)["containers"][0]["resources"]


LIMITS = {
    "a limit stays": (row(cpu="300m"), spec({"cpu": "1"}, {"cpu": "2"}), {"cpu": "300m"}, {"cpu": "2"}),
    "a limit is raised": (row(cpu="3"), spec({"cpu": "1"}, {"cpu": "2"}), {"cpu": "3"}, {"cpu": "3"}),
    "the VPA keeps the proportion": (
        vpa({"cpu": "500m"}),
        spec({"cpu": "1"}, {"cpu": "2"}),
        {"cpu": "500m"},
        {"cpu": "1"},
    ),
    "a limit alone is a request": (vpa({"cpu": "500m"}), spec(None, {"cpu": "2"}), {"cpu": "500m"}, {"cpu": "500m"}),
    "requests only": (
        vpa({"cpu": "500m"}, {"containerName": "*", "controlledValues": "RequestsOnly"}),
        spec({"cpu": "1"}, {"cpu": "2"}),
        {"cpu": "500m"},
        {"cpu": "2"},
    ),
    "KRR sets a limit": (
        krr({"memory": 2.0**28}, {"memory": 2.0**29}),
        spec({"memory": "1Gi"}),
        {"memory": "256Mi"},
        {"memory": "512Mi"},
    ),
    "KRR removes a limit": (krr({"cpu": 0.5}, {"cpu": None}), spec({"cpu": "1"}, {"cpu": "1"}), {"cpu": "500m"}, None),
    "other resources stay": (
        row(cpu="300m"),
        spec({"cpu": "1", "x.io/gpu": "1"}, {"x.io/gpu": "1"}),
        {"cpu": "300m", "x.io/gpu": "1"},
        {"x.io/gpu": "1"},
    ),
}


@cases("document, before, requests, limits", LIMITS)
def test_limits_follow_requests(document, before, requests, limits):
    after = resources_after(document, before)

    assert after["requests"] == requests
    assert after.get("limits") == limits


def test_factor_scales_all_containers_and_keeps_limits_above_requests():
    before = {
        "initContainers": [{"name": "init", "resources": {"requests": {"cpu": "2", "memory": "300Mi"}}}],
        "containers": [{"name": "main", "resources": {"limits": {"cpu": "1"}}}, {"name": "side"}],
        "resources": {"requests": {"cpu": "4"}, "limits": {"cpu": "4"}},
    }
    half, twice = (WorkloadRequests(factor=factor).applied(before) for factor in (0.7, 2))

    assert half["initContainers"][0]["resources"]["requests"] == {"cpu": "1400m", "memory": "210Mi"}
    assert half["containers"][0]["resources"] == {"limits": {"cpu": "1"}, "requests": {"cpu": "700m"}}
    assert half["containers"][1] == {"name": "side"}
    assert half["resources"]["requests"] == {"cpu": "2800m"}
    assert twice["containers"][0]["resources"] == {"limits": {"cpu": "2"}, "requests": {"cpu": "2"}}
    assert changes_text(before, twice).endswith("main cpu - -> 2, main cpu limit 1 -> 2")
    assert before["resources"]["requests"] == {"cpu": "4"}


@settings(max_examples=60, derandomize=True, deadline=None)
@given(st.integers(1, 10**5), st.integers(1, 10**5), st.none() | st.integers(1, 10**5), st.floats(0.01, 900))
def test_no_request_exceeds_its_limit(recommended, before, limit, factor):
    limits = None if limit is None else {"cpu": f"{max(limit, before)}m"}
    (found,) = recommendations_in([row(cpu=f"{recommended}m")]).found
    after = WorkloadRequests({"main": found}, factor).applied(spec({"cpu": f"{before}m"}, limits))

    amounts = {
        name: found["cpu"] for name, found in after["containers"][0]["resources"].items() if "cpu" in (found or {})
    }
    from_text = {name: float(text[:-1]) if text.endswith("m") else float(text) * 1000 for name, text in amounts.items()}
    assert from_text["requests"] <= from_text.get("limits", math.inf)
    assert from_text["requests"] == max(1, math.ceil(recommended * round(factor * 10**6) / 10**6))

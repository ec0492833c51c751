"""The files of scheduler_perf: templates, and which workloads are selected."""

from pathlib import Path

import pytest

from bayplan.benchmarking import templates
from bayplan.benchmarking.objects import kind_of
from bayplan.benchmarking.selection import labelled, matching, named
from bayplan.benchmarking.templates import BenchmarkError, ObjectTemplate, Unsupported
from bayplan.benchmarking.workloads import Workload, find_configs, read_workloads
from bayplan.core.api.kinds import custom_kind


def make(name, *labels):
    return Workload(name, (), None, None, frozenset(labels))


WORKLOADS = [make("Basic/5Nodes", "short"), make("Basic/5000Nodes_10Pods", "performance"), make("Odd/1/2Init", "short")]


def names(workloads):
    return [each.name for each in workloads]


@pytest.mark.parametrize(
    ("patterns", "found"),
    [
        (["Basic"], ["Basic/5Nodes", "Basic/5000Nodes_10Pods"]),
        (["Basic/5Nodes", "B*/5N*"], ["Basic/5Nodes"]),
        (["O*/1/2Init"], ["Odd/1/2Init"]),
    ],
)
def test_workloads_are_selected_by_name(patterns, found):
    assert names(named(WORKLOADS, patterns)) == found


def test_unknown_name_is_reported_with_those_that_exist():
    with pytest.raises(BenchmarkError, match="no workload Strange; there are workloads of Basic, Odd"):
        named(WORKLOADS, ["Strange"])
    with pytest.raises(BenchmarkError, match="no workload Basic/6; there are Basic/5Nodes, Basic/5000Nodes_10Pods"):
        named(WORKLOADS, ["Basic/6"])


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("Basic", ["Basic/5Nodes", "Basic/5000Nodes_10Pods"]),
        ("asic/5N", ["Basic/5Nodes"]),
        ("BenchmarkPerfScheduling/Basic/5000", ["Basic/5000Nodes_10Pods"]),
        ("//2Init$", ["Odd/1/2Init"]),
        ("/5", ["Basic/5Nodes", "Basic/5000Nodes_10Pods"]),
        ("BenchmarkPerfScheduling", ["Basic/5Nodes", "Basic/5000Nodes_10Pods", "Odd/1/2Init"]),
        ("^asic", []),
    ],
)
def test_workloads_are_selected_like_benchmarks_of_go(pattern, found):
    assert names(filter(matching(pattern), WORKLOADS)) == found


def test_invalid_expression_is_reported():
    with pytest.raises(BenchmarkError, match=r"--match \(: missing \)"):
        matching("(")


@pytest.mark.parametrize(
    ("labels", "found"),
    [
        ("short", ["Basic/5Nodes", "Odd/1/2Init"]),
        ("+performance,-short", ["Basic/5000Nodes_10Pods"]),
        ("short,performance", []),
        ("-short", ["Basic/5000Nodes_10Pods"]),
    ],
)
def test_workloads_are_selected_by_labels(labels, found):
    assert names(filter(labelled(labels), WORKLOADS)) == found


def test_workload_has_the_labels_and_gates_of_its_test_case(folder):
    alpha, beta = named(read_workloads(folder / "misc/performance-config.yaml"), ["Behind"])
    assert (alpha.labels, beta.labels) == ({"short", "odd"}, {"short"})
    assert alpha.feature_gates == {"SchedulerQueueingHints": False, "SchedulerAsyncAPICalls": True}
    assert beta.feature_gates == {"SchedulerQueueingHints": False}


def test_configuration_is_found_by_topic_file_or_folder(folder):
    config = folder / "misc/performance-config.yaml"
    assert find_configs("misc", folder) == [config]
    for place in (config, config.parent, folder):
        assert find_configs(str(place), None) == [config]


@pytest.mark.parametrize(
    ("text", "document"),
    [
        ("n: '{{.Index}}/{{ .Count }}'", {"n": "7/10"}),
        ("n: {{DivideInt .Index 2}}", {"n": 3}),
        ("n: {{DivideFloat .Index 2}}", {"n": 3.5}),
        ("n: {{Mod .Index 4}}", {"n": 3}),
        ("n: {{ AddInt .Index .Count 1 }}", {"n": 18}),
        ("n: {{SubtractInt .Index .Count}}", {"n": -3}),
        ("n: {{MultiplyInt 2 .Count}}", {"n": 20}),
        ("pod-{{.Index}}: gpu-{{ Mod .Index 4 }}", {"pod-7": "gpu-3"}),
        ("{name: 'pod-{{.Index}}', n: 8{{.Index}}}", {"name": "pod-7", "n": 87}),
        ("{name: pod-{{.Index}}, mark: \ue0000\ue001}", {"name": "pod-7", "mark": "\ue0000\ue001"}),
        ("n: 1.0e-{{.Index}}", {"n": 1e-7}),
        ("name: 'pod-{{'\nn: {{.Index}}", {"name": "pod-{{", "n": 7}),
    ],
)
def test_templates_compute(text, document):
    assert ObjectTemplate(Path("t.yaml"), text).document(7, 10) == document


@pytest.mark.parametrize(
    ("text", "document"),
    [
        ("spec: {containers: [{requests: {gpu: 1}}]}", {"spec": {"containers": [{"requests": {"gpu": "1"}}]}}),
        ("{kind: Node, status: {capacity: {cpu: 4}}}", {"kind": "Node", "status": {"capacity": {"cpu": "4"}}}),
        ("{kind: CSINode, allocatable: {count: 4}}", {"kind": "CSINode", "allocatable": {"count": 4}}),
        ("{kind: [], n: 1}", {"kind": [], "n": 1}),
    ],
)
def test_quantities_of_nodes_and_pods_are_strings(text, document):
    assert ObjectTemplate(Path("t.yaml"), text).document(0, 1) == document


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("n: {{Power .Index 2}}", Unsupported, r"the template t.yaml with \{\{Power .Index 2\}\}"),
        ("n: {{.Name}}", Unsupported, r"the template t.yaml with \{\{.Name\}\}"),
        ("n: {{DivideInt .Index 0}}", BenchmarkError, r"t.yaml: \{\{DivideInt .Index 0\}\}: float division by zero"),
        ("n: {{Mod .Index x}}", BenchmarkError, r"t.yaml: \{\{Mod .Index x\}\}: could not convert"),
        ("n: {{Mod .Index}}", BenchmarkError, r"t.yaml: \{\{Mod .Index\}\}: .*missing 1 required"),
    ],
)
def test_templates_that_cannot_be_computed(text, error, message):
    with pytest.raises(error, match=message):
        ObjectTemplate(Path("t.yaml"), text).document(7, 10)


def test_names_with_an_index_need_no_parsing_of_their_own() -> None:
    template = ObjectTemplate(Path("t.yaml"), "metadata: {name: pod-{{ .Index }}, labels: {color: green-{{ .Index }}}}")
    templates._parsed.cache_clear()
    documents = [template.document(index, 100) for index in range(100)]
    assert documents[99] == {"metadata": {"name": "pod-99", "labels": {"color": "green-99"}}}
    assert templates._parsed.cache_info().misses == 1


@pytest.mark.parametrize(
    ("version", "kind", "namespace", "found"),
    [
        ("example.com/v1", "Team", "a", ("teams", True)),
        ("example.com/v1", "Policy", None, ("policies", False)),
        ("apps/v9", "Deployment", "a", Unsupported),
        ("v1", "Podd", "a", Unsupported),
        ("example.com/v1/x", "Te am", "a", BenchmarkError),
        ("v1", "Node", "a", BenchmarkError),
    ],
)
def test_kinds_of_objects_are_known_or_custom(version, kind, namespace, found):
    document = {"apiVersion": version, "kind": kind}
    if isinstance(found, tuple):
        known = kind_of(document, namespace)
        assert (known.plural, known.namespaced) == found
        assert known == custom_kind(f"{found[0]}.v1.example.com", namespaced=found[1])  # as plugins name it
        return
    with pytest.raises(found):
        kind_of(document, namespace)

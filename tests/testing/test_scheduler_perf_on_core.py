"""`bayplan perf`: reading workloads, running them in memory, saying what cannot be run."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from bayplan.cli.perf import perf
from bayplan.testing.scheduler_perf.core import run_workload
from bayplan.testing.scheduler_perf.templates import BenchmarkError
from bayplan.testing.scheduler_perf.workloads import find_config, read_workloads, select

CONFIG = """
- name: Basic
  defaultPodTemplatePath: ../templates/pod.yaml
  workloadTemplate:
  - opcode: createNodes
    countParam: $nodes
    nodeTemplatePath: ../templates/node.yaml
    labelNodePrepareStrategy: {labelKey: zone, labelValues: [a, b]}
  - opcode: createNamespaces
    prefix: ns
    count: 2
  - opcode: createPods
    count: 1
    skipWaitToCompletion: true
  - opcode: barrier
  - opcode: createPods
    countParam: $pods
    podTemplatePath: ../templates/zone-pod.yaml
    collectMetrics: true
  workloads:
  - name: Small
    params: {nodes: 4, pods: 20}
  - name: Tight
    params: {nodes: 1, pods: 5}
- name: Sets
  defaultPodTemplatePath: ../templates/pod.yaml
  workloadTemplate:
  - opcode: createNodes
    count: 2
  - opcode: createAny
    namespace: ns-1
    templatePath: ../templates/service.yaml
  - opcode: createPodSets
    countParam: $namespaces
    namespacePrefix: ns
    createPodsOp:
      opcode: createPods
      countParam: $pods
      collectMetrics: true
  workloads:
  - name: Any
    params: {namespaces: 3, pods: 4}
- name: Churning
  workloadTemplate:
  - opcode: churn
    mode: create
  workloads:
  - name: Any
"""
NODE = "metadata: {generateName: n-}\nstatus: {capacity: {pods: '110', cpu: '4', memory: 32Gi}}\n"
POD = """
metadata: {generateName: p-}
spec: {containers: [{name: c, image: i, resources: {limits: {cpu: 100m}}}]}
"""
SERVICE = "apiVersion: v1\nkind: Service\nmetadata: {generateName: s-}\nspec: {selector: {app: web}}\n"
ZONE_POD = """
metadata: {generateName: z-}
spec: {nodeSelector: {zone: b}, containers: [{name: c, image: i, resources: {requests: {cpu: 100m}}}]}
"""


@pytest.fixture
def folder(tmp_path):
    for name, text in {
        "misc/performance-config.yaml": CONFIG,
        "templates/node.yaml": NODE,
        "templates/pod.yaml": POD,
        "templates/zone-pod.yaml": ZONE_POD,
        "templates/service.yaml": SERVICE,
    }.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return tmp_path


def workload(folder, name):
    return next(select(read_workloads(find_config("misc", folder)), [name]))


def test_pods_are_placed_and_measured(folder):
    measured = run_workload(workload(folder, "Basic/Small"))
    assert (measured.scheduled, measured.unschedulable) == (20, 0)
    assert measured.average > 0
    assert len(measured.taken) == 20
    assert 0 < measured.latency(50) <= measured.latency(99)
    assert sum(measured.throughputs()) > 0


def test_pods_that_fit_nowhere_are_counted(folder):
    measured = run_workload(workload(folder, "Basic/Tight"))
    assert (measured.scheduled, measured.unschedulable) == (0, 5)


def test_pods_are_made_in_many_namespaces(folder):
    measured = run_workload(workload(folder, "Sets/Any"))
    assert measured.scheduled == 12


def test_a_test_case_stands_for_all_its_workloads(folder):
    workloads = read_workloads(find_config("misc", folder))
    assert [each.name for each in select(workloads, ["Basic", "C*/Any"])] == [
        "Basic/Small",
        "Basic/Tight",
        "Churning/Any",
    ]
    with pytest.raises(BenchmarkError, match="no workload Odd; there are Basic/Small"):
        list(select(workloads, ["Odd"]))


def run(*arguments, **environment):
    return CliRunner().invoke(
        perf, [str(each) for each in arguments], env={"BAYPLAN_SCHEDULER_PERF": "", **environment}
    )


def test_what_is_not_supported_is_named_and_skipped(folder):
    result = run("misc", "Basic/Small", "Churning", BAYPLAN_SCHEDULER_PERF=str(folder))
    assert result.exit_code == 1
    assert "Basic/Small" in result.stdout
    assert "Skipped Churning/Any: needs churn" in result.stdout


def test_without_workloads_they_are_listed(folder):
    result = run("--place", folder, "misc")
    assert result.stdout.splitlines() == ["Basic/Small", "Basic/Tight", "Sets/Any", "Churning/Any"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["misc", "Basic"], "BAYPLAN_SCHEDULER_PERF does not say where topics are"),
        (["--place", "FOLDER", "odd", "Basic"], "topics there: misc"),
        (["--place", "FOLDER", "FOLDER/templates/pod.yaml", "Basic"], "Expected `array`"),
        (["--place", "FOLDER", "misc", "Odd"], "no workload Odd"),
    ],
)
def test_what_cannot_be_found_or_read_is_named(folder, arguments, message):
    result = run(*(each.replace("FOLDER", str(folder)) for each in arguments))
    assert result.exit_code == 2
    assert message in result.stderr


def test_a_template_that_is_missing_is_named(folder):
    (folder / "templates" / "node.yaml").unlink()
    result = run("--place", folder, "misc", "Basic/Small")
    assert result.exit_code == 2
    assert "node.yaml: No such file" in result.stderr

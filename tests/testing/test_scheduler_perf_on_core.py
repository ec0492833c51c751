"""`bayplan perf`: reading workloads, running them in memory, saying what cannot be run."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from bayplan.cli.perf import perf
from bayplan.testing.scheduler_perf.core import run_workload
from bayplan.testing.scheduler_perf.templates import BenchmarkError, Template, Unsupported
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
- name: Devices
  workloadTemplate:
  - opcode: createNodes
    count: 3
    nodeTemplatePath: ../templates/node.yaml
  - opcode: createResourceDriver
    driverName: gpu.example.com
    nodes: n-[01]
    maxClaimsPerNodeParam: $devices
  - opcode: createAny
    templatePath: ../templates/class.yaml
  - opcode: createAny
    templatePath: ../templates/claim.yaml
    namespace: held
    count: 2
  - opcode: allocResourceClaims
    namespace: held
  - opcode: createAny
    templatePath: ../templates/claim.yaml
    namespace: shared
    count: 2
  - opcode: createPods
    namespace: shared
    count: 10
    podTemplatePath: ../templates/sharing-pod.yaml
    collectMetrics: true
  - opcode: createAny
    templatePath: ../templates/claim-template.yaml
    namespace: test
  - opcode: createPods
    namespace: test
    countParam: $pods
    podTemplatePath: ../templates/claiming-pod.yaml
    collectMetrics: true
    steadyStateParam: $steady
    durationParam: $duration
  workloads:
  - name: Full
    params: {devices: 4, pods: 5}
  - name: Steady
    params: {devices: 4, pods: 4, steady: true, duration: 10ms}
- name: Extended
  workloadTemplate:
  - opcode: createNodes
    count: 2
    nodeTemplatePath: ../templates/node.yaml
  - opcode: createResourceDriver
    driverName: gpu.example.com
    nodes: n-*
    maxClaimsPerNode: 2
  - opcode: createAny
    templatePath: ../templates/class.yaml
  - opcode: createPods
    count: 5
    podTemplatePath: ../templates/extended-pod.yaml
    collectMetrics: true
  workloads:
  - name: Any
- name: Volumes
  workloadTemplate:
  - opcode: createNodes
    count: 2
    nodeAllocatableStrategy:
      nodeAllocatable: {}
      csiNodeAllocatable: {disk.example.com: {count: 3}}
  - opcode: createPods
    count: 7
    persistentVolumeTemplatePath: ../templates/volume.yaml
    persistentVolumeClaimTemplatePath: ../templates/volume-claim.yaml
    collectMetrics: true
  workloads:
  - name: Any
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
CLASS = """
apiVersion: resource.k8s.io/v1beta2
kind: DeviceClass
metadata: {name: gpu}
spec: {extendedResourceName: example.com/gpu, selectors: [{cel: {expression: device.driver == 'gpu.example.com'}}]}
"""
DEVICES = "{devices: {requests: [{name: r, exactly: {deviceClassName: gpu}}]}}"
CLAIM = f"""
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {{name: 'claim-{{{{.Index}}}}'}}
spec: {DEVICES}
"""
CLAIM_TEMPLATE = f"""
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {{name: template}}
spec: {{spec: {DEVICES}}}
"""
SHARING_POD = """
metadata: {name: 'sharing-{{ .Index }}'}
spec:
  containers: [{name: c}]
  resourceClaims: [{name: gpu, resourceClaimName: 'claim-{{DivideInt .Index 5}}'}]
"""
CLAIMING_POD = """
metadata: {generateName: claiming-}
spec: {containers: [{name: c}], resourceClaims: [{name: gpu, resourceClaimTemplateName: template}]}
"""
EXTENDED_POD = "spec: {containers: [{name: c, resources: {limits: {example.com/gpu: 1}}}]}\n"
VOLUME = "spec: {accessModes: [ReadOnlyMany], capacity: {storage: 1Gi}, csi: {driver: disk.example.com}}\n"
VOLUME_CLAIM = """
metadata: {annotations: {pv.kubernetes.io/bind-completed: 'true'}}
spec: {accessModes: [ReadOnlyMany], resources: {requests: {storage: 1Gi}}}
"""


@pytest.fixture
def folder(tmp_path):
    for name, text in {
        "misc/performance-config.yaml": CONFIG,
        "templates/node.yaml": NODE,
        "templates/pod.yaml": POD,
        "templates/zone-pod.yaml": ZONE_POD,
        "templates/service.yaml": SERVICE,
        "templates/class.yaml": CLASS,
        "templates/claim.yaml": CLAIM,
        "templates/claim-template.yaml": CLAIM_TEMPLATE,
        "templates/sharing-pod.yaml": SHARING_POD,
        "templates/claiming-pod.yaml": CLAIMING_POD,
        "templates/extended-pod.yaml": EXTENDED_POD,
        "templates/volume.yaml": VOLUME,
        "templates/volume-claim.yaml": VOLUME_CLAIM,
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


@pytest.mark.parametrize(
    ("name", "scheduled", "unschedulable"),
    [
        # Of eight devices two are held, and two shared by five pods each.
        ("Devices/Full", 14, 1),
        # A claim for each, made when the pod is bound.
        ("Extended/Any", 4, 1),
        # Two nodes that take three volumes each.
        ("Volumes/Any", 6, 1),
    ],
)
def test_pods_with_devices_and_volumes(folder, name, scheduled, unschedulable):
    measured = run_workload(workload(folder, name))
    assert (measured.scheduled, measured.unschedulable) == (scheduled, unschedulable)


def test_a_steady_state_places_pods_until_its_time_is_over(folder):
    measured = run_workload(workload(folder, "Devices/Steady"))
    assert measured.unschedulable == 0
    assert measured.scheduled > 10
    assert (measured.scheduled - 10) % 4 == 0
    assert measured.seconds > 0.01


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
    ],
)
def test_templates_compute(text, document):
    assert Template(Path("t.yaml"), text).document(7, 10) == document


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
        Template(Path("t.yaml"), text).document(7, 10)


def test_an_amount_that_cannot_be_read_names_the_operation(folder):
    path = folder / "templates" / "extended-pod.yaml"
    path.write_text(path.read_text().replace("gpu: 1", "gpu: one"))
    result = run("--place", folder, "misc", "Extended")
    assert result.exit_code == 2
    assert "Error: Extended/Any: createPods: 'one' is not a quantity" in result.stderr


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
    assert result.stdout.splitlines() == [
        "Basic/Small",
        "Basic/Tight",
        "Sets/Any",
        "Devices/Full",
        "Devices/Steady",
        "Extended/Any",
        "Volumes/Any",
        "Churning/Any",
    ]


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

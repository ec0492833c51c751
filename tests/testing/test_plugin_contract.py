"""Checks of the plugin contract: plugins that keep it pass, and each broken one fails the check of its promise."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from broken_answers import BROKEN_ANSWERS, AddsButDoesNotRemove, AnswersTrue, chance
from broken_promises import BROKEN_PROMISES, Patient, SignsTooLittle
from hypothesis import Phase, given, settings

from bayplan.core.plugins.registry import PLUGINS
from bayplan.core.versions import NEWEST, gates_of
from bayplan.testing import CHECKS, BrokenContract, check_contract, make_cluster, make_node, make_pod
from bayplan.testing.contract.words import words_of
from bayplan.testing.strategies import clusters, nodes, pods

BROKEN = [*BROKEN_ANSWERS, *BROKEN_PROMISES]
IN_TREE = [entry for entry in PLUGINS.values() if entry.factory is not None]
DISK = {"name": "disk", "gcePersistentDisk": {"pdName": "one"}}


def using(name):
    return {"name": f"of-{name}", "persistentVolumeClaim": {"claimName": name}}


def claim(name, volume="", **spec):
    metadata = {"name": name, "namespace": "default", "annotations": {"pv.kubernetes.io/bind-completed": "yes"}}
    spec = {"storageClassName": "late", "volumeName": volume, **spec}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}


def volume(name, zone, node, size="1Gi"):
    terms = [{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "NotIn", "values": [node]}]}]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "labels": {"topology.kubernetes.io/zone": zone}},
        "spec": {
            "csi": {"driver": "disk.example.com", "volumeHandle": name},
            "storageClassName": "late",
            "capacity": {"storage": size},
            "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
        },
        "status": {"phase": "Available"},
    }


def limit(node, count):
    drivers = [{"name": "disk.example.com", "nodeID": node, "allocatable": {"count": count}}]
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": {"name": node},
        "spec": {"drivers": drivers},
    }


LATE = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": "late"},
    "provisioner": "kubernetes.io/no-provisioner",
    "volumeBindingMode": "WaitForFirstConsumer",
}
BOUND = [LATE, claim("near", "v"), volume("v", "a", "n0"), claim("free"), volume("w", "b", "n1"), claim("data", "v")]
WAITING = [
    make_pod("waiting", spec={"volumes": [using(name) for name in names]}) for names in (["near"], ["free"], ["gone"])
]
DRIVER = "gpu.example.com"


def gpus(node, *names):
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": [{"name": name} for name in names]}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"gpus-of-{node}"},
        "spec": spec,
    }


def some(name, count):
    return {"name": name, "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count}


DEVICES = [
    {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {}},
    gpus("n0", "a", "b"),
    gpus("n1", "a"),
    {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "claim", "namespace": "default", "uid": "claim"},
        "spec": {"devices": {"requests": [{"name": "r", "firstAvailable": [some("two", 2), some("one", 1)]}]}},
    },
]
USES_CLAIM = make_pod("waiting", spec={"resourceClaims": [{"name": "gpu", "resourceClaimName": "claim"}]})
USER_NAMESPACE = make_pod("waiting", spec={"hostNetwork": True, "hostUsers": False})
DECLARES = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "declares"},
    "status": {
        "allocatable": {"cpu": "64", "memory": "64Gi", "pods": "110"},
        "declaredFeatures": ["UserNamespacesHostNetworkSupport"],
    },
}
EXAMPLES = 30
"""Half of the default. These find every broken plugin, and the properties draw richer clusters for correct ones."""
DEFERRED = {"conditions": [{"type": "PodResizePending", "status": "True", "reason": "Deferred"}]}
MORE = {
    "DeferredPodScheduling": {"pods": [make_pod("waiting", node="n0", status=DEFERRED)]},
    "DynamicResources": {"objects": DEVICES, "pods": [USES_CLAIM]},
    "NodeDeclaredFeatures": {"objects": [DECLARES], "pods": [USER_NAMESPACE]},
    # Pending pods have no node, unless a user sets one.
    "NodeName": {"pods": [make_pod("waiting", node="n0"), make_pod("waiting", node="elsewhere")]},
    # As upstream: its hints ignore the anti-affinity of existing pods when the labels of a node change, and namespace
    # selectors when pods change. The flush of pods that have been unschedulable for five minutes makes up for it.
    "InterPodAffinity": {"skip": ["events"]},
    # As upstream, which has no hint for a deleted node with a pod that uses the claim.
    "VolumeRestrictions": {
        "skip": ["events"],
        "objects": [
            make_pod("user", node="n0", spec={"volumes": [DISK, using("exclusive")]}),
            claim("exclusive", accessModes=["ReadWriteOncePod"]),
            claim("data"),
        ],
        "pods": [make_pod("waiting", spec={"volumes": volumes}) for volumes in ([DISK], [using("exclusive")])],
    },
    # As upstream, which has no hint for a deleted volume that counted.
    "NodeVolumeLimits": {
        "skip": ["events"],
        "objects": [
            *BOUND,
            limit("n0", 1),
            limit("n1", 0),
            make_pod("user", node="n0", spec={"volumes": [using("near")]}),
        ],
        "pods": WAITING,
    },
    # Scores only with the feature gate StorageCapacityScoring.
    "VolumeBinding": {"skip": ["exercise"], "objects": BOUND, "pods": WAITING},
    "VolumeZone": {"objects": BOUND, "pods": WAITING},
}


@pytest.fixture
def unshrunk():
    """Makes Hypothesis report the first example that it finds."""
    settings.register_profile("unshrunk", phases=[Phase.generate])
    settings.load_profile("unshrunk")
    yield
    settings.load_profile("tests")


@pytest.mark.parametrize("entry", IN_TREE, ids=lambda entry: entry.name)
def test_every_in_tree_plugin_keeps_the_contract(entry):
    check_contract(entry.factory, **{"examples": EXAMPLES, **MORE.get(entry.name, {})})


SWITCHED = gates_of(NEWEST).but("TaintTolerationComparisonOperators")
LIMIT = {"metadata": {"name": "disk.example.com"}, "spec": {"preventPodSchedulingIfMissing": True}}
SWITCHES = {
    "TaintToleration": {
        "skip": [],
        "pods": [make_pod("a", tolerations=[{"key": "k", "operator": each, "value": "2"}]) for each in ("Gt", "Lt")],
        "objects": [make_node(f"n{value}", taints=[f"k={value}:NoSchedule"]) for value in (1, 3)],
    },
    "NodeVolumeLimits": {
        **MORE["NodeVolumeLimits"],
        "objects": [
            *MORE["NodeVolumeLimits"]["objects"],
            {"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", **LIMIT},
        ],
    },
    "VolumeBinding": {
        "objects": [
            *BOUND,
            claim("new", resources={"requests": {"storage": "1Gi"}}),
            volume("smaller", "a", "n0", "1Gi"),
            volume("larger", "a", "n1", "4Gi"),
        ],
        "pods": [*WAITING, make_pod("waiting", spec={"volumes": [using("new")]})],
    },
}


@pytest.mark.parametrize("name", SWITCHES)
def test_plugins_keep_the_contract_with_their_gates(name):
    check_contract(PLUGINS[name].factory, **{"examples": EXAMPLES, "gates": SWITCHED, **SWITCHES[name]})


@pytest.mark.usefixtures("unshrunk")
@pytest.mark.parametrize(("plugin", "check", "text"), [pytest.param(*each, id=each[0].name) for each in BROKEN])
def test_a_broken_plugin_fails_the_check_of_its_promise(plugin, check, text):
    with pytest.raises(BrokenContract) as caught:
        check_contract(plugin)
    error = caught.value
    assert (error.plugin, error.check) == (plugin.name, check)
    assert text in str(error)
    assert str(error).startswith(f"plugin {plugin.name!r} fails the check {check!r}: {CHECKS[check]}\n")
    assert str(error).endswith(f'check_contract(..., only=["{check}"], seed=0)')


def test_every_check_has_a_plugin_that_fails_it():
    assert {check for _, check, _ in BROKEN} == set(CHECKS)


@pytest.mark.parametrize("arguments", [None, {"tier": "batch"}])
def test_a_good_plugin_passes_with_any_arguments(arguments):
    check_contract(Patient, arguments, examples=EXAMPLES)


def test_wrong_arguments_fail_the_registration():
    with pytest.raises(BrokenContract, match=r"registration.*\n.*colour"):
        check_contract(Patient, {"colour": "red"})


def test_the_reported_example_is_small():
    with pytest.raises(BrokenContract) as caught:
        check_contract(SignsTooLittle)
    node, waiting = str(caught.value.example).splitlines()
    assert node == "Node n0 {}"
    assert waiting.startswith("pending Pod default/waiting {")


@pytest.mark.usefixtures("unshrunk")
def test_the_same_seed_finds_the_same_example_whichever_checks_are_chosen():
    found = set()
    for only in ([], [], ["what-ifs"]):
        with pytest.raises(BrokenContract) as caught:
            check_contract(AddsButDoesNotRemove, seed=3, only=only)
        found.add(str(caught.value))
    assert len(found) == 1


def test_a_plugin_that_breaks_a_promise_only_once_is_reported():
    asked = []

    class Once(AnswersTrue):
        name = "once"

        def filter(self, cycle, pod, node):
            asked.append(node)
            return True if len(asked) == 1 else None

    with pytest.raises(BrokenContract, match="returned True"):
        check_contract(Once)


def test_checks_can_be_chosen():
    check_contract(chance, skip=["repeatable", "inputs", "forms"], examples=EXAMPLES)
    check_contract(SignsTooLittle, only=["answers", "inputs"], examples=EXAMPLES)
    with pytest.raises(ValueError, match=r"no such check: sings; the checks are registration, answers, .*reuse"):
        check_contract(AnswersTrue, only=["sings"])


def test_clusters_contain_the_objects_and_pods_of_the_caller():
    seen = set()

    class Looks(AnswersTrue):
        name = "looks"

        def filter(self, cycle, pod, node):
            seen.update({pod.name, node.name, *(other.name for other in node.pods)})
            return "big" if node.allocatable_of("example.com/fpga") else None

    mine = [make_node("mine", resources={"example.com/fpga": "1"}), make_pod("there", node="mine")]
    check_contract(Looks, objects=mine, pods=[make_pod("vip", priority=7)], examples=EXAMPLES)
    assert {"mine", "there", "vip", "waiting"} <= seen
    with pytest.raises(TypeError, match="expected a pod"):
        check_contract(Looks, objects=["nodes"])


def test_words_come_from_the_code_and_the_arguments():
    words = words_of(Patient, {"tier": "gold"})
    assert words[0] == "tier"
    assert {"gold", "example.com/tier"} <= set(words)
    assert "patient" not in words


@given(clusters(words=["example.com/tier", "web"]), pods(words=["example.com/tier", "web"]), nodes())
@settings(max_examples=20)
def test_strategies_draw_valid_clusters(objects, pod, node):
    cluster = make_cluster(*objects, node)
    decision = cluster.decide(pod)
    assert decision.node in {None, "n0", "n1", "n2", "n3"}
    assert bool(decision.node) != bool(decision.message)


def test_missing_hypothesis_is_a_one_line_error(tmp_path):
    (tmp_path / "hypothesis.py").write_text(
        "raise ModuleNotFoundError(\"No module named 'hypothesis'\", name=__name__)\n"
    )
    code = "from bayplan.testing import make_cluster\nmake_cluster()\nfrom bayplan.testing import check_contract\n"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment)
    assert "Traceback" in done.stderr
    assert done.stderr.splitlines()[-1].endswith("needs Hypothesis: pip install 'bayplan[testing]'")

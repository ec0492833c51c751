"""The contract's checks: plugins that keep it pass, and each broken one is told what it breaks."""

from __future__ import annotations

import pytest
from broken_answers import BROKEN_ANSWERS, AnswersTrue, chance
from broken_promises import BROKEN_PROMISES, Patient, RestsOnMore, SignsTooLittle

from bayplan.plugins.registry import PLUGINS
from bayplan.testing import CHECKS, BrokenContract, check_contract, make_node, make_pod
from bayplan.testing.contract.words import words_of

BROKEN = [*BROKEN_ANSWERS, *BROKEN_PROMISES]
IN_TREE = [entry for entry in PLUGINS.values() if entry.factory is not None]
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
DISK = {"name": "disk", "gcePersistentDisk": {"pdName": "one"}}


def using(name):
    return {"name": f"of-{name}", "persistentVolumeClaim": {"claimName": name}}


def claim(name, volume="", **spec):
    metadata = {"name": name, "namespace": "default", "annotations": {"pv.kubernetes.io/bind-completed": "yes"}}
    spec = {"storageClassName": "late", "volumeName": volume, **spec}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}


def volume(name, zone, node):
    terms = [{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "NotIn", "values": [node]}]}]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "labels": {"topology.kubernetes.io/zone": zone}},
        "spec": {
            "csi": {"driver": "disk.example.com", "volumeHandle": name},
            "storageClassName": "late",
            "capacity": {"storage": "1Gi"},
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
MORE = {
    "DynamicResources": {"objects": DEVICES, "pods": [USES_CLAIM]},
    "NodeDeclaredFeatures": {"objects": [DECLARES], "pods": [USER_NAMESPACE]},
    # Pods that wait have no node, but for those that somebody made so.
    "NodeName": {"pods": [make_pod("waiting", node="n0"), make_pod("waiting", node="elsewhere")]},
    # As upstream, it does not look at the anti-affinity of pods that are there when a node changes its labels, nor at
    # namespace selectors when pods do; the flush of pods that have waited for five minutes makes up for it.
    "InterPodAffinity": {"skip": ["events"]},
    # As upstream, which does not look again when the node goes that the user of a claim is on.
    "VolumeRestrictions": {
        "skip": ["events"],
        "objects": [
            make_pod("user", node="n0", spec={"volumes": [DISK, using("exclusive")]}),
            claim("exclusive", accessModes=["ReadWriteOncePod"]),
            claim("data"),
        ],
        "pods": [make_pod("waiting", spec={"volumes": volumes}) for volumes in ([DISK], [using("exclusive")])],
    },
    # As upstream, which does not look again when a volume goes that would have counted.
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
    # Scores only with a shape, which the feature gate StorageCapacityScoring would have to allow.
    "VolumeBinding": {"skip": ["exercise"], "objects": BOUND, "pods": WAITING},
    "VolumeZone": {"objects": BOUND, "pods": WAITING},
}


@pytest.mark.parametrize("entry", IN_TREE, ids=lambda entry: entry.name)
def test_every_plugin_of_ours_keeps_the_contract(entry):
    check_contract(entry.factory, **MORE.get(entry.name, {}))


@pytest.mark.parametrize(("plugin", "check", "told"), [pytest.param(*each, id=each[0].name) for each in BROKEN])
def test_a_broken_plugin_is_told_what_it_breaks(plugin, check, told):
    with pytest.raises(BrokenContract) as caught:
        check_contract(plugin)
    error = caught.value
    assert (error.plugin, error.check) == (plugin.name, check)
    assert told in str(error)
    assert str(error).startswith(f"plugin {plugin.name!r} fails the check {check!r}: {CHECKS[check]}\n")


def test_every_check_has_a_plugin_that_fails_it():
    assert {check for _, check, _ in BROKEN} == set(CHECKS)


@pytest.mark.parametrize("arguments", [None, {"tier": "batch"}])
def test_a_good_plugin_passes_whatever_its_arguments(arguments):
    check_contract(Patient, arguments)


def test_arguments_that_cannot_be_are_told():
    with pytest.raises(BrokenContract, match=r"registration.*\n.*colour"):
        check_contract(Patient, {"colour": "red"})


def test_the_example_is_small():
    with pytest.raises(BrokenContract) as caught:
        check_contract(SignsTooLittle)
    assert [kind.kind for kind, _ in caught.value.example.objects] == ["Node"]
    assert set(caught.value.example.pod["spec"]) <= {"containers", "schedulerName"}


def test_the_same_seed_finds_the_same():
    told = set()
    for _ in range(2):
        with pytest.raises(BrokenContract) as caught:
            check_contract(RestsOnMore, seed=3)
        told.add(str(caught.value))
    assert len(told) == 1


def test_checks_can_be_chosen():
    check_contract(chance, skip=["repeatable", "inputs", "forms"])
    check_contract(SignsTooLittle, only=["answers", "inputs"])
    with pytest.raises(ValueError, match=r"no such check: sings; there are registration, answers, .*reuse"):
        check_contract(AnswersTrue, only=["sings"])


def test_objects_and_pods_of_the_caller_take_part():
    seen = set()

    class Looks(AnswersTrue):
        name = "looks"

        def filter(self, cycle, pod, node):
            seen.update({pod.name, node.name, *(other.name for other in node.pods)})
            return "big" if node.allocatable_of("example.com/fpga") else None

    mine = [make_node("mine", resources={"example.com/fpga": "1"}), make_pod("there", node="mine")]
    check_contract(Looks, objects=mine, pods=[make_pod("vip", priority=7)])
    assert {"mine", "there", "vip", "waiting"} <= seen
    with pytest.raises(TypeError, match="expected a pod"):
        check_contract(Looks, objects=["nodes"])


def test_words_are_those_of_the_code_and_of_the_arguments():
    words = words_of(Patient, {"tier": "gold"})
    assert words[0] == "tier"
    assert {"gold", "example.com/tier"} <= set(words)
    assert "patient" not in words

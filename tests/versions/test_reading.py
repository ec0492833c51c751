"""`--feature-gates`, `--emulated-version`, and what API servers say of their version."""

import pytest
from tests.support.tables import cases

from bayplan.core.versions import emulated_version, read_gates, version_followed, version_text

GATES = {
    "nothing": ("1.36", "", {}),
    "on": ("1.36", "StorageCapacityScoring=true", {"StorageCapacityScoring": True}),
    "off by default there": ("1.37", "StorageCapacityScoring=false", {"StorageCapacityScoring": False}),
    "the default": ("1.37", "StorageCapacityScoring=true", {}),
    "the last value": ("1.36", "VolumeLimitScaling=true,kube:VolumeLimitScaling=false", {}),
    "of another component": ("1.36", "KubeletTracing=true", {}),
    "all beta": ("1.36", "AllBeta=true", {"DRADeviceTaintRules": True, "SchedulerAsyncAPICalls": True}),
    "all beta but one": ("1.36", "DRADeviceTaintRules=false,AllBeta=true", {"SchedulerAsyncAPICalls": True}),
    "no alpha": ("1.36", "AllAlpha=false", {}),
    "gangs as in 1.36": (
        "1.36",
        "GenericWorkload=true,GangScheduling=true",
        {"GangScheduling": True, "GenericWorkload": True},
    ),
    "gangs as in 1.37": ("1.37", "GenericWorkload=true", {"GenericWorkload": True}),
}


@cases("version, text, chosen", GATES)
def test_gates(version, text, chosen):
    read = read_gates([text], version)
    assert (read.problems, read.gates.chosen) == ([], chosen)


PROBLEMS = {
    "unknown": (
        "1.36",
        "StorageCapacityScorin=true",
        "unknown feature gate 'StorageCapacityScorin': did you mean 'StorageCapacityScoring'?",
    ),
    "of the next version": (
        "1.36",
        "CompositePodGroup=true",
        "CompositePodGroup: Kubernetes 1.36 doesn't have this gate, 1.37 does",
    ),
    "of the version before": (
        "1.37",
        "GangScheduling=true",
        "GangScheduling: Kubernetes 1.37 doesn't have this gate, 1.36 does",
    ),
    "locked": ("1.36", "DRAAdminAccess=false", "DRAAdminAccess=false: this gate is locked to true in Kubernetes 1.36"),
    "not supported": (
        "1.37",
        "DRAOptionalNodeOperations=true",
        "DRAOptionalNodeOperations=true: not supported: Bayplan doesn't copy this field to allocations",
    ),
    "no value": ("1.36", "VolumeLimitScaling", "VolumeLimitScaling: expected true or false, got ''"),
    "needs another": ("1.36", "GangScheduling=true", "GangScheduling=true: requires GenericWorkload=true"),
    "is needed": (
        "1.36",
        "NodeDeclaredFeatures=false",
        "NodeDeclaredFeatures=false: requires InPlacePodLevelResourcesVerticalScaling=false, which needs it",
    ),
    "not all alpha": (
        "1.37",
        "AllAlpha=true,AllBeta=true",
        (
            "AllAlpha=true: Bayplan can't switch all of them: add DRAOptionalNodeOperations=false, or name the gates "
            "that you need"
        ),
    ),
}


@cases("version, text, problem", PROBLEMS)
def test_problems_with_gates(version, text, problem):
    assert read_gates([text], version).problems == [problem]


@cases("text, version", {"plain": ("1.37", "1.37"), "tag": ("v1.36", "1.36"), "component": ("kube=1.37", "1.37")})
def test_emulated_versions(text, version):
    assert emulated_version(text) == version


@cases(
    "text, problem",
    {
        "old": ("1.30", "unknown version '1.30': expected one of 1.36, 1.37"),
        "patch": ("1.37.2", "unknown version '1.37.2': did you mean '1.37'?"),
        "odd": ("latest", "unknown version 'latest': expected one of 1.36, 1.37"),
    },
)
def test_unread_versions(text, problem):
    with pytest.raises(ValueError, match="unknown version") as caught:
        emulated_version(text)
    assert str(caught.value) == problem


OLDER = "the cluster has Kubernetes 1.33: Bayplan decides as 1.36, the oldest it knows"
NEWER = "the cluster has Kubernetes 1.41: Bayplan decides as 1.37, the newest it knows"
NOTHING = "the API server doesn't say which version it has: Kubernetes 1.36 is assumed"
SERVERS = {
    "plain": ({"major": "1", "minor": "37", "gitVersion": "v1.37.2"}, "1.37", ""),
    "a vendor's": ({"major": "1", "minor": "36+", "gitVersion": "v1.36.2-eks-abc"}, "1.36", ""),
    "another vendor's": ({"gitVersion": "v1.37.1+k3s1"}, "1.37", ""),
    "GKE's": ({"gitVersion": "v1.37.0-gke.1000", "minor": "37"}, "1.37", ""),
    "only a minor version": ({"major": "1", "minor": "37+"}, "1.37", ""),
    "no tag": ({"major": "1", "minor": "37", "gitVersion": ""}, "1.37", ""),
    "alpha of the next": ({"gitVersion": "v1.41.0-alpha.1"}, "1.37", NEWER),
    "old": ({"gitVersion": "v1.33.9"}, "1.36", OLDER),
    "very new": (
        {"gitVersion": "v2.0.0"},
        "1.37",
        "the cluster has Kubernetes 2.0: Bayplan decides as 1.37, the newest it knows",
    ),
    "empty": ({}, "1.36", NOTHING),
    "empty fields": ({"major": "", "minor": "", "gitVersion": None}, "1.36", NOTHING),
    "odd types": ({"major": [1], "minor": {}, "gitVersion": 5}, "1.36", NOTHING),
    "no object": ("v1.37.2", "1.36", NOTHING),
    "null": (None, "1.36", NOTHING),
    "no number": ({"gitVersion": "master"}, "1.36", NOTHING),
}


@cases("info, version, note", SERVERS)
def test_the_version_of_a_server(info, version, note):
    found = version_followed(version_text(info))
    assert (found.version, found.note) == (version, note)

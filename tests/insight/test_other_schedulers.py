"""Without a configuration, a question says what it sees of schedulers with other plugins."""

import json

import pytest
from bayplan_documents import document
from click.testing import CliRunner
from tests.support.commands import bayplan

from bayplan.answers.insight.other_schedulers import unknown_schedulers
from bayplan.faces.cli import main
from bayplan.insight import Snapshot

SERVED = ("default-scheduler", "bayplan-scheduler")


def pod(name="p", message="", node="", scheduler="default-scheduler", **labels):
    spec = {"containers": [{"name": "c", "image": "i"}], "schedulerName": scheduler}
    found = document("Pod", name, spec=spec | ({"nodeName": node} if node else {}))
    found["metadata"]["labels"] = labels
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    return found | {"status": {"conditions": [condition]}}


def group(api_version, **spec):
    return {
        "apiVersion": api_version,
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "default"},
        "spec": spec,
    }


NEEDS_COSCHEDULING = (
    "in PodGroups of the scheduler-plugins project (kubernetes-sigs), which the default plugins don't place together: "
    "pass --config with a configuration that enables Coscheduling, as docs/gangs.md shows"
)
LABEL = {"scheduling.x-k8s.io/pod-group": "g"}


TOPOLOGY = (
    "there are PodGroups with schedulingConstraints, which the default plugins ignore: pass --config with a "
    "configuration that enables TopologyPlacementGenerator and PodGroupPodsCount"
)
VOLCANO = (
    "2 pods are pending for the scheduler volcano, which isn't served here: pass --scheduler-name volcano, and "
    "--config with its configuration if it has one"
)
WITH_SPACES = (
    "1 pod is pending for the scheduler mine // a comment, which isn't served here: pass --scheduler-name "
    "'mine // a comment', and --config with its configuration if it has one"
)
SEVERAL = (
    "2 pods are pending for the schedulers kai, volcano, which aren't served here: pass --scheduler-name kai "
    "--scheduler-name volcano, and --config with their configurations if they have some"
)
TYPING_ERROR = (
    "1 pod is pending for the scheduler default-schedular, which isn't served here: did you mean 'default-scheduler'?"
)
MESSAGE = "1 pod is pending with a message of the plugin"
UNKNOWN = "which isn't known here: pass --plugin FILE if you have it in Python"
QUOTA = "Pod a/b is rejected in PreFilter because ElasticQuota q is more than Max"
OURS, THEIRS = "scheduling.k8s.io/v1alpha2", "scheduling.x-k8s.io/v1alpha1"
CASES = {
    "the default scheduler": ([pod(message="0/1 nodes are available: 1 Insufficient cpu.")], []),
    "a name for which a shell needs quotes": ([pod(scheduler="mine // a comment")], [WITH_SPACES]),
    "a label": ([pod(**LABEL), pod("q", node="n", **LABEL)], [f"2 pods are {NEEDS_COSCHEDULING}"]),
    "another label": ([pod(**{"pod-group.scheduling.sigs.k8s.io/name": "g"})], [f"1 pod is {NEEDS_COSCHEDULING}"]),
    "an object": (
        [group(THEIRS, minMember=2)],
        [f"there are PodGroups{NEEDS_COSCHEDULING.removeprefix('in PodGroups')}"],
    ),
    "Kubernetes' own": ([group(OURS, schedulingPolicy={"gang": {"minCount": 2}})], []),
    "Kubernetes' own with a topology": (
        [group(OURS, schedulingConstraints={"topology": [{"key": "zone"}]})],
        [TOPOLOGY],
    ),
    "a plugin that failed": (
        [pod(message='running "Coscheduling" filter plugin: oops')],
        [f"{MESSAGE} Coscheduling: pass --config with a configuration that enables it"],
    ),
    "a timeout of Permit": (
        [pod(message="rejected due to timeout after waiting 1m0s at plugin Mine")],
        [f"{MESSAGE} Mine, {UNKNOWN}"],
    ),
    "a quota": (
        [pod(message=QUOTA)],
        [f"{MESSAGE} CapacityScheduling: pass --config with a configuration that enables it"],
    ),
    "a default plugin": ([pod(message='running PreBind plugin "VolumeBinding": no'), pod("q", QUOTA, node="n")], []),
    "another name": (
        [pod("a", scheduler="volcano"), pod("b", scheduler="volcano"), pod("c", node="n", scheduler="kai")],
        [VOLCANO],
    ),
    "several names": ([pod("a", scheduler="volcano"), pod("b", scheduler="kai")], [SEVERAL]),
    "a typing error": (
        [pod("a", scheduler="default-schedular"), pod("b", scheduler="volcano"), pod("c", scheduler="volcano")],
        [TYPING_ERROR, VOLCANO],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_what_a_snapshot_tells(case):
    objects, lines = CASES[case]
    assert list(unknown_schedulers(Snapshot.of(objects), SERVED)) == lines


NODE = document("Node", "n", namespace="", status={"allocatable": {"cpu": "4", "pods": "10"}})


@pytest.fixture
def dump(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    items = [NODE, pod(scheduler="my-scheduler")]
    (tmp_path / "dump.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    (tmp_path / "one.yaml").write_text(head)
    (tmp_path / "two.yaml").write_text(f"{head}profiles: [{{schedulerName: a}}, {{schedulerName: b}}]\n")


def explained(*arguments):
    return CliRunner().invoke(main, ["explain", "p", "--from", "dump.json", *arguments], prog_name="bayplan")


@pytest.mark.usefixtures("dump")
def test_a_scheduler_is_named_by_an_option():
    without = explained()
    assert "warning: 1 pod is pending for the scheduler my-scheduler" in without.stderr
    assert "no scheduler here has the pod's schedulerName" in without.stdout
    for options in ([], ["--config", "one.yaml"]):
        done = explained("--scheduler-name", "my-scheduler", *options)
        assert (done.exit_code, done.stderr) == (0, "")
        assert "no scheduler here" not in done.stdout
    done = explained("--scheduler-name", "my-scheduler", "--config", "two.yaml")
    assert done.stderr == (
        "bayplan explain: --scheduler-name: two.yaml has 2 profiles (a, b): "
        "set profiles[].schedulerName there instead\n"
    )


def test_a_missing_kubeconfig_says_how_to_begin(monkeypatch, tmp_path):
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    done = bayplan("explain", "p", status=2, prog_name="bayplan")
    (line,) = done.stderr.splitlines()
    assert all(word in line for word in ("no kubeconfig", "--kubeconfig", "--from", "`bayplan cluster`"))

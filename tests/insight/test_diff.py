"""diff: two snapshots, and two schedulers on one."""

import json

import pytest
from bayplan_documents import document, node, pod, workload
from click.testing import CliRunner
from tests.support.tables import cases

from bayplan.core.config import Catalog, KubeSchedulerConfiguration
from bayplan.core.config.profiles import profile_of_all
from bayplan.faces.cli import main
from bayplan.insight import Insight, Snapshot

YESTERDAY = (
    node("a1"),
    node("a2"),
    workload("ReplicaSet", "web", 2),
    pod("web-0", "a1", owner=("ReplicaSet", "web")),
    pod("web-1", "a2", owner=("ReplicaSet", "web")),
    pod("big", cpu="6"),
    pod("soon", cpu="500m"),
)


def today():
    changed = node("a1", cpu="8", unschedulable=True, taints=[{"key": "gpu", "value": "yes", "effect": "NoSchedule"}])
    changed["metadata"]["labels"]["disk"] = "ssd"
    return (changed, node("b1", cpu="2"), pod("web-0", "a1", owner=("ReplicaSet", "web")), pod("big", cpu="6"))


def compared(a, b):
    return Insight(Snapshot.of(a)).diff(Insight(Snapshot.of(b)))


def test_diff_returns_the_nodes_that_change():
    answer = compared(YESTERDAY, today())

    assert [(each.node, each.change, each.details) for each in answer.nodes] == [
        ("a1", "changed", ("cordoned", "cpu 4 -> 8", "taint gpu=yes:NoSchedule added", "label disk=ssd added")),
        ("a2", "removed", ()),
        ("b1", "added", ("2 cpu, 8Gi memory",)),
    ]


def test_diff_returns_the_pods_that_change_and_why():
    pods = {each.pod: each for each in compared(YESTERDAY, today()).pods}

    assert {key: change.states for key, change in pods.items()} == {
        "default/web-1": ("placed", "absent"),
        "default/big": ("pending", "pending"),
        "default/soon": ("placed", "absent"),
    }
    assert "2 Insufficient cpu" in pods["default/big"].before.message
    assert "1 Insufficient cpu, 1 node(s) were unschedulable" in pods["default/big"].after.message


def test_diff_of_equal_snapshots_is_empty():
    answer = compared(YESTERDAY, YESTERDAY)

    assert (answer.nodes, answer.pods) == ((), ())
    assert "no pod changes" in answer.text()


def test_diff_of_configurations_returns_what_the_other_scheduler_does():
    profile = profile_of_all("other-scheduler", Catalog(()))
    snapshot = Snapshot.of(YESTERDAY)

    answer = Insight(snapshot).diff(Insight(snapshot, KubeSchedulerConfiguration(profiles=[profile])))

    assert {each.pod: each.states for each in answer.pods} == {
        "default/soon": ("placed", "pending"),
        "default/big": ("pending", "pending"),
    }


def run(*arguments):
    return CliRunner().invoke(main, ["diff", *map(str, arguments)])


@pytest.fixture
def files(tmp_path):
    for name, objects in (("a", YESTERDAY), ("b", today())):
        (tmp_path / f"{name}.json").write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": objects}))
    config = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    (tmp_path / "config.yaml").write_text(config)
    return tmp_path


def test_diff_command_compares_files(files):
    a, b = files / "a.json", files / "b.json"

    result = run(a, b, "--output", "json")

    found = json.loads(result.stdout)
    assert (found["a"], found["b"]) == (str(a), str(b))
    assert [each["node"] for each in found["nodes"]] == ["a1", "a2", "b1"]
    assert run(a, b, "--config", files / "config.yaml").exit_code == 0


def test_diff_command_compares_a_file_with_the_cluster(files):
    result = run(files / "a.json", "--from", files / "b.json", "--output", "json")

    found = json.loads(result.stdout)
    assert (found["b"], len(found["nodes"])) == (str(files / "b.json"), 3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--from", "b.json"], "expected two snapshots, or configurations"),
        (["a.json", "b.json", "--from", "a.json"], "expected only one of them"),
        (["a.json", "nothing.json"], "nothing.json"),
        (["--from", "a.json", *["--config", "config.yaml"] * 3], "expected at most two configurations, got 3"),
    ],
)
def test_diff_command_rejects_bad_input(files, monkeypatch, arguments, message):
    monkeypatch.chdir(files)

    result = run(*arguments)

    assert (result.exit_code, "Traceback" in result.output) == (2, False)
    assert message in result.stderr


def budget(name, allowed):
    status = {"disruptionsAllowed": allowed}
    return document("PodDisruptionBudget", name, "policy/v1", spec={"minAvailable": 1, "selector": {}}, status=status)


def quota(name, hard, used):
    return document("ResourceQuota", name, spec={"hard": hard}, status={"used": used})


def selecting(kind, name, replicas):
    found = workload(kind, name, replicas)
    found["spec"]["template"]["spec"]["nodeSelector"] = {"disk": "ssd"}
    return found


def controlled(found):
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "web", "controller": True}
    found["metadata"]["ownerReferences"] = [owner]
    return found


@cases(
    "before, after, expected",
    {
        "scaled": (
            [workload("Deployment", "web", 3)],
            [workload("Deployment", "web", 7)],
            ("scaled", "replicas 3 -> 7"),
        ),
        "another template": (
            [workload("StatefulSet", "db", 1)],
            [selecting("StatefulSet", "db", 1)],
            ("changed", "nodeSelector of the pods changed"),
        ),
        "new workload": ([], [workload("Deployment", "web", 3)], ("added", "replicas 3")),
        "removed workload": ([workload("Deployment", "web", 3)], [], ("removed", "replicas 3")),
        "budget": ([budget("web", 2)], [budget("web", 0)], ("changed", "disruptionsAllowed 2 -> 0")),
        "quota": (
            [quota("team", {"pods": "9"}, {"pods": "3"})],
            [quota("team", {"pods": "4"}, {"pods": "4"})],
            ("changed", "hard pods 9 -> 4; used pods 3 -> 4"),
        ),
        "replica set of a deployment": (
            [controlled(workload("ReplicaSet", "web-1", 3))],
            [controlled(workload("ReplicaSet", "web-1", 7))],
            None,
        ),
        "another version": (
            [budget("web", 2)],
            [{**budget("web", 2), "metadata": {"name": "web", "resourceVersion": "2"}}],
            None,
        ),
    },
)
def test_diff_knows_workloads_budgets_and_quotas(before, after, expected):
    answer = compared([node("a1"), *before], [node("a1"), *after])

    found = [(each.change, "; ".join(each.details)) for each in answer.objects]
    assert found == ([] if expected is None else [expected])
    assert len(answer.to_dict()["objects"]) == len(found)
    for change in answer.objects:
        assert change.object in answer.text()


def test_many_pods_of_a_workload_are_summed_up():
    web = [pod(f"web-{number}", "a1", cpu="100m", owner=("ReplicaSet", "web")) for number in range(30)]
    api = [pod(f"api-{number}", cpu="900m", owner=("ReplicaSet", "api")) for number in range(4)]

    answer = compared([node("a1"), *web, *api, pod("lone")], [node("a1"), *web[:3], *api, pod("lone", "a1", "100m")])

    changes = {change.workload: (change.before, change.after) for change in answer.workloads}
    assert changes == {
        "replicaset default/web": ({"placed": 30, "pending": 0}, {"placed": 3, "pending": 0}),
        "replicaset default/api": ({"placed": 1, "pending": 3}, {"placed": 4, "pending": 0}),
    }
    assert "replicaset default/web 30 -> 3 0 27 gone" in " ".join(answer.text().split())


def test_all_pods_are_listed_in_a_wide_answer():
    web = [pod(f"web-{number}", "a1", cpu="100m", owner=("ReplicaSet", "web")) for number in range(30)]

    answer = compared([node("a1"), *web], [node("a1")])

    assert "web-29" not in answer.text()
    assert "web-29" in answer.text(wide=True)

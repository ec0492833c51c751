"""what-if: every sort of change, and that reality follows the answer."""

import pytest
from bayplan_documents import node, pod, workload
from real_runs import FirstChoice, really
from small_clusters import Maker

from bayplan.core.config import Catalog, KubeSchedulerConfiguration
from bayplan.core.config.profiles import profile_of_all
from bayplan.insight import Changes, Insight, QuestionError, Snapshot

CLUSTER = (
    node("a1"),
    node("a2", unschedulable=True),
    workload("ReplicaSet", "web", 2),
    pod("web-0", "a1", owner=("ReplicaSet", "web")),
    pod("web-1", "a1", owner=("ReplicaSet", "web")),
    workload("StatefulSet", "db", 1, serviceName="db"),
    pod("db-0", "a1", owner=("StatefulSet", "db")),
    pod("agent-a1", "a1", cpu="100m", owner=("DaemonSet", "agent"), tolerations=[{"operator": "Exists"}]),
    pod("bare", "a1", cpu="500m"),
    pod("waits", cpu="2"),
)


def ask(*objects, **changes):
    return Insight(Snapshot.of(objects or CLUSTER)).what_if(Changes(**changes))


def changed(answer):
    """The nodes or states before and after, by name; without pods that stay pending."""
    return {
        name_of(change.pod): (change.before.node or change.before.state, change.after.node or change.after.state)
        for change in answer.pods
        if change.states != ("pending", "pending")
    }


def name_of(key):
    return key.partition("/")[2]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"uncordon": ["a2"]}, {"waits": ("pending", "a2")}),
        ({"uncordon": ["pool=a"]}, {"waits": ("pending", "a2")}),
        ({"add_nodes": ["like:a1"]}, {"waits": ("pending", "a1-new-1"), "agent-a1-a1-new-1": ("absent", "a1-new-1")}),
        ({"delete_pods": ["bare"]}, {"bare": ("a1", "absent")}),
        ({"delete_pods": ["default/bare", "pod/web-0"]}, {"bare": ("a1", "absent")}),
        ({"scale": ["replicaset/web=1"]}, {"web-0": ("a1", "absent")}),
        ({"scale": ["rs/web=0"]}, {"web-0": ("a1", "absent"), "web-1": ("a1", "absent"), "waits": ("pending", "a1")}),
        ({"scale": ["sts/db=0"]}, {"db-0": ("a1", "absent")}),
        ({"scale": ["sts/db=2"]}, {"db-1": ("absent", "pending")}),
        ({"objects": [pod("new", cpu="300m")]}, {"new": ("absent", "a1")}),
        ({"objects": [node("b1")]}, {"waits": ("pending", "b1")}),
        ({"labels": [("a1", "disk=ssd"), ("a1", "pool-")]}, {}),
        ({"taints": [("a1", "gpu=yes:NoSchedule")]}, {}),
        (
            {"taints": [("a1", "gpu=yes:NoExecute")]},
            {
                "web-0": ("a1", "pending"),
                "web-1": ("a1", "pending"),
                "db-0": ("a1", "pending"),
                "bare": ("a1", "absent"),
            },
        ),
        ({"taints": [("a1", "gpu:NoExecute"), ("a1", "gpu-")], "uncordon": ["a2"]}, None),
        ({"cordon": ["a1"], "delete_pods": ["web-0"]}, {"web-0": ("a1", "pending")}),
        (
            {"remove_nodes": ["a1"], "uncordon": ["a2"]},
            {
                "waits": ("pending", "a2"),
                "web-0": ("a1", "a2"),
                "web-1": ("a1", "pending"),
                "db-0": ("a1", "a2"),
                "bare": ("a1", "absent"),
                "agent-a1": ("a1", "absent"),
            },
        ),
    ],
    ids=str,
)
def test_what_if_returns_the_pods_that_change(changes, expected):
    answer = ask(**changes)

    if expected is not None:
        assert changed(answer) == expected
    assert answer.steps


def test_what_if_scales_a_deployment_by_its_newest_replica_set():
    replica_sets = []
    for revision, cpu in (("1", "4"), ("2", "500m")):
        replica_set = workload("ReplicaSet", f"web-{revision}", 0)
        replica_set["metadata"]["annotations"] = {"deployment.kubernetes.io/revision": revision}
        owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "web", "controller": True}
        replica_set["metadata"]["ownerReferences"] = [owner]
        replica_set["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = cpu
        replica_sets.append(replica_set)

    answer = ask(node("a1"), workload("Deployment", "web", 0), *replica_sets, scale=["deployment/web=3"])

    assert [change.states for change in answer.pods] == [("absent", "placed")] * 3
    assert next(usage.requested for usage in answer.after if usage.resource == "cpu") == 1500


def test_pods_of_several_workloads_are_all_there():
    workloads = [workload("ReplicaSet", name, 0) for name in "xy"]
    answer = ask(node("a1", "20"), *workloads, scale=["rs/x=2", "rs/y=2"], objects=[workload("ReplicaSet", "z", 2)])

    assert [change.states for change in answer.pods] == [("absent", "placed")] * 6


def test_what_if_compares_configurations():
    profile = profile_of_all("other-scheduler", Catalog(()))
    answer = Insight(Snapshot.of(CLUSTER)).what_if(configuration=KubeSchedulerConfiguration(profiles=[profile]))

    assert {change.after.message for change in answer.pods} == {"no scheduler here has the name 'default-scheduler'"}


def test_what_if_leaves_the_snapshot_as_it_was():
    insight = Insight(Snapshot.of(CLUSTER))

    first = insight.what_if(Changes(remove_nodes=["a1"], uncordon=["a2"]))

    assert insight.what_if(Changes(remove_nodes=["a1"], uncordon=["a2"])) == first
    assert insight.explain("default/web-0").node == "a1"


def test_what_if_starts_with_the_sentence_that_sums_it_up():
    lines = ask(uncordon=["a2"]).text().splitlines()

    assert lines[:2] == ["1 pod from pending to placed", "if you uncordon a2"]


def test_removed_siblings_do_not_hide_the_pods_that_are_placed():
    web = [pod(f"web-{number:03}", "a1", cpu="7m", owner=("ReplicaSet", "web")) for number in range(500)]
    api = [pod(f"api-{number}", cpu="150m", owner=("ReplicaSet", "api")) for number in range(20)]

    answer = ask(node("a1"), workload("ReplicaSet", "web", 500), *web, *api, scale=["rs/web=0"])

    first, *others = [line for line in answer.text().splitlines() if line.startswith("replicaset")]
    assert first.split("  ")[0] == "replicaset default/api"
    assert "20 from pending to placed on a1" in first
    assert len(others) == 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"remove_nodes": ["a"]}, "there is no node a; there is a1, a2"),
        ({"cordon": ["pool=zz"]}, "no node has the labels pool=zz"),
        ({"cordon": ["pool in"]}, "expected a node or a label selector"),
        ({"add_nodes": ["3a1"]}, "3xlike:node-a"),
        ({"add_nodes": ["like:b"]}, "there is no node b"),
        ({"labels": [("a1", "disk")]}, "expected KEY=VALUE, or KEY- to remove"),
        ({"labels": [("a1", "a b=c")]}, "name part must consist of"),
        ({"taints": [("a1", "x=y:Never")]}, "NoSchedule, PreferNoSchedule, NoExecute"),
        ({"scale": ["web=3"]}, "deployment/web=40"),
        ({"scale": ["job/web=3"]}, "deployment/web=40"),
        ({"scale": ["deployment/web=3"]}, "there is no deployment default/web; there is replicaset default/web"),
        ({"delete_pods": ["missing"]}, "there is no pod default/missing"),
        ({"objects": [pod("waits")]}, "pod updates may not change fields other than"),
    ],
    ids=str,
)
def test_impossible_change_is_an_error(changes, message):
    with pytest.raises(QuestionError, match=message):
        ask(**changes)


@pytest.mark.parametrize("seed", range(300, 320))
def test_what_if_foretells_what_the_scheduler_does(seed):
    make = Maker(seed)
    cluster = [*make.cluster(), *(make.pod(f"new-{number}") for number in range(3))]
    for each in cluster:
        for name in ("priority", "priorityClassName"):  # what pods do during a preemption is a matter of time
            each.get("spec", {}).pop(name, None)
    gone = make.rng.choice([each["metadata"]["name"] for each in cluster if each["kind"] == "Node"])
    insight = Insight(Snapshot.of(cluster))
    insight.world.rng = FirstChoice()

    answer = insight.what_if(Changes(remove_nodes=[gone]))

    before, _ = really(cluster)
    left = [each for each in cluster if gone not in {each["metadata"]["name"], each.get("spec", {}).get("nodeName")}]
    after, _ = really(left)
    foretold = {name_of(change.pod): (change.before.node, change.after.node) for change in answer.pods}
    assert foretold == {name: (before.get(name), after.get(name)) for name in foretold}
    assert {name for name in before if before[name] != after.get(name)} <= foretold.keys()


def test_pod_that_is_no_longer_preempted_is_not_new():
    cluster = (node("a1", cpu="2"), pod("bare", "a1", cpu="1"), pod("urgent", cpu="2", priority=10))
    answer = ask(*cluster, add_nodes=["like:a1"])
    (bare,) = [change for change in answer.pods if change.pod == "default/bare"]
    assert bare.before.message == "preempted by pod default/urgent"
    assert bare.states == ("absent", "placed")
    assert answer.to_dict()["summary"] == "1 pod on another node, 1 no longer evicted"
    assert ["default/bare", "evicted", "a1"] in [line.split() for line in str(answer).splitlines()]

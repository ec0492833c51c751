"""Where the pods of drained nodes go, and what keeps nodes from being drained."""

import pytest
from bayplan_documents import workload
from small_manifests import budget, node, pod
from tests.support.documents import of_kind
from tests.support.tables import cases

from bayplan.insight import Insight, QuestionError, Snapshot, Stopped

SCRATCH = {"volumes": [{"name": "scratch", "emptyDir": {}}]}
MIRROR = {"kubernetes.io/config.mirror": "x"}


def ask(objects, *names, **options):
    return Insight(Snapshot.of(objects)).drain(names, **options)


def outcomes(answer):
    return {each.pod.partition("/")[2]: (each.outcome, each.node) for each in answer.pods}


def test_pods_of_controllers_move():
    answer = ask([node("a"), node("b"), pod("web-1", "a"), pod("web-2", "a")], "a")

    assert answer.drains
    assert outcomes(answer) == {"web-1": ("placed", "b"), "web-2": ("placed", "b")}


def test_pods_do_not_move_to_other_nodes_that_are_drained():
    answer = ask([node("a"), node("b"), node("c", "1"), pod("web-1", "a"), pod("web-2", "b")], "a", "b")

    assert outcomes(answer) == {"web-1": ("placed", "c"), "web-2": ("pending", None)}
    assert not answer.drains
    assert answer.pods[1].message.startswith(
        "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) were unschedulable."
    )


@cases(
    "kept, flag, error, warning",
    {
        "daemon set": (
            pod("log-1", "a", owner="DaemonSet"),
            "ignore_daemonsets",
            "cannot delete DaemonSet-managed Pods (use --ignore-daemonsets to ignore): default/log-1",
            "ignoring DaemonSet-managed Pods: default/log-1",
        ),
        "local storage": (
            pod("cache-1", "a", **SCRATCH),
            "delete_emptydir_data",
            "cannot delete Pods with local storage (use --delete-emptydir-data to override): default/cache-1",
            "deleting Pods with local storage: default/cache-1",
        ),
        "bare pod": (
            pod("bare", "a", owner=""),
            "force",
            "cannot delete cannot delete Pods that declare no controller (use --force to override): default/bare",
            "deleting Pods that declare no controller: default/bare",
        ),
    },
)
def test_flags_and_messages_are_those_of_kubectl(kept, flag, error, warning):
    objects = [node("a"), node("b"), pod("web-1", "a"), kept]

    refused, drained = ask(objects, "a"), ask(objects, "a", **{flag: True})

    assert (refused.nodes[0].outcome, refused.nodes[0].errors) == ("refused", (error,))
    assert refused.pods == ()
    assert (drained.nodes[0].outcome, drained.nodes[0].warnings) == ("drained", (warning,))
    assert outcomes(drained)["web-1"] == ("placed", "b")


def test_bare_pods_are_lost_and_local_data_is_named():
    answer = ask(
        [node("a"), node("b"), pod("bare", "a", owner=""), pod("cache-1", "a", **SCRATCH)],
        "a",
        force=True,
        delete_emptydir_data=True,
    )

    assert outcomes(answer) == {"bare": ("deleted", None), "cache-1": ("placed", "b")}
    assert answer.local_storage == ("default/cache-1",)


def test_static_pods_stay():
    answer = ask([node("a"), pod("proxy-a", "a", owner="", annotations=MIRROR)], "a")

    assert answer.drains
    assert (answer.pods, answer.nodes[0].static) == ((), ("default/proxy-a",))


def test_pods_of_a_missing_daemon_set_need_force():
    other = workload("DaemonSet", "other", 1)
    objects = [node("a"), other, pod("log-1", "a", owner="DaemonSet")]

    refused = ask(objects, "a", ignore_daemonsets=True)

    assert refused.nodes[0].errors == ('cannot delete daemonsets.apps "log" not found: default/log-1',)
    assert ask(objects, "a", ignore_daemonsets=True, force=True).nodes[0].outcome == "drained"


def test_a_budget_lets_the_next_pod_go_when_the_first_is_replaced():
    pods = [pod("web-1", "a"), pod("web-2", "a"), budget("web", 1)]

    moved, stuck = ask([node("a"), node("b"), *pods], "a"), ask([node("a"), node("b", "1"), *pods], "a")

    assert outcomes(moved) == {"web-1": ("placed", "b"), "web-2": ("placed", "b")}
    assert (moved.budgets[0].allowed, moved.budgets[0].blocked) == (1, ())
    assert outcomes(stuck) == {"web-1": ("placed", "b"), "web-2": ("pending", None)}


@cases("selector", {"of the app": {"matchLabels": {"app": "web"}}, "of all pods": {}})
def test_a_budget_counts_a_pod_that_was_evicted_and_has_no_node(selector):
    pods = [pod("web-1", "a"), pod("web-2", "a"), budget("web", 1, selector=selector)]

    answer = ask([node("a"), node("b", "100m"), *pods], "a")

    assert outcomes(answer) == {"web-1": ("pending", None), "web-2": ("blocked", None)}


def test_a_budget_without_disruptions_blocks():
    answer = ask([node("a"), node("b"), pod("web-1", "a"), budget("web", 0, healthy=1)], "a")

    assert outcomes(answer) == {"web-1": ("blocked", None)}
    assert answer.nodes[0].outcome == "blocked"
    assert answer.budgets[0].blocked == ("default/web-1",)
    assert answer.pods[0].message == (
        "Cannot evict pod as it would violate the pod's disruption budget. "
        "The disruption budget web needs 1 healthy pods and has 1 currently"
    )


@cases("policy, outcome", {"always": ("AlwaysAllow", "placed"), "if healthy": ("IfHealthyBudget", "blocked")})
def test_unhealthy_pods_may_go_by_the_budgets_policy(policy, outcome):
    rule = budget("web", 0, healthy=0, unhealthyPodEvictionPolicy=policy)

    answer = ask([node("a"), node("b"), pod("web-1", "a", ready=False), rule], "a")

    assert outcomes(answer)["web-1"][0] == outcome


def test_several_budgets_of_a_pod_block_it():
    second = budget("web", 1)
    second["metadata"]["name"] = "more"

    answer = ask([node("a"), node("b"), pod("web-1", "a"), budget("web", 1), second], "a")

    assert "more than one PodDisruptionBudget" in answer.pods[0].message


def test_victims_of_the_moved_pods_move_too():
    objects = [node("a"), node("b", "1"), pod("urgent-1", "a", priority=10), pod("slow-1", "b")]

    answer = ask(objects, "a")

    assert outcomes(answer) == {"urgent-1": ("preempts", "b"), "slow-1": ("pending", None)}
    assert answer.pods[1].preemptor == "default/urgent-1"


def test_pods_of_a_stateful_set_keep_their_names_and_claims():
    claim = of_kind(
        "PersistentVolumeClaim",
        "data-db-0",
        metadata={"namespace": "default", "annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
        spec={"volumeName": "disk", "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        status={"phase": "Bound"},
    )
    terms = [{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["a"]}]}]
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "disk"},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "claimRef": {"namespace": "default", "name": "data-db-0"},
            "local": {"path": "/data"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
        },
        "status": {"phase": "Bound"},
    }
    mount = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data-db-0"}}]}

    answer = ask([node("a"), node("b"), claim, volume, pod("db-0", "a", owner="StatefulSet", **mount)], "a")

    assert outcomes(answer) == {"db-0": ("pending", None)}
    assert "volume node affinity" in answer.pods[0].message or "unschedulable" in answer.pods[0].message


def test_interrupted_question_has_what_is_known_so_far():
    calls = []

    def progress(text):
        calls.append(text)
        if text.startswith("1 of"):
            raise Stopped

    objects = [node("a"), node("b"), node("c"), pod("web-1", "a"), pod("web-2", "b")]
    answer = ask(objects, "a", "b", progress=progress)

    assert (answer.interrupted, answer.drains) == (True, False)
    assert [each.outcome for each in answer.nodes] == ["drained", "unknown"]
    assert outcomes(answer) == {"web-1": ("placed", "c")}


def test_answers_are_repeatable_and_change_nothing():
    insight = Insight(Snapshot.of([node("a"), node("b"), node("c"), pod("web-1", "a"), budget("web", 1)]))

    assert insight.drain(["a"]) == insight.drain(["a"], at_once=True) == insight.drain(["a"])


def test_an_unknown_node_is_an_error():
    with pytest.raises(QuestionError, match="there is no node worker-2 in the snapshot: did you mean 'worker-1'"):
        ask([node("worker-1")], "worker-2")


def test_flags_that_a_drain_lacks_are_tried_the_fewest_first():
    objects = [node("a"), node("b"), node("c", "8")]
    objects += [pod(f"log-{name}", name, owner="DaemonSet", cpu="100m") for name in "ab"]
    objects += [pod("web-1", "a"), pod("bare", "b", owner="", **SCRATCH), pod("web-2", "b", "9")]

    answer = ask(objects, "a", "b")

    assert [(each.flags, each.drains, dict(each.nodes), dict(each.pods)) for each in answer.with_flags] == [
        (("--ignore-daemonsets",), False, {"drained": 1, "refused": 1}, {"placed": 1}),
        (
            ("--ignore-daemonsets", "--delete-emptydir-data", "--force"),
            False,
            {"drained": 2},
            {"placed": 1, "deleted": 1, "pending": 1},
        ),
    ]
    assert answer.to_dict()["withFlags"][0]["flags"] == ["--ignore-daemonsets"]
    assert "with --ignore-daemonsets: 1 node drained, 1 node refused: 1 pod would be placed" in answer.text()
    assert "unable to drain 2 nodes (a, b): cannot delete DaemonSet-managed" in answer.text(width=200)


def test_a_drain_that_is_not_refused_tries_no_flags():
    assert ask([node("a"), node("b"), pod("web-1", "a")], "a").with_flags == ()
    assert ask([node("a"), pod("log-1", "a", owner="DaemonSet")], "a", ignore_daemonsets=True).with_flags == ()

"""Which nodes can go, and what holds the others."""

from small_manifests import budget, node, pod
from tests.support.tables import cases

from bayplan.insight import Insight, Snapshot, Stopped

SAFE = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}


def ask(*objects, **options):
    return Insight(Snapshot.of(objects)).shrink(**options)


def removable(answer):
    return [each.node for each in answer.gone]


def test_empty_and_little_used_nodes_go_first():
    answer = ask(node("a"), node("b"), node("c"), pod("web-1", "a", "3"), pod("api-1", "b", "1"))

    assert removable(answer) == ["c", "b"]
    assert answer.gone[1].pods == {"default/api-1": "a"}
    assert [(each.node, each.rule, each.pod) for each in answer.held] == [("a", "no place", "default/api-1")]


def test_a_node_without_room_for_its_pods_elsewhere_stays():
    answer = ask(node("a"), node("b"), pod("web-1", "a", "3"), pod("web-2", "b", "3"))

    assert removable(answer) == []
    assert "Insufficient cpu" in answer.held[0].message


@cases(
    "objects, rule",
    {
        "bare pod": ([node("a"), pod("bare", "a", owner="")], "bare pod"),
        "local storage": ([node("a"), pod("x-1", "a", volumes=[{"name": "scratch", "emptyDir": {}}])], "local storage"),
        "budget": ([node("a"), pod("x-1", "a"), budget("x", 0)], "budget"),
        "annotation": ([node("a"), pod("x-1", "a", annotations=SAFE)], "annotation"),
        "control plane": ([node("a", labels={"node-role.kubernetes.io/control-plane": ""})], "control plane"),
        "selector": ([node("a"), pod("x-1", "a", nodeSelector={"kubernetes.io/hostname": "a"})], "no place"),
    },
)
def test_the_rule_that_holds_a_node_is_named(objects, rule):
    answer = ask(*objects, node("b"), pod("big-1", "b", "3"))

    assert {each.node: each.rule for each in answer.held}["a"] == rule


def test_flags_let_more_nodes_go():
    objects = [node("a"), node("b"), pod("bare", "a", owner=""), pod("web-1", "b", "3500m")]

    assert removable(ask(*objects)) == []
    assert removable(ask(*objects, force=True)) == ["a"]


def test_pods_of_daemon_sets_go_with_their_node():
    answer = ask(node("a"), node("b"), pod("log-1", "a", owner="DaemonSet"), pod("log-2", "b", owner="DaemonSet"))

    assert removable(answer) == ["a", "b"]


def test_pods_do_not_preempt_to_let_a_node_go():
    answer = ask(node("a"), node("b"), pod("urgent-1", "a", "2", priority=10), pod("slow-1", "b", "3"))

    assert removable(answer) == []


def test_cordoned_nodes_that_stay_take_no_pods():
    answer = ask(
        node("a", unschedulable=True), node("b"), pod("web-1", "a", nodeSelector={"x": "y"}), pod("web-2", "b")
    )

    assert removable(answer) == []


def test_only_the_given_nodes_go():
    objects = [node("a", labels={"pool": "x"}), node("b", labels={"pool": "y"}), node("c")]

    assert removable(ask(*objects, matches=lambda labels: labels.get("pool") == "x")) == ["a"]


def test_interrupted_question_has_what_is_known_so_far():
    def progress(text):
        if text.startswith("1 of"):
            raise Stopped

    answer = ask(node("a"), node("b"), node("c"), progress=progress)

    assert (removable(answer), answer.untried) == (["a"], ("b", "c"))
    assert answer.to_dict()["interrupted"]
    assert "interrupted: 2 nodes not tried" in answer.text()


@cases(
    "others, message",
    {
        "one node": ([], "no nodes available to schedule pods"),
        "nodes that may go": (
            [node("b"), node("c"), pod("api-1", "c", "1")],
            "0/1 nodes are available: 1 Insufficient cpu.",
        ),
        "a cordon of the user": (
            [node("b", "8", unschedulable=True), pod("db-1", "b", "1", annotations=SAFE), node("c")],
            "0/1 nodes are available: 1 node(s) were unschedulable.",
        ),
        "a taint": (
            [node("b", taints=[{"key": "gpu", "effect": "NoSchedule"}]), pod("db-1", "b", "1", annotations=SAFE)],
            "taint",
        ),
    },
)
def test_reasons_tell_nothing_of_the_cordons_of_the_question(others, message):
    answer = ask(node("a"), pod("web-1", "a", "3500m"), *others)

    held = {each.node: each for each in answer.held}["a"]
    assert held.rule == "no place"
    assert message in held.message
    assert ("unschedulable" in held.message) is ("unschedulable" in message)

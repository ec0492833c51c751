"""How many nodes of which pool would be enough."""

import json
import math

import msgspec
import pytest
from bayplan_documents import document, node, pod
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from small_clusters import ZONE
from test_devices_that_go import GPU, devices
from tests.support.tables import cases

from bayplan.answers.insight.question_types import QUESTIONS
from bayplan.faces.cli import main
from bayplan.insight import Changes, Insight, QuestionError, Snapshot, Stopped

NVIDIA = "nvidia.com/gpu"
TAINT = [{"key": "gpu", "effect": "NoSchedule"}]


def member(name, pool, zone="", cpu="4", gpus=0, **spec):
    found = node(name, cpu=cpu, **spec)
    found["metadata"]["labels"] |= {"pool": pool} | ({ZONE: zone} if zone else {})
    if gpus:
        for amounts in ("allocatable", "capacity"):
            found["status"][amounts] = {**found["status"][amounts], NVIDIA: str(gpus)}
    return found


def full(name, node_name, cpu="3"):
    return pod(name, node_name, cpu=cpu)


CLUSTER = (
    member("web-1", "web"),
    full("r-1", "web-1"),
    member("gpu-1", "gpu", cpu="16", gpus=4, taints=TAINT),
    pod("r-2", "gpu-1", cpu="15"),
)


def ask(*objects, **options):
    return Insight(Snapshot.of([*CLUSTER, *objects])).scale_up(**options)


def enough(answer):
    return {each.pool: each.nodes for each in answer.enough}


def trainer(name):
    return pod(name, requests={"cpu": "1", NVIDIA: "2"}, tolerations=[{"operator": "Exists"}])


APART = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "apart"}}}
        ]
    }
}


def apart(name):
    found = pod(name, cpu="100m", affinity=APART)
    found["metadata"]["labels"] = {"app": "apart"}
    return found


@cases(
    "pods, expected, left",
    {
        "nothing is pending": ([], {}, 0),
        "it fits already": ([pod("fits", cpu="500m")], {}, 0),
        "one pod": ([pod("p", cpu="2")], {"web": 1}, 0),
        "two pods a node": ([pod(f"p-{number}", cpu="2") for number in range(5)], {"web": 3}, 0),
        "a place is left": ([pod(f"p-{number}", cpu="1") for number in range(5)], {"web": 1}, 0),
        "devices": ([trainer("t-1"), trainer("t-2"), trainer("t-3"), trainer("t-4"), trainer("t-5")], {"gpu": 2}, 0),
        "two pools": ([trainer(f"t-{number}") for number in range(5)] + [pod("p", cpu="3")], {"gpu": 2, "web": 1}, 0),
        "apart from each other": ([apart(f"a-{number}") for number in range(4)], {"web": 3}, 0),
        "no pool helps": ([pod("huge", cpu="99")], {}, 1),
        "one of two": ([pod("huge", cpu="99"), pod("p", cpu="2")], {"web": 1}, 1),
        "a gate": ([pod("gated", cpu="2", schedulingGates=[{"name": "example.com/gate"}])], {}, 1),
    },
)
def test_the_fewest_nodes_of_the_pools_that_help_are_found(pods, expected, left):
    answer = ask(*pods)

    assert (enough(answer), len(answer.left)) == (expected, left)
    assert answer.fits is (left == 0)


def test_a_pool_gets_nodes_in_the_zone_that_a_pod_needs():
    zones = [member(f"z-{zone}", "wide", zone) for zone in "abc"] + [full(f"f-{zone}", f"z-{zone}") for zone in "abc"]
    bound = pod("bound", cpu="2", nodeSelector={ZONE: "c"})

    answer = ask(*zones, bound)

    assert [(each.pool, dict(each.zones)) for each in answer.enough] == [("wide", {"c": 1})]
    assert "1 node of pool wide in c would be enough for 1 pod of the cluster" in answer.text()


def test_manifests_come_after_the_pending_pods():
    answer = ask(pod("first", cpu="4"), objects=[pod("new", cpu="4")])

    assert enough(answer) == {"web": 2}
    assert [each.pods for each in answer.enough] == [("default/new",)]
    assert "after 1 pending pod of the cluster" in answer.text()


def test_new_nodes_have_the_devices_and_the_daemons_of_the_pool():
    daemon = pod("agent-web-1", "web-1", cpu="1", owner=("DaemonSet", "agent"), tolerations=[{"operator": "Exists"}])
    wants = [pod(f"d-{number}", requests={GPU: "1", "cpu": "2"}) for number in range(3)]

    answer = Insight(Snapshot.of([member("web-1", "web"), daemon, *devices("web-1", 2), *wants])).scale_up()

    assert enough(answer) == {"web": 2}, "3 of 4 cpu are left on each node, and 2 devices"


def test_pools_can_be_chosen_and_unknown_ones_are_an_error():
    assert enough(ask(trainer("t-1"), trainer("t-2"), trainer("t-3"), pools=["web"])) == {}
    with pytest.raises(QuestionError, match="there is no pool wbe in the snapshot"):
        ask(pools=["wbe"])


def test_nodes_of_the_control_plane_are_no_pool():
    head = member("head", "masters", cpu="64")
    head["metadata"]["labels"]["node-role.kubernetes.io/control-plane"] = ""

    assert enough(ask(head, full("head-pod", "head", "63"), pod("large", cpu="32"))) == {}


def test_nobody_is_preempted_for_the_answer():
    assert enough(ask(pod("urgent", cpu="3", priority=100))) == {"web": 1}


def test_an_interrupted_question_says_so():
    def stop(_):
        raise Stopped

    assert ask(pod("p", cpu="2"), progress=stop).interrupted


@settings(max_examples=8)
@given(sizes=st.lists(st.integers(1, 8), min_size=1, max_size=12), zones=st.sampled_from(["a", "ab", "abc"]))
def test_what_is_enough_is_enough_for_what_if_too(sizes, zones):
    nodes = [member(f"n-{zone}", "only", zone, cpu="8") for zone in zones]
    used = [full(f"f-{zone}", f"n-{zone}", "8") for zone in zones]
    pods = [pod(f"p-{number:02}", cpu=str(size)) for number, size in enumerate(sizes)]
    insight = Insight(Snapshot.of([*nodes, *used, *pods]))

    answer = insight.scale_up()

    assert answer.fits
    (found,) = answer.enough
    assert math.ceil(sum(sizes) / 8) <= found.nodes <= len(sizes)
    added = [f"{number}xlike:n-{zone}" for zone, number in found.zones.items()]
    assert insight.what_if(Changes(add_nodes=added)).pending == 0


def test_command_exits_with_1_if_pods_would_stay_pending(tmp_path):
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps(document("List", "", namespace="", items=[*CLUSTER, pod("huge", cpu="99")])))

    result = CliRunner().invoke(main, ["scale-up", "--from", str(path), "-o", "json"])

    assert result.exit_code == 1
    assert [each["pod"] for each in json.loads(result.stdout)["left"]] == ["default/huge"]


TWINS = (member("a-1", "a"), full("r-3", "a-1"), member("b-1", "b"), full("r-4", "b-1"))


@pytest.mark.parametrize("cheap", ["a", "b"])
def test_of_pools_that_help_as_much_the_cheapest_is_enough(cheap, tmp_path):
    (tmp_path / "cluster.json").write_text(
        json.dumps({"kind": "List", "apiVersion": "v1", "items": [*TWINS, pod("p", cpu="3")]})
    )
    (tmp_path / "prices.yaml").write_text(json.dumps({"a": 0.9, "b": 0.9, cheap: 0.1}))
    arguments = ["--from", str(tmp_path / "cluster.json"), "--prices", str(tmp_path / "prices.yaml"), "-o", "json"]
    result = CliRunner().invoke(main, ["scale-up", *arguments])
    assert result.exit_code == 0, result.output
    assert [each["pool"] for each in json.loads(result.stdout)["enough"]] == [cheap]


def test_bad_prices_are_one_line(tmp_path):
    (tmp_path / "cluster.json").write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": [*TWINS]}))
    (tmp_path / "prices.yaml").write_text("a: -1")
    arguments = ["--from", str(tmp_path / "cluster.json"), "--prices", str(tmp_path / "prices.yaml")]
    result = CliRunner().invoke(main, ["scale-up", *arguments])
    assert result.exit_code == 2
    assert result.stderr.endswith("prices.yaml: a: -1 is no price: expected dollars for an hour, as in 0.096\n")


@pytest.mark.parametrize(("most", "placed"), [(1, 1), (2, 2), (3, 3)])
def test_limit_of_nodes_holds_in_the_command(most, placed, tmp_path):
    pods = [pod(f"p-{number}", cpu="3") for number in range(3)]
    (tmp_path / "cluster.json").write_text(
        json.dumps({"kind": "List", "apiVersion": "v1", "items": [*TWINS[:2], *pods]})
    )
    arguments = ["--from", str(tmp_path / "cluster.json"), "--max-nodes", str(most), "-o", "json"]
    result = CliRunner().invoke(main, ["scale-up", *arguments])
    assert result.exit_code == (0 if placed == 3 else 1), result.output
    assert sum(each["nodes"] for each in json.loads(result.stdout)["enough"]) == most


@pytest.mark.parametrize("cheap", ["a", "b"])
def test_prices_of_programs_and_assistants_count_as_those_of_the_command(cheap):
    question = msgspec.convert({"prices": {"a": 0.9, "b": 0.9, cheap: 0.1}}, QUESTIONS["scale-up"])
    answer = question.ask(Insight(Snapshot.of([*TWINS, pod("p", cpu="3")])))
    assert enough(answer) == {cheap: 1}
    assert question.command()[-2:] == ["--prices", "prices.yaml"]


def test_pods_that_need_no_new_node_may_go_there_too():
    answer = ask(member("one", "a"), *(pod(f"p{number}", cpu=cpu) for number, cpu in enumerate(["2", "2", "4"])))
    assert answer.fits
    assert "default/p2" in answer.enough[0].pods


def hanging(name, cpu):
    """A pod whose grace period has long ended."""
    found = full(name, "one", cpu)
    found["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30}
    return found


FORCED = {
    "all pods": (["2", "2"], ["default/p0", "default/p1"], [], "without a new node, for 2 pods: force-delete pod"),
    "some pods": (["2", "2", "4"], ["default/p0", "default/p1"], [1], "; then 1 node of pool a would be enough"),
    "no pod": (["9"], None, None, ""),
}


@cases("cpus, pods, nodes, text", FORCED)
def test_force_deletion_of_pods_that_hang_is_offered_before_nodes(cpus, pods, nodes, text):
    answer = ask(
        member("one", "a"), hanging("old", "4"), *(pod(f"p{number}", cpu=cpu) for number, cpu in enumerate(cpus))
    )

    forced = answer.to_dict()["forced"]
    assert text in answer.text()
    if pods is None:
        assert forced is None
        assert "force" not in answer.text()
        return
    assert forced["delete"] == ["default/old"]
    assert forced["pods"] == pods
    assert [each["nodes"] for each in forced["enough"]] == nodes


def test_pod_that_still_has_time_to_end_is_not_deleted_by_force():
    ending = hanging("old", "4")
    ending["metadata"]["deletionTimestamp"] = "2100-01-01T00:00:00Z"
    assert ask(member("one", "a"), ending, pod("p", cpu="2")).forced is None

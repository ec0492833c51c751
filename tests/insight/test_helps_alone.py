"""A help is tried for its pod alone: the answer names a pending pod that could take the room first, if there is one."""

import pytest
from bayplan_documents import node, pod, workload
from tests.support.tables import cases

from bayplan.answers.insight.answers import silent
from bayplan.answers.insight.questions.rivals import tried_alone
from bayplan.insight import Insight, Snapshot

SSD = {"nodeSelector": {"disk": "ssd"}}
HIGH = {"priority": 10}
TAKEN = "tried for this pod alone: default/other could take the room first"
CASES = {
    "no other pod": ([node("n1", "2")], ""),
    "room for both": ([node("n1", "4"), pod("other", cpu="1", **SSD)], ""),
    "room for one": ([node("n1", "2"), pod("other", cpu="2", **SSD)], TAKEN),
    "a smaller pod that takes too much": ([node("n1", "2"), pod("other", cpu="100m", **SSD)], TAKEN),
    "a pod that the change doesn't help": ([node("n1", "2"), pod("other", cpu="2", nodeSelector={"disk": "x"})], ""),
    "a pod that would be placed anyway": ([node("n1", "2"), pod("other", cpu="1")], TAKEN),
    "a pod of lower priority": ([node("n1", "2"), pod("other", cpu="2", priority=-1, **SSD)], ""),
    "a gated pod": ([node("n1", "2"), pod("other", cpu="2", schedulingGates=[{"name": "a.b/c"}], **SSD)], ""),
    "a pod of another scheduler": ([node("n1", "2"), pod("other", cpu="2", schedulerName="another", **SSD)], ""),
    "many pods that change nothing, and one": (
        [node("n1", "2"), *(pod(f"big-{n}", cpu="8", **HIGH) for n in range(9)), pod("other", cpu="2", **SSD)],
        TAKEN,
    ),
}


@cases("objects, alone", CASES)
def test_pod_that_could_take_the_room_is_named(objects, alone):
    insight = Insight(Snapshot.of([*objects, pod("p", cpu="2", **SSD)]))

    found = insight.explain("default/p")
    not_there = insight.why_not("default/p", "n1")

    assert found.help
    assert found.alone == not_there.alone == alone
    assert ((TAKEN in found.text()), (TAKEN in not_there.text())) == (bool(alone), bool(alone))
    assert found.to_dict()["alone"] == not_there.to_dict()["alone"] == alone


def test_change_of_a_workload_is_tried_with_its_other_pods():
    """Both pods want the label; where it is gone from their template, that is so for both."""
    owner = {"owner": ("ReplicaSet", "web")}
    template = workload("ReplicaSet", "web", 2)
    template["spec"]["template"]["spec"]["nodeSelector"] = {"disk": "ssd"}
    pods = [pod(name, cpu="2", **owner, **SSD) for name in ("p", "other")]
    for each in pods:
        each["metadata"] |= {"labels": {"app": "web"}, "uid": each["metadata"]["name"]}

    insight = Insight(Snapshot.of([node("n1", "2"), template, *pods]))

    helps = insight.explain("default/p").help
    of_template = [each for each in helps if each.change.edits]
    of_node = [each for each in helps if each.change.text.startswith("label n1")]
    assert of_template
    assert tried_alone(insight.world, insight.pod("default/p"), of_template, silent) == ""
    assert tried_alone(insight.world, insight.pod("default/p"), of_node, silent) == TAKEN


@pytest.mark.parametrize(("first", "second"), [("a", "b"), ("b", "a")])
def test_named_pod_really_takes_the_room(first, second):
    """The property behind the sentence: with the change and the other pod first, the pod stays pending."""
    objects = [node("n1", "3"), pod(first, cpu="2", **SSD), pod(second, cpu="2", **SSD)]

    explained = Insight(Snapshot.of(objects)).explain(f"default/{first}")

    assert f"default/{second} could take" in explained.alone
    label = next(each.change for each in explained.help if each.change.text.startswith("label"))
    changed = Snapshot.of(objects).but(change=label.apply)
    placed = [each.outcome for each in map(Insight(changed).explain, (f"default/{first}", f"default/{second}"))]
    assert placed == ["placed", "placed"]  # each of them alone
    taken = changed.but(change=[pod(second, "n1", cpu="2", **SSD)])
    assert Insight(taken).explain(f"default/{first}").outcome == "pending"


def test_sum_of_all_pending_pods_says_so_too():
    pods = [pod("busy", "n1", cpu="2", priority=9), pod("other", cpu="2"), pod("p", cpu="2")]

    text = " ".join(Insight(Snapshot.of([node("n1", "2"), *pods])).explain_all().text().split())

    sentence = "tried for this pod alone: default/p could take the room first"
    assert f"for default/other would help: add a node like n1 -> n1-new ({sentence})" in text

"""Changes as values of few bytes: a what-if with the value does what the change did."""

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from test_changes_that_help import CASES, node, pod, tainted
from test_explain_devices import CASES as DEVICES
from test_explain_devices import CLUSTER, EXTENDED
from test_explain_devices import pod as gpu_pod
from test_explain_names import CASES as NAMES
from test_questions import CASES as QUESTIONS
from test_questions import sections
from tests.support.tables import cases

from bayplan.answers.insight.questions.change import Change
from bayplan.answers.insight.questions.freeing import freeing
from bayplan.answers.insight.questions.portable import Patch, PortableChange, difference, portable
from bayplan.core.api.kinds import POD
from bayplan.core.api.patch import apply_merge_patch
from bayplan.insight import Changes, Insight, QuestionError, Snapshot


def pending_alone(objects):
    """A snapshot for each pending pod, without the others, which might take its place."""
    whole = Snapshot.of(objects)
    pending = [key for key, pod in Insight(whole).world.state.objects[POD].items() if not pod.node_name]
    for key in pending:
        yield key, whole.but(remove=[(POD, other) for other in pending if other != key])


def each_help_in_a_what_if(objects):
    """The helps of each pending pod, and what a what-if with the value of each leads to."""
    for key, snapshot in pending_alone(objects):
        insight = Insight(snapshot)
        for found in insight.explain(key).help:
            value = portable(insight.world, snapshot, found.change)
            again = msgspec.json.decode(msgspec.json.encode(value), type=PortableChange)
            answer = insight.what_if(Changes(portable=[again]))
            assert answer.steps == (found.change.text,)
            after = next((each.after for each in answer.pods if each.pod == key), None)
            yield found.text, after and after.state


HELPED = {
    **{name: objects for name, (objects, _) in CASES.items()},
    **{name: objects for name, (objects, _, help_) in NAMES.items() if help_ is not None},
    **{
        f"devices: {name}": [*yaml.safe_load_all(CLUSTER), *objects, gpu_pod("new", "new")]
        for name, (objects, _, helps) in DEVICES.items()
        if helps
    },
    **{
        f"extended resource: {name}": [*yaml.safe_load_all(CLUSTER), *objects, gpu_pod("new", resource="acme.io/gpu")]
        for name, (objects, _, helps) in EXTENDED.items()
        if helps
    },
}


@cases("objects", HELPED)
def test_what_if_with_a_help_places_the_pod(objects):
    helps = list(each_help_in_a_what_if(objects))
    assert helps
    assert helps == [(text, "placed") for text, _ in helps]


@pytest.mark.parametrize("case", QUESTIONS, ids=[case.stem for case in QUESTIONS])
def test_what_if_with_a_help_of_a_users_cluster_places_the_pod(case):
    files = dict(sections(case.read_text())[1])
    if "cluster.yaml" not in files:
        pytest.skip("the question is about something else")
    objects = [each for each in yaml.safe_load_all(files["cluster.yaml"]) if each]
    helps = list(each_help_in_a_what_if(objects))
    assert helps == [(text, "placed") for text, _ in helps]


def test_change_of_many_nodes_is_one_patch_and_frees_the_same_pods():
    objects = [tainted(f"n{number:03}", "batch") for number in range(60)]
    snapshot = Snapshot.of([*objects, *(pod(f"p{number}") for number in range(5))])
    insight = Insight(snapshot)
    best = freeing(insight.world, list(insight.world.pending.values())).best[0]
    value = portable(insight.world, snapshot, best.change)
    (patch,) = value.patches
    assert len(patch.keys) == 60
    assert len(msgspec.json.encode(value)) < 800
    after = insight.what_if(Changes(portable=[value])).pods
    assert {each.pod for each in after if each.after.state == "placed"} == set(best.pods)


def test_two_new_nodes_like_one_have_names_of_their_own():
    insight = Insight(Snapshot.of([node("a"), pod("old", cpu="2", on="a"), pod("new-0", "2"), pod("new-1", "2")]))
    value = portable(insight.world, insight.snapshot, insight.explain("default/new-0").help[-1].change)
    assert value.like == "a"
    answer = insight.what_if(Changes(portable=[value, value]))
    assert sorted(each.after.node for each in answer.pods) == ["a-new-1", "a-new-2"]


WRONG = {
    "object that is gone": (Patch("Pod", ("default/none",), {}), "there is no pod default/none to change"),
    "unknown kind": (Patch("Pot", ("a",), {}), "there is no kind Pot in v1"),
    "kind that a snapshot has not": (Patch("Secret", ("default/a",), {}), "there is no secret default/a"),
    "another name": (Patch("Node", ("a",), {"metadata": {"name": "b"}}), "a change can't rename node b"),
    "no metadata": (Patch("Node", ("a",), {"metadata": None}), "the changed object can't be used"),
    "metadata that is text": (Patch("Node", ("a",), {"metadata": "x"}), "the changed object can't be used"),
    "other kind": (Patch("Node", ("a",), {"kind": "Pod"}), "the changed object can't be used: a pod needs"),
    "spec that is a number": (Patch("Node", ("a",), {"spec": 5}), "the changed object can't be used"),
    "taints that are text": (Patch("Node", ("a",), {"spec": {"taints": "x"}}), "the changed object can't be used"),
    "quantity": (
        Patch(
            "Pod", ("default/p",), {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "x"}}}]}}
        ),
        "the changed object can't be used",
    ),
}


@cases("patch, message", WRONG)
def test_patch_that_cannot_be_made_is_one_error(patch, message):
    insight = Insight(Snapshot.of([node("a"), pod("p")]))
    with pytest.raises(QuestionError, match=message):
        insight.what_if(Changes(portable=[PortableChange("x", (patch,))]))
    assert insight.explain("default/p").outcome == "placed"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (PortableChange("x", new=({"kind": "Node"},)), "apiVersion is missing"),
        (PortableChange("x", new=({"apiVersion": "v1", "kind": "Node", "metadata": {}},)), "name is missing"),
        (PortableChange("x", like="none"), "there is no node none"),
        (PortableChange("x", delete=("default/none",)), "there is no pod default/none to delete"),
        (PortableChange("x", like="a", node={"status": 7}), "the changed object can't be used"),
    ],
)
def test_objects_that_cannot_be_added_or_deleted_are_one_error(value, message):
    with pytest.raises(QuestionError, match=message):
        Insight(Snapshot.of([node("a")])).what_if(Changes(portable=[value]))


def test_patches_count_for_the_limits():
    nodes = [node(f"n{number}") for number in range(200)]
    patch = Patch("Node", tuple(each["metadata"]["name"] for each in nodes), {"metadata": {"labels": {"a": "x" * 63}}})
    large = Patch("Node", patch.keys, {"status": {"images": [{"names": ["x" * 2_000_000]}]}})
    insight = Insight(Snapshot.of(nodes))
    insight.what_if(Changes(portable=[PortableChange("label all", (patch,))]))
    with pytest.raises(QuestionError, match=r"fill all: .* the limit of memory is 256 MiB"):
        insight.what_if(Changes(portable=[PortableChange("fill all", (large,))]))


JSON = st.recursive(
    st.booleans() | st.integers(0, 3) | st.sampled_from(["", "x"]) | st.lists(st.integers(0, 2), max_size=2),
    lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
)
DOCUMENTS = st.dictionaries(st.sampled_from("abcd"), JSON, max_size=4)


@given(DOCUMENTS, DOCUMENTS)
def test_difference_leads_from_one_document_to_the_other(old, new):
    assert apply_merge_patch(old, difference(old, new)) == new


def test_change_of_nothing_has_no_patch():
    insight = Insight(Snapshot.of([pod("p")]))
    same = insight.snapshot.document(POD, "default/p")
    assert portable(insight.world, insight.snapshot, Change("x", (same,))).patches == ()

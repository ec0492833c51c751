"""What a shadow finds of single decisions: its outcomes, its causes, and the state that it asks about."""

from datetime import timedelta

import pytest
from msgspec.structs import replace
from shadowed import BEGIN, Shadowed, configured, nodes

from bayplan import score_plugin
from bayplan.answers.shadow.comparisons import ShadowCause, ShadowOutcome, ShadowSubject, ShadowTally
from bayplan.answers.shadow.moments import SearchBudget
from bayplan.answers.shadow.record import MOST_KEPT, ShadowRecord
from bayplan.answers.shadow.shown import line_of, percent, summary
from bayplan.answers.simulation.usual import usual_configuration
from bayplan.core.api.kinds import PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, STORAGE_CLASS
from bayplan.core.api.objects import convert
from bayplan.testing import make_node

MOST_ALLOCATED = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}
  plugins: {score: {disabled: [{name: NodeResourcesBalancedAllocation}]}}
"""
EXTENDED = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
extenders:
- {urlPrefix: 'http://127.0.0.1:1', prioritizeVerb: score, weight: 1, managedResources: [{name: example.com/gpu}]}
profiles: [{schedulerName: default-scheduler}]
"""


@pytest.fixture
def two():
    """Two nodes, of which node-1 is better, because node-0 has a pod."""
    cluster = Shadowed(*nodes(2))
    cluster.create("old", cpu="1", node="node-0")
    return cluster


def test_the_only_best_node_is_the_same(two):
    two.place("new", "node-1", cpu="1")
    found = two.only()
    assert (found.subject, found.outcome, found.cause) == (ShadowSubject.BINDING, ShadowOutcome.SAME, ShadowCause.NONE)
    assert (found.theirs, found.ours, found.difference) == ("node-1", "node-1", 0)
    assert found.margin > 0


def test_equal_nodes_are_a_tie():
    cluster = Shadowed(*nodes(30))
    for number in range(20):
        cluster.place(f"new-{number}", f"node-{number}", cpu="1")
    assert {each.outcome for each in cluster.found} <= {ShadowOutcome.SAME, ShadowOutcome.BEST}
    tied = [each for each in cluster.found if each.outcome is ShadowOutcome.BEST]
    assert len(tied) > 10
    assert {each.cause for each in tied} == {ShadowCause.TIE}
    assert cluster.shadow.tally.share() == 1.0


def test_a_worse_node_without_a_reason_is_unknown(two):
    two.place("new", "node-0", cpu="1")
    assert two.found == []
    found = two.only()
    assert (found.outcome, found.cause, found.ours) == (ShadowOutcome.OTHER, ShadowCause.UNKNOWN, "node-1")
    assert found.difference == found.margin > 0
    assert dict(found.plugins)["NodeResourcesFit"] > 0
    assert two.shadow.tally.unknown == 1


def test_a_node_that_rejects_the_pod_has_a_reason(two):
    two.place("big", "node-0", cpu="4")
    found = two.only()
    assert (found.outcome, found.difference, found.reason) == (ShadowOutcome.OTHER, None, "Insufficient cpu")


def test_a_pod_that_fits_nowhere_would_not_be_placed(two):
    two.place("huge", "node-1", cpu="40")
    found = two.only()
    assert (found.outcome, found.ours, found.theirs) == (ShadowOutcome.NOT_PLACED, "", "node-1")
    assert found.reason == "Insufficient cpu"


def test_an_event_before_the_binding_that_the_scheduler_did_not_know(two):
    two.create("new", cpu="1")
    two.create("other", cpu="2", node="node-1")
    two.bind("new", "node-1")
    (found,) = two.found
    assert (found.outcome, found.cause) == (ShadowOutcome.SAME, ShadowCause.RACE)
    assert found.between == "pod default/other was bound to node-1"


def test_a_binding_that_is_seen_after_a_later_one():
    """The scheduler counts `first` on node-0 when it decides `second`, and that binding arrives first."""
    cluster = Shadowed(*nodes(2))
    cluster.create("third", cpu="1", node="node-1")
    cluster.create("first", cpu="2")
    cluster.place("second", "node-1", cpu="1")
    cluster.wait(0.5)
    cluster.bind("first", "node-0")
    cluster.wait()
    found = {each.pod: each for each in cluster.found}
    assert (found["default/second"].outcome, found["default/second"].cause) == (ShadowOutcome.SAME, ShadowCause.RACE)
    assert found["default/second"].between == "pod default/first was bound to node-0"


def test_a_node_that_is_seen_after_the_binding_to_it():
    cluster = Shadowed(*nodes(1))
    cluster.place("new", "node-9", cpu="1")
    cluster.put_node(make_node("node-9"))
    found = cluster.only()
    assert (found.cause, found.between) == (ShadowCause.RACE, "Node node-9 was added")


def test_an_event_that_is_too_old_explains_nothing(two):
    two.create("new", cpu="1")
    two.create("other", cpu="2", node="node-1")
    two.wait(31)
    two.bind("new", "node-1")
    assert two.only().cause is ShadowCause.UNKNOWN


def test_another_configuration_is_the_cause_where_the_schedulers_own_decides_as_it_did(tmp_path):
    ours = configured(tmp_path, MOST_ALLOCATED)
    theirs = configured(tmp_path, EXTENDED)
    cluster = Shadowed(*nodes(2), configuration=ours, theirs=(theirs, ()))
    cluster.create("old", cpu="1", node="node-0")
    cluster.place("new", "node-1", cpu="1")
    (found,) = cluster.found
    assert (found.outcome, found.cause, found.ours) == (ShadowOutcome.OTHER, ShadowCause.CONFIGURATION, "node-0")
    assert dict(found.plugins)["NodeResourcesFit"] > 0


def test_another_configuration_after_a_race(tmp_path):
    """The scheduler did not know `other`. Bayplan's configuration would choose another node then, too."""
    ours, theirs = configured(tmp_path, MOST_ALLOCATED), configured(tmp_path, EXTENDED)
    cluster = Shadowed(*nodes(3), configuration=ours, theirs=(theirs, ()))
    cluster.create("old", cpu="1", node="node-0")
    cluster.create("older", cpu="500m", node="node-2")
    cluster.create("new", cpu="1")
    cluster.create("other", cpu="900m", node="node-1")
    cluster.bind("new", "node-1")
    (found,) = cluster.found
    assert (found.outcome, found.cause, found.ours) == (ShadowOutcome.OTHER, ShadowCause.CONFIGURATION, "node-0")
    assert found.between == "pod default/other was bound to node-1"


@pytest.mark.parametrize(
    ("resources", "cause"), [({"example.com/gpu": "1"}, ShadowCause.EXTENDER), ({}, ShadowCause.UNKNOWN)]
)
def test_an_extender_that_is_asked_about_the_pod(tmp_path, resources, cause):
    configuration = configured(tmp_path, EXTENDED)
    cluster = Shadowed(*nodes(2, resources={"example.com/gpu": "8"}), configuration=configuration)
    cluster.create("old", cpu="1", node="node-0")
    cluster.place("new", "node-0", cpu="1", resources=resources)
    assert cluster.only().cause is cause


def test_sampling_explains_a_worse_node_only_where_all_better_ones_may_be_left_out():
    cluster = Shadowed(*nodes(200))
    for number in range(95):
        cluster.create(f"old-{number}", cpu="1", node=f"node-{number}")
    cluster.create("odd", cpu="1")
    cluster.wait(11)
    cluster.bind("odd", "node-0")
    cluster.wait()
    cluster.create("lucky", cpu="1")
    for number in range(95, 170):
        cluster.create(f"old-{number}", cpu="2", node=f"node-{number}")
    cluster.create("late", cpu="1")
    cluster.wait(11)
    cluster.bind("late", "node-90")
    cluster.wait()
    assert [each.cause for each in cluster.found] == [ShadowCause.UNKNOWN, ShadowCause.SAMPLING]


def test_a_failure_that_bayplan_finds_too(two):
    two.create("huge", cpu="40")
    two.fail("huge")
    found = two.only()
    assert (found.subject, found.outcome, found.theirs) == (ShadowSubject.FAILURE, ShadowOutcome.SAME, "")
    two.found.clear()
    two.fail("huge")
    two.wait()
    assert two.found == [], "the message is the same"


def test_a_failure_of_a_pod_that_bayplan_would_place(two):
    two.create("small", cpu="1")
    two.fail("small")
    found = two.only()
    assert (found.outcome, found.cause, found.ours) == (ShadowOutcome.OTHER, ShadowCause.UNKNOWN, "node-1")


def test_a_failure_before_room_was_seen():
    cluster = Shadowed(*nodes(1))
    cluster.create("old", cpu="4", node="node-0")
    cluster.create("new", cpu="4")
    cluster.remove("old")
    cluster.fail("new")
    (found,) = cluster.found
    assert (found.outcome, found.cause, found.between) == (
        ShadowOutcome.SAME,
        ShadowCause.RACE,
        "pod default/old was deleted",
    )


@pytest.mark.parametrize("first", ["victim", "nomination"])
def test_a_preemption_with_its_victim(first):
    cluster = Shadowed(*nodes(2))
    cluster.create("low", cpu="4", node="node-0")
    cluster.create("high", cpu="4", node="node-1", priority=100)
    cluster.create("new", cpu="4", priority=50)
    if first == "victim":
        cluster.evict("low")
        cluster.nominate("new", "node-0")
    else:
        cluster.nominate("new", "node-0")
        cluster.evict("low")
    found = cluster.only()
    assert (found.subject, found.outcome, found.cause) == (
        ShadowSubject.NOMINATION,
        ShadowOutcome.SAME,
        ShadowCause.NONE,
    )
    assert found.their_victims == found.our_victims == ("default/low",)


def test_a_preemption_of_other_victims_is_another_one():
    cluster = Shadowed(*nodes(1))
    cluster.create("low", cpu="2", node="node-0")
    cluster.create("middle", cpu="2", node="node-0", priority=10)
    cluster.create("new", cpu="2", priority=50)
    cluster.evict("middle")
    cluster.nominate("new", "node-0")
    found = cluster.only()
    assert (found.outcome, found.cause) == (ShadowOutcome.OTHER, ShadowCause.UNKNOWN)
    assert (found.their_victims, found.our_victims) == (("default/middle",), ("default/low",))


def test_chance_between_two_preemptions():
    cluster = Shadowed(*nodes(2))
    for number in range(2):
        cluster.create(f"low-{number}", cpu="4", node=f"node-{number}")
    for number in range(2):
        cluster.create(f"new-{number}", cpu="4", priority=50)
        cluster.nominate(f"new-{number}", f"node-{number}")
        cluster.evict(f"low-{number}")
        cluster.wait(11)
    assert [each.equal for each in cluster.found] == [True, True]


def test_a_pod_whose_binding_takes_long_is_compared_when_its_node_is_known(two):
    """kube-scheduler nominates the node of a pod before it waits for volumes, and counts the pod there."""
    two.create("slow", cpu="2")
    two.expect("slow", "node-1")
    assert (two.only().subject, two.only().outcome) == (ShadowSubject.BINDING, ShadowOutcome.SAME)
    two.place("next", "node-0", cpu="1")
    two.bind("slow", "node-1")
    two.wait()
    assert [(each.pod, each.outcome) for each in two.found] == [
        ("default/slow", ShadowOutcome.SAME),
        ("default/next", ShadowOutcome.SAME),
    ]


@pytest.mark.parametrize("end", ["deleted", "not placed"])
def test_a_pod_that_does_not_come_to_the_node_where_it_was_expected(two, end):
    two.create("slow", cpu="2")
    two.expect("slow", "node-1")
    two.remove("slow") if end == "deleted" else two.fail("slow")
    two.wait(11)
    two.place("next", "node-1", cpu="1")
    two.wait()
    assert two.found[-1].outcome is ShadowOutcome.SAME
    assert two.found[-1].cause is ShadowCause.NONE


def test_pods_of_other_schedulers_and_pods_that_came_with_a_node_are_not_compared(two):
    two.place("theirs", "node-0", scheduler_name="other")
    two.create("static", node="node-0")
    two.wait()
    assert two.found == []


def test_bindings_that_were_not_seen_as_they_happened_are_only_counted(two):
    two.place("new", "node-0", cpu="1", compared=False)
    two.wait()
    assert (two.found, two.shadow.tally.missed) == ([], 1)


def test_a_tally_has_one_count_for_each_kind(two):
    tally = ShadowTally()
    assert tally.share() is None
    for number in range(3):
        two.place(f"new-{number}", "node-1", cpu="1m")
    two.place("odd", "node-0", cpu="1")
    two.wait()
    for each in two.found:
        tally.add(each)
    assert (tally.total(), tally.equal(), len(tally.counts)) == (4, 3, 2)
    assert tally.share(ShadowSubject.BINDING) == 0.75
    assert tally.loss == two.found[-1].difference
    assert tally == two.shadow.tally


def test_bindings_that_are_seen_in_another_order_than_the_queue_has():
    """Each pod makes its node worse for the next one, and the bindings arrive in the reverse order."""
    cluster = Shadowed(*nodes(4))
    for number in range(4):
        cluster.create(f"old-{number}", cpu=f"{100 * number}m", node=f"node-{number}")
    for number in range(4):
        cluster.create(f"new-{number}", cpu="1")
    for number in reversed(range(4)):
        cluster.bind(f"new-{number}", f"node-{number}")
    cluster.wait()
    assert {each.equal for each in cluster.found} == {True}
    assert {each.cause for each in cluster.found} <= {ShadowCause.NONE, ShadowCause.RACE}
    assert cluster.shadow.tally.caused_by(ShadowCause.RACE) > 0


def test_a_pod_that_was_deleted_between_its_decision_and_its_binding(two):
    two.create("gone", cpu="2")
    two.place("new", "node-0", cpu="1")
    two.wait(0.1)
    two.remove("gone")
    found = two.only()
    assert (found.outcome, found.cause) == (ShadowOutcome.SAME, ShadowCause.RACE)
    assert found.between == "pod default/gone was deleted"


def test_without_a_budget_nothing_is_searched():
    cluster = Shadowed(*nodes(2), budget=SearchBudget(0, 0))
    cluster.create("old", cpu="1", node="node-0")
    cluster.create("new", cpu="1")
    cluster.create("other", cpu="2", node="node-1")
    cluster.bind("new", "node-1")
    assert cluster.only().cause is ShadowCause.UNKNOWN


def test_claims_that_were_written_for_the_pod_are_taken_back():
    """A scheduler allocates a claim before it binds the pod: its node would be the only feasible one."""
    cluster = Shadowed(*nodes(2))
    cluster.create("old", cpu="1", node="node-0")
    claim = _claim()
    cluster.put(PERSISTENT_VOLUME_CLAIM, "default/data", claim)
    cluster.put(STORAGE_CLASS, "late", _storage_class())
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    cluster.create("new", cpu="1", spec={"volumes": [volume]})
    cluster.wait(11)
    bound = _claim(volume="disk")
    cluster.put(PERSISTENT_VOLUME, "disk", _volume("node-0"))
    cluster.put(PERSISTENT_VOLUME_CLAIM, "default/data", bound)
    cluster.bind("new", "node-0")
    found = cluster.only()
    assert (found.outcome, found.ours, found.cause) == (ShadowOutcome.OTHER, "node-1", ShadowCause.UNKNOWN)


def _claim(volume=""):
    spec = {"storageClassName": "late", "accessModes": ["ReadWriteOnce"], "volumeName": volume}
    spec["resources"] = {"requests": {"storage": "1Gi"}}
    metadata = {"name": "data", "namespace": "default", "uid": "uid-data"}
    if volume:
        metadata["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
    status = {"phase": "Bound" if volume else "Pending"}
    return convert(PERSISTENT_VOLUME_CLAIM.type, {"metadata": metadata, "spec": spec, "status": status})


def _volume(node):
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "late",
        "claimRef": {"name": "data", "namespace": "default", "uid": "uid-data"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
        "local": {"path": "/disk"},
    }
    return convert(PERSISTENT_VOLUME.type, {"metadata": {"name": "disk", "uid": "uid-disk"}, "spec": spec})


def _storage_class():
    fields = {"provisioner": "example.com/late", "volumeBindingMode": "WaitForFirstConsumer"}
    return convert(STORAGE_CLASS.type, {"metadata": {"name": "late"}, **fields})


def test_nothing_grows_with_what_is_gone():
    cluster = Shadowed(*nodes(2))
    record = ShadowRecord(["default-scheduler"], began=BEGIN, until=BEGIN)
    for number in range(300):
        cluster.place(f"pod-{number}", "node-0", cpu="10m")
        cluster.remove(f"pod-{number}")
        cluster.wait(0.5)
    for _ in range(10):
        for each in cluster.found:
            record.add(replace(each, outcome=ShadowOutcome.OTHER))
    assert cluster.shadow.tally.total() == 300
    assert len(cluster.shadow.tally.counts) < 5
    assert len(cluster.shadow._journal) < 200
    assert (cluster.shadow.waiting, len(cluster.shadow.world._undo)) == (0, 0)
    assert len(record.differences) == MOST_KEPT < 3000


def test_lines_say_what_and_why(two):
    two.place("new", "node-0", cpu="1")
    two.create("huge", cpu="40")
    two.fail("huge")
    two.create("small", cpu="1")
    two.fail("small")
    two.wait()
    shown = {each.pod: line_of(each).partition(": ")[2] for each in two.found}
    assert shown["default/new"] == (
        "bound to node-0; Bayplan: node-1, 12 points better (NodeResourcesFit +13, NodeResourcesBalancedAllocation -1)"
        "; cause: unknown"
    )
    assert shown["default/huge"] == "found no node; Bayplan: no node, too"
    assert shown["default/small"].startswith("found no node; Bayplan: node-1")
    assert summary(two.shadow.tally) == "1 of 3 decisions equal (33.33%); 2 different: 2 unknown"


def test_a_share_is_100_percent_only_if_it_is_all():
    assert (percent(1.0), percent(0.99999), percent(0.5)) == ("100.00%", ">99.99%", "50.00%")


def test_a_plugin_that_fails_is_an_unknown_cause(caplog):
    @score_plugin
    def broken(pod, node):
        raise RuntimeError("no licence")

    configuration = usual_configuration([broken])
    cluster = Shadowed(*nodes(2), configuration=configuration, plugins=[broken])
    cluster.place("new", "node-0", cpu="1")
    found = cluster.only()
    assert (found.outcome, found.cause) == (ShadowOutcome.NOT_PLACED, ShadowCause.UNKNOWN)
    assert "no licence" in found.reason
    assert "broken" in caplog.text
    assert cluster.shadow.world.pod("default/new").node_name == "node-0"


def test_a_renewed_preemption_is_none_that_binds():
    """The pod says already that it fits no node. Its nomination for another node is a preemption there, too."""
    cluster = Shadowed(*nodes(3, cpu="4"))
    for number in range(3):
        cluster.create(f"low-{number}", cpu="4", node=f"node-{number}")
    cluster.create("high", cpu="4", priority=50)
    for number in range(2):
        cluster.nominate("high", f"node-{number}")
        cluster.evict(f"low-{number}")
        cluster.place(f"lower-{number}", f"node-{number}", cpu="4", priority=100)
        cluster.wait(11)
    found = [each for each in cluster.found if each.pod == "default/high"]
    assert [(each.subject, each.theirs, each.equal) for each in found] == [
        (ShadowSubject.NOMINATION, "node-0", True),
        (ShadowSubject.NOMINATION, "node-1", True),
    ]
    assert cluster.shadow.world.pod("default/high").node_name == "", "it isn't counted on a node"


def test_a_preemptor_that_changes_is_not_counted_on_its_node(two):
    two.create("low", cpu="3", node="node-1")
    two.create("high", cpu="4", priority=50)
    two.nominate("high", "node-1")
    two.documents["high"]["metadata"]["annotations"] = {"any": "thing"}
    two._put("high")
    assert two.shadow.world.pod("default/high").node_name == ""


def test_a_refused_pod_that_fits_now_is_bound_where_it_is_nominated(two):
    """The scheduler waits for volumes before it binds the pod, which had failed before."""
    two.create("slow", cpu="4")
    two.create("old-1", cpu="4", node="node-1")
    two.fail("slow")
    two.remove("old-1")
    two.wait(11)
    two.documents["slow"]["status"]["nominatedNodeName"] = "node-1"
    two._put("slow")
    two.wait(11)
    assert [(each.subject, each.theirs) for each in two.found] == [
        (ShadowSubject.FAILURE, ""),
        (ShadowSubject.BINDING, "node-1"),
    ]
    assert two.shadow.world.pod("default/slow").node_name == "node-1"


def test_a_preemption_whose_victims_are_seen_before_a_binding_that_it_knew():
    """`other` is counted on node-1 when `high` is decided, but its binding is seen after the first eviction."""
    cluster = Shadowed(*nodes(2))
    cluster.create("low", cpu="4", node="node-0", priority=5)
    cluster.create("lowest", cpu="4", node="node-1", priority=1)
    cluster.create("other", cpu="4", priority=100)
    cluster.create("high", cpu="4", priority=50)
    cluster.remove("lowest")
    cluster.evict("low")
    cluster.nominate("high", "node-0")
    cluster.bind("other", "node-1")
    cluster.wait()
    (found,) = [each for each in cluster.found if each.pod == "default/high"]
    assert (found.subject, found.outcome, found.cause) == (
        ShadowSubject.NOMINATION,
        ShadowOutcome.SAME,
        ShadowCause.RACE,
    )


def test_a_difference_beside_a_nomination_is_named():
    """Nothing explains it, but another pod was nominated for that node at about that time."""
    cluster = Shadowed(*nodes(2))
    cluster.create("old", cpu="1", node="node-0")
    cluster.create("low", cpu="1", node="node-1")
    cluster.create("high", cpu="4", priority=100)
    cluster.nominate("high", "node-1")
    cluster.place("huge", "node-1", cpu="40")
    cluster.wait()
    (found,) = [each for each in cluster.found if each.pod == "default/huge"]
    assert (found.cause, found.between) == (
        ShadowCause.NOMINATIONS,
        "pod default/high was nominated for node-1",
    )


@pytest.mark.parametrize(
    ("written", "told"),
    [(-94, -94), (-1, 0), (30, 0), (None, 0)],
    ids=["late", "now", "another clock", "it doesn't say"],
)
def test_the_time_is_that_of_the_decision(two, written, told):
    two.create("new", cpu="1")
    now = BEGIN + timedelta(seconds=two.seconds)
    if written is not None:
        time = f"{now + timedelta(seconds=written):%Y-%m-%dT%H:%M:%SZ}"
        conditions = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": time}]
        two.documents["new"]["status"] = {"conditions": conditions}
    two.bind("new", "node-1")
    assert two.only().time == now + timedelta(seconds=told)

"""One damaged object never costs the others: whatever a cluster looks like, every question has an answer or an error.

The property draws clusters with objects and fields that are missing or odd, references that dangle, names that collide
and statuses that contradict the rest.
"""

import random
from contextlib import suppress

import pytest
from clusters_with_everything import damaged, everything
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from tests.support.tables import cases

from bayplan.core.api.kinds import POD
from bayplan.core.versions import VERSIONS, gates_of
from bayplan.insight import Changes, Foresight, Insight, LimitError, QuestionError, Snapshot, SnapshotError

EVERYTHING = everything()
FRESH = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "fresh", "namespace": "default"},
    "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]},
}
MANIFESTS = [each for each in EVERYTHING if each["kind"] in {"Deployment", "StatefulSet", "Job", "DaemonSet"}]
WORKLOADS = ["deployment/web", "statefulset/db", "job/nightly-28000000", "cronjob/nightly", "daemonset/agent"]
NODES = ("n1", "n2")
CHANGES = {
    "remove a node": Changes(remove_nodes=["n1"]),
    "change nodes": Changes(add_nodes=["1xlike:n1"], uncordon=["n2"], taints=[("n2", "a=b:NoExecute")]),
    "change pods": Changes(delete_pods=["web-5d4-0"], scale=["deployment/web=5"], namespace="default"),
    "place anew": Changes(objects=[FRESH], replace_all=True),
}
OF_PODS, OF_CLUSTERS = 6, 5
"""How many questions of each sort an example asks."""


def questions_about_pods(insight):
    for key in sorted(insight.snapshot.of_kind(POD)):
        yield lambda key=key: insight.explain(key)
        for node in NODES:
            yield lambda key=key, node=node: insight.why_not(key, node)
    for workload in WORKLOADS:
        yield lambda workload=workload: insight.explain_owner(*workload.split("/"))


def questions_about_clusters(insight, whole):
    yield lambda: insight.fit([FRESH, *MANIFESTS])
    yield lambda: insight.capacity([FRESH], most=3)
    yield lambda: insight.drain(["n1"], ignore_daemonsets=True, force=True, delete_emptydir_data=True)
    yield lambda: insight.shrink(force=True)
    yield lambda: insight.scale_up(most=3)
    yield lambda: insight.when_pending(foresight=Foresight(runs=1, autoscaler="karpenter"))
    for changes in CHANGES.values():
        yield lambda changes=changes: insight.what_if(changes)
    yield lambda: insight.balance(most=3)
    yield insight.usage
    yield lambda: insight.diff(whole)
    yield lambda: whole.diff(insight)
    yield lambda: insight.upgrade_preview(gates_of(VERSIONS[-1]))


def answered(ask):
    """Whether a question has an answer, which can be shown."""
    answer = None
    with suppress(QuestionError, LimitError):
        answer = ask()
    if answer is None:
        return False
    assert answer.text()
    answer.to_dict()
    return True


def sample(rng, asks, number):
    asks = list(asks)
    return rng.sample(asks, min(number, len(asks)))


@pytest.fixture(scope="module")
def insights():
    """Two: one that is moved from cluster to cluster, and one of the whole cluster. To make one takes long."""
    return Insight(Snapshot()), Insight(Snapshot.of(EVERYTHING))


@settings(max_examples=15, derandomize=True, phases=[Phase.explicit, Phase.generate])
@given(st.integers(0, 2**32))
def test_one_damaged_object_never_costs_the_others(insights, seed):
    insight, whole = insights
    rng = random.Random(seed)
    try:
        insight.move(Snapshot.of(damaged(EVERYTHING, rng)))
    except SnapshotError:
        return

    assert answered(insight.explain_all)
    for ask in sample(rng, questions_about_pods(insight), OF_PODS):
        answered(ask)
    for ask in sample(rng, questions_about_clusters(insight, whole), OF_CLUSTERS):
        answered(ask)


def without(kind, name):
    return [each for each in EVERYTHING if (each["kind"], each["metadata"]["name"]) != (kind, name)]


def changed(kind, name, *path, value):
    documents = everything()
    holder = next(each for each in documents if (each["kind"], each["metadata"]["name"]) == (kind, name))
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = value
    return documents


FAULTS = {
    "a claim that is not made yet": changed("Pod", "train", "status", value={"phase": "Pending"}),
    "a group without a policy": changed("PodGroup", "trio", "spec", value={}),
    "an owner reference without a kind": changed("Pod", "db-0", "metadata", "ownerReferences", 0, "kind", value=None),
    "a priority class without a value": changed("PriorityClass", "high", "value", value=None),
    "a cron job whose template is a number": changed("CronJob", "nightly", "spec", "jobTemplate", value=7),
    "pods on a node that is gone": without("Node", "n1"),
    "a workload without a spec": changed("StatefulSet", "db", "spec", value=None),
    "a replica set without a spec": changed("ReplicaSet", "web-5d4", "spec", value=None),
    "a template without a spec": changed("DaemonSet", "agent", "spec", "template", "spec", value=None),
    "a claim without a spec": changed("PersistentVolumeClaim", "data-db-0", "spec", value=None),
    "a template of device claims without a spec": changed(
        "ResourceClaimTemplate", "one-gpu", "spec", "spec", value=None
    ),
    "a device claim without a spec": changed("ResourceClaim", "train-c", "spec", value=None),
    "a volume without a spec": changed("PersistentVolume", "pv", "spec", value=None),
    "an owner reference that is null": changed("ReplicaSet", "web-5d4", "metadata", "ownerReferences", value=[None]),
    "a template of claims that is empty": changed("StatefulSet", "db", "spec", "volumeClaimTemplates", 0, value={}),
}


@cases("documents", FAULTS)
def test_odd_object_leaves_all_questions_answered(insights, documents):
    insight, whole = insights
    insight.move(Snapshot.of(documents))

    assert answered(insight.explain_all)
    assert all(answered(lambda key=key: insight.explain(key)) for key in list(insight.world.pending))
    assert answered(lambda: whole.diff(insight))
    assert answered(lambda: insight.diff(whole))
    assert answered(lambda: insight.what_if(CHANGES["place anew"]))
    assert answered(lambda: insight.what_if(CHANGES["change pods"]))
    assert answered(lambda: insight.fit([FRESH, *MANIFESTS]))


LEFT_OUT = {
    "another form": ("CronJob nightly spec.jobTemplate", 7, "spec.jobTemplate is no object"),
    "a cron job without a template": (
        "CronJob nightly spec.jobTemplate.spec",
        None,
        "spec.jobTemplate.spec is missing",
    ),
    "no spec": ("ReplicaSet web-5d4 spec", None, "spec is missing"),
    "a template that is a text": ("Deployment web spec.template", "odd", "spec.template is no object"),
    "another type": ("StatefulSet db spec.replicas", [], "Expected `int | null`, got `array` at spec.replicas"),
    "a quota of another form": ("ResourceQuota quota spec.hard", 3, "Expected `object | null`, got `int` at spec.hard"),
}


@cases("where, value, reason", LEFT_OUT)
def test_object_that_cannot_be_used_is_left_out_with_its_reason(where, value, reason):
    kind, name, path = where.split()
    insight = Insight(Snapshot.of(changed(kind, name, *path.split("."), value=value)))

    assert insight.problems == [f"{kind} default/{name} is left out: {reason}"]

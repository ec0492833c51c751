"""`fit` of what exists already: objects are updated as `kubectl apply` does, and pods as controllers do."""

import json

import pytest
from small_manifests import node
from tests.support.tables import cases

from bayplan.answers.insight.owners import WORKLOADS
from bayplan.answers.snapshots.applying import applied
from bayplan.core.api.well_known_labels import LAST_APPLIED
from bayplan.insight import Insight, Snapshot

SELECTOR = {"matchLabels": {"app": "web"}}


def template(image="i", cpu="1"):
    container = {"name": "c", "image": image, "resources": {"requests": {"cpu": cpu}}}
    return {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}}


def workload(kind, image="i", cpu="1", **spec):
    serving = {"serviceName": "web"} if kind == "StatefulSet" else {}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"selector": SELECTOR, "template": template(image, cpu), **serving, **spec},
    }


def pod(name, owner, node_name="a", cpu="1"):
    controller = "ReplicaSet" if owner == "Deployment" else owner
    labels = {"app": "web", **({"pod-template-hash": "abc"} if owner == "Deployment" else {})}
    reference = {
        "apiVersion": "apps/v1",
        "kind": controller,
        "name": "web-abc" if owner == "Deployment" else "web",
        "uid": "u",
        "controller": True,
    }
    metadata = {"name": name, "namespace": "shop", "labels": labels, "ownerReferences": [reference]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"nodeName": node_name, **template(cpu=cpu)["spec"]},
    }


NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}


def fit(manifests, *cluster, nodes=(("a", "4"),)):
    made = [node(name, cpu) for name, cpu in nodes]
    return Insight(Snapshot.of([*made, NAMESPACE, *cluster])).fit(manifests)


def outcomes(answer):
    return [(each.pod.removeprefix("shop/"), each.outcome, each.node) for each in answer.pods]


OLD = [pod("web-abc-1", "Deployment"), pod("web-abc-2", "Deployment")]


def test_what_exists_is_no_error():
    objects = [
        NAMESPACE,
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "shop"}, "data": {"a": "1"}},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": "shop"}},
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 7},
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}},
        workload("Deployment", replicas=2),
    ]

    once = fit(objects, *objects[:-1])
    assert [each.outcome for each in once.pods] == ["placed"] * 2
    assert once.refused == ()
    assert [each.outcome for each in fit([*objects, *objects]).pods] == ["placed"] * 2


def test_unchanged_pods_stay():
    answer = fit([workload("Deployment", replicas=2)], workload("Deployment", replicas=2), *OLD, nodes=[("a", "2")])

    assert outcomes(answer) == [("web-abc-1", "placed", "a"), ("web-abc-2", "placed", "a")]


def test_only_missing_pods_are_new():
    answer = fit([workload("Deployment", replicas=4)], workload("Deployment", replicas=2), *OLD, nodes=[("a", "3")])

    assert [outcome for _, outcome, _ in outcomes(answer)] == ["placed", "placed", "placed", "pending"]


def test_surplus_pods_make_room():
    other = {**workload("Deployment", replicas=1), "metadata": {"name": "api", "namespace": "shop"}}
    manifests = [workload("Deployment", replicas=1), other]
    answer = fit(manifests, workload("Deployment", replicas=2), *OLD, nodes=[("a", "2")])

    assert [outcome for _, outcome, _ in outcomes(answer)] == ["placed", "placed"]


def strategy(surge, unavailable):
    return {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}


ROLLOUTS = {
    "surge needs room": (strategy(1, 0), "2", ["pending", "pending"]),
    "surge with room": (strategy(1, 0), "3", ["placed", "placed"]),
    "old pods go first": (strategy(0, 1), "2", ["placed", "placed"]),
    "a pod that waits gets the room of the last old one": (strategy(2, 1), "2", ["placed", "placed"]),
    "recreate": ({"type": "Recreate"}, "2", ["placed", "placed"]),
}


@cases("how, cpu, expected", ROLLOUTS)
def test_new_template_is_rolled_out(how, cpu, expected):
    new = workload("Deployment", "new", replicas=2, strategy=how)
    answer = fit([new], workload("Deployment", replicas=2, strategy=how), *OLD, nodes=[("a", cpu)])

    assert [outcome for _, outcome, _ in outcomes(answer)] == expected
    if expected == ["pending", "pending"]:
        first, second = answer.pods
        assert "Insufficient cpu" in first.message
        assert second.message == f"not created: the rollout of deployment shop/web waits for {first.pod}"


def test_pods_of_a_stateful_set_are_replaced_one_by_one():
    old = [pod(f"web-{number}", "StatefulSet") for number in range(3)]
    before = workload("StatefulSet", replicas=3)
    fits = fit([workload("StatefulSet", "new", replicas=3)], before, *old, nodes=[("a", "3")])
    assert outcomes(fits) == [(f"web-{number}", "placed", "a") for number in range(3)]

    large = fit([workload("StatefulSet", "new", "2", replicas=3)], before, *old, nodes=[("a", "3")])
    assert [(name, outcome) for name, outcome, _ in outcomes(large)] == [
        ("web-0", "pending"),
        ("web-1", "pending"),
        ("web-2", "pending"),
    ]
    assert "Insufficient cpu" in large.pods[2].message
    assert large.pods[0].message == "not created: the rollout of statefulset shop/web waits for shop/web-2"

    partition = {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}
    part = fit([workload("StatefulSet", "new", replicas=4, updateStrategy=partition)], before, *old)
    assert sorted(outcomes(part)) == [(f"web-{number}", "placed", "a") for number in range(4)]


PENDING = [pod("web-0", "StatefulSet", ""), *(pod(f"web-{number}", "StatefulSet") for number in (1, 2))]


@cases(
    "spec, cpu, placed, waits",
    {
        # An ordered StatefulSet waits for web-0, which waits for room, before it replaces another pod.
        "ordered": ({}, "500m", [], "web-0"),
        "parallel": ({"podManagementPolicy": "Parallel"}, "500m", ["web-0", "web-1", "web-2"], ""),
        "parallel, a large one": ({"podManagementPolicy": "Parallel"}, "1500m", [], "web-2"),
        "maxUnavailable counts web-0": (
            {
                "podManagementPolicy": "Parallel",
                "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}},
            },
            "500m",
            [],
            "web-0",
        ),
    },
)
def test_rollout_of_a_stateful_set_with_pending_pods(spec, cpu, placed, waits):
    before = workload("StatefulSet", replicas=3, **spec)
    before["spec"]["template"] = template(cpu="1")
    new = workload("StatefulSet", "new", cpu, replicas=3, **spec)

    answer = fit([new], before, *PENDING, nodes=[("a", "2")])

    assert sorted(name for name, outcome, _ in outcomes(answer) if outcome == "placed") == placed
    assert len(answer.pods) == 3
    assert answer.fits is not bool(waits)
    assert any(each.message.endswith(f"waits for shop/{waits}") for each in answer.pods) is bool(waits)


def test_ordered_stateful_set_makes_no_more_pods_while_one_is_pending():
    before = workload("StatefulSet", replicas=3)

    for policy, expected in (("OrderedReady", "pending"), ("Parallel", "placed")):
        grown = workload("StatefulSet", replicas=4, podManagementPolicy=policy)
        before["spec"]["podManagementPolicy"] = policy
        large = pod("web-0", "StatefulSet", "", cpu="3")
        answer = fit([grown], before, large, *PENDING[1:], nodes=[("a", "3")])

        assert {name: outcome for name, outcome, _ in outcomes(answer)}["web-3"] == expected


def test_daemon_pods_are_replaced_node_by_node():
    nodes = [("a", "1"), ("b", "1"), ("c", "1")]
    old = [pod("web-x", "DaemonSet", "b"), pod("web-y", "DaemonSet", "a")]
    answer = fit([workload("DaemonSet", "new")], workload("DaemonSet"), *old, nodes=nodes)

    assert sorted(node_name for _, _, node_name in outcomes(answer)) == ["a", "b", "c"]
    same = fit([workload("DaemonSet")], workload("DaemonSet"), *old, nodes=nodes)
    assert sorted(each[2] for each in outcomes(same)) == ["a", "b", "c"]
    assert {"web-x", "web-y"} < {each[0] for each in outcomes(same)}


def test_daemon_pods_that_do_not_run_are_replaced_first():
    """More of them than may be unavailable: the controller replaces them nevertheless."""
    nodes = [("a", "2"), ("b", "2"), ("c", "2")]
    old = [pod("web-x", "DaemonSet", "a"), *(waiting(f"web-{name}", name) for name in "bc")]
    full = [pod(f"full-{name}", "Job", name, cpu="1500m") for name in "bc"]
    small = fit([workload("DaemonSet", cpu="500m")], workload("DaemonSet"), *old, *full, nodes=nodes)

    assert [(outcome, node_name) for _, outcome, node_name in sorted(outcomes(small), key=lambda each: each[2])] == [
        ("placed", "a"),
        ("placed", "b"),
        ("placed", "c"),
    ]


def waiting(name, node_name):
    """A pod of a DaemonSet that finds no room on its node."""
    made = pod(name, "DaemonSet", "")
    field = {"key": "metadata.name", "operator": "In", "values": [node_name]}
    terms = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    made["spec"] |= {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}
    return made


def test_existing_pod_stays_and_may_not_change():
    old = {**pod("solo", "Deployment"), "metadata": {"name": "solo", "namespace": "shop"}}
    manifest = {**old, "spec": template()["spec"]}
    assert outcomes(fit([manifest], old)) == [("solo", "placed", "a")]

    other = {**old, "spec": template(cpu="2")["spec"]}
    answer = fit([other, workload("Deployment", replicas=1)], old)
    assert "pod updates may not change fields" in answer.refused[0].message
    assert not answer.fits


@pytest.mark.parametrize("kind", WORKLOADS, ids=lambda kind: kind.singular)
def test_every_workload_can_be_applied_twice(kind):
    pods = {**template(), "spec": {**template()["spec"], "restartPolicy": "Never"}}
    spec = {
        "Job": {"template": pods},
        "CronJob": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": pods}}},
        "ReplicationController": {"selector": {"app": "web"}, "template": template()},
    }.get(kind.kind, workload(kind.kind)["spec"])
    document = {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": spec,
    }
    assert [each.outcome for each in fit([document], document).pods] == ["placed"]


def test_applying_removes_what_the_last_configuration_had():
    kind = next(each for each in WORKLOADS if each.kind == "Deployment")
    last = workload("Deployment", replicas=5, paused=True)
    last["spec"]["template"]["spec"] |= {
        "nodeSelector": {"a": "1", "b": "2"},
        "containers": [{"name": "c", "image": "i"}, {"name": "gone", "image": "i"}],
        "tolerations": [{"key": "x"}],
    }
    live = json.loads(json.dumps(last))
    live["metadata"]["annotations"] = {LAST_APPLIED: json.dumps(last), "other": "stays"}
    live["spec"]["template"]["spec"]["containers"].append({"name": "injected", "image": "i"})
    manifest = workload("Deployment", "new")
    manifest["spec"]["template"]["spec"] |= {"nodeSelector": {"a": "1"}}

    done = applied(kind, live, manifest)
    spec = done["spec"]["template"]["spec"]
    assert "replicas" not in done["spec"]
    assert "paused" not in done["spec"]
    assert spec["nodeSelector"] == {"a": "1"}
    assert [(each["name"], each["image"]) for each in spec["containers"]] == [("c", "new"), ("injected", "i")]
    assert "tolerations" not in spec
    assert done["metadata"]["annotations"]["other"] == "stays"

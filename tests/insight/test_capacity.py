"""How many more pods fit."""

import pytest
from small_clusters import ZONE, Maker
from tests.support.documents import of_kind
from tests.support.tables import cases

from bayplan.answers.insight.answers import Stopped
from bayplan.answers.simulation.replicas import Replicas
from bayplan.core.executor.attempts import AttemptDriver
from bayplan.insight import Insight, QuestionError, Snapshot


def node(name, cpu="4", **labels):
    room = {"cpu": cpu, "memory": "8Gi", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, ZONE: f"zone-{name}", **labels}},
        "status": {"allocatable": room, "capacity": room},
    }


def pod(name="web", cpu="1", **spec):
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    metadata = {"name": name, "namespace": "default", "labels": {"app": name}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container], **spec}}


def apart(name="web"):
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": name}}}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def ask(objects, *kinds, **options):
    return Insight(Snapshot.of(objects)).capacity(*kinds, **options)


def test_counts_pods_by_node_zone_pool_and_label():
    nodes = [node("a", disk="ssd", agentpool="x"), node("b", "2", disk="ssd", agentpool="y"), node("c", "0")]

    answer = ask(nodes, [pod()], labels=["disk"])

    assert answer.to_dict() == {
        "fits": 6,
        "kinds": [{"kind": "pod web", "ratio": 1, "fits": 6}],
        "stopped": "",
        "blocked": "pod web",
        "message": "0/3 nodes are available: 3 Insufficient cpu.",
        "groups": [
            {"plugin": "NodeResourcesFit", "reasons": ["Insufficient cpu"], "nodes": ["a", "b", "c"], "details": []}
        ],
        "by": {
            "node": {"a": {"pod web": 4}, "b": {"pod web": 2}},
            "zone": {"zone-a": {"pod web": 4}, "zone-b": {"pod web": 2}},
            "pool": {"x": {"pod web": 4}, "y": {"pod web": 2}},
            "disk": {"ssd": {"pod web": 6}},
        },
    }
    assert [row["pod web"] for row in answer.rows()] == [4, 2]


@cases(
    "spec, fits",
    {
        "alone": ({}, 6),
        "anti-affinity": ({"affinity": apart()}, 2),
        "spread": (
            {
                "topologySpreadConstraints": [
                    {
                        "maxSkew": 1,
                        "topologyKey": ZONE,
                        "whenUnsatisfiable": "DoNotSchedule",
                        "labelSelector": {"matchLabels": {"app": "web"}},
                    }
                ]
            },
            5,
        ),
    },
)
def test_pods_that_depend_on_each_other_are_placed_one_by_one(spec, fits):
    assert ask([node("a"), node("b", "2")], [pod(**spec)]).sets == fits


def test_existing_pods_take_room_also_pending_ones():
    bound, pending = pod("old", "2", nodeName="a"), pod("waiting", "1")

    assert ask([node("a"), bound, pending], [pod()]).sets == 1


def test_preempts_only_if_asked():
    objects = [node("a"), pod("old", "4", nodeName="a")]
    urgent = pod(priority=10)

    assert ask(objects, [urgent]).sets == 0
    assert ask(objects, [urgent], preempt=True).sets == 4


def test_sets_are_placed_as_a_whole():
    answer = ask([node("a", "5")], [pod("web", "1")], [pod("db", "2")], ratio=[1, 1])

    assert answer.sets == 1
    assert answer.blocked == "pod db"
    assert answer.by("node") == {"a": {"pod web": 1, "pod db": 1}}


def test_a_gang_is_placed_as_a_whole():
    group = {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "crew", "namespace": "default"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 3}}},
    }
    members = [pod(f"crew-{number}", schedulingGroup={"podGroupName": "crew"}) for number in range(3)]

    answer = ask([node("a"), node("b")], [group, *members])

    assert answer.sets == 2
    assert sum(each.fits["pod crew-0"] for each in answer.nodes) == 6


def test_each_replica_of_a_stateful_set_has_its_own_volume():
    storage = of_kind(
        "StorageClass", "local", provisioner="kubernetes.io/no-provisioner", volumeBindingMode="WaitForFirstConsumer"
    )
    terms = [{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["a"]}]}]
    volumes = [
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": f"disk-{number}"},
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "local",
                "local": {"path": "/data"},
                "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
            },
            "status": {"phase": "Available"},
        }
        for number in range(3)
    ]
    template = pod()
    claim = {
        "metadata": {"name": "data"},
        "spec": {
            "storageClassName": "local",
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    stateful_set = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "db", "namespace": "default"},
        "spec": {
            "serviceName": "db",
            "replicas": 5,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": template["spec"]},
            "volumeClaimTemplates": [claim],
        },
    }

    answer = ask([node("a"), node("b"), storage, *volumes], [stateful_set])

    assert answer.sets == 3
    assert "didn't find available persistent volumes to bind" in answer.message


def test_each_pod_has_the_claim_that_is_made_for_it():
    device_class = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {}}
    devices = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": "a-gpus"},
        "spec": {
            "driver": "gpu.example.com",
            "nodeName": "a",
            "pool": {"name": "a", "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "gpu-0"}, {"name": "gpu-1"}],
        },
    }
    template = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "one-gpu", "namespace": "default"},
        "spec": {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}}},
    }
    wanting = pod(resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}])
    wanting["spec"]["containers"][0]["resources"]["claims"] = [{"name": "gpu"}]

    answer = ask([node("a"), node("b"), device_class, devices], [template, wanting])

    assert answer.by("node") == {"a": {"pod web": 2}}


@pytest.mark.parametrize("seed", range(30))
def test_replicas_get_the_nodes_that_attempts_would_choose(seed, monkeypatch):
    make = Maker(seed)
    nodes = [make.node(f"n{number}") for number in range(make.rng.randint(3, 16))]
    old = [make.pod(f"old-{number}", node=f"n{number % len(nodes)}") for number in range(8)]
    pending = [make.pod(f"pending-{number}") for number in range(3)]
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a", "namespace": "default"}}
    service["spec"] = {"selector": {"app": "a"}}  # pods that it selects have default spread constraints
    insight = Insight(Snapshot.of([*nodes, *old, *pending, *([service] if seed % 3 else [])]), seed=seed)
    new = make.pod("new")
    new["metadata"]["labels"] = {"app": "a"}
    most = make.rng.choice([None, 10])

    answer = insight.capacity([new], most=most).to_dict()

    monkeypatch.setattr(Replicas, "of", lambda *_: None)
    assert insight.capacity([new], most=most).to_dict() == answer


def test_only_the_first_replica_is_attempted(monkeypatch):
    attempts = []
    attempt = AttemptDriver.plan
    monkeypatch.setattr(
        AttemptDriver, "plan", lambda *args, **options: attempts.append(args) or attempt(*args, **options)
    )
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "default"}}
    service["spec"] = {"selector": {"app": "web"}}

    assert ask([service, *(node(name, "16") for name in "abcdef")], [pod()]).sets == 96
    assert len(attempts) == 2  # the first one, and the last, which does not fit


def test_replicas_are_kept_apart_without_attempts(monkeypatch):
    attempts = []
    attempt = AttemptDriver.plan
    monkeypatch.setattr(
        AttemptDriver, "plan", lambda *args, **options: attempts.append(args) or attempt(*args, **options)
    )
    pending = [pod(affinity=apart()) for _ in range(3)]
    for number, each in enumerate(pending):  # of the same kind, so that there are results to reuse
        each["metadata"] = {**each["metadata"], "name": f"web-{number}"}
    nodes = [node(f"n{number}") for number in range(20)]

    answer = ask([*nodes, pod(nodeName="n7"), *pending], [pod(affinity=apart())])

    assert answer.sets == 20 - 1 - 3
    assert max(placed["pod web"] for placed in answer.by("node").values()) == 1
    assert "n7" not in answer.by("node")
    assert len(attempts) < 8


def test_stops_at_the_limit():
    answer = ask([node("a"), node("b")], [pod()], most=3)

    assert (answer.sets, answer.stopped, answer.message) == (3, "limit", "")
    assert "the limit is reached" in answer.text()


def test_interrupted_question_has_what_is_known_so_far():
    calls = []

    def progress(text):
        calls.append(text)
        if len(calls) == 3:
            raise Stopped

    answer = ask([node("a")], [pod()], progress=progress)

    assert (answer.sets, answer.stopped) == (2, "interrupted")
    assert calls == ["0 pods fit", "1 pods fit", "2 pods fit"]


def test_the_next_question_sees_the_cluster_without_the_pods():
    insight = Insight(Snapshot.of([node("a")]))

    assert insight.capacity([pod()]).sets == insight.capacity([pod()]).sets == 4


@pytest.mark.parametrize(
    ("kinds", "options", "message"),
    [
        ([[node("x")]], {}, "the manifests have no pods; expected a pod or a workload"),
        ([[pod()]], {"ratio": [1, 2]}, "the ratio has 2 numbers for 1 kind of pods"),
        ([[pod()]], {"ratio": [0]}, "ratio 0: expected at least 1"),
        ([[{"kind": "DaemonSet", "apiVersion": "apps/v1"}]], {}, "a DaemonSet has one pod on each node"),
    ],
)
def test_rejects_kinds_that_cannot_be_counted(kinds, options, message):
    with pytest.raises(QuestionError, match=message):
        ask([node("a")], *kinds, **options)

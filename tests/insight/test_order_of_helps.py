"""The helps of `explain` are ordered: what lasts, then the fewest changes, then the fewest evictions."""

from bayplan_documents import document, node, pod

from bayplan.insight import Insight, Snapshot

ZONE = "topology.kubernetes.io/zone"
SPREAD = {
    "maxSkew": 1,
    "topologyKey": ZONE,
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {"app": "web"}},
}
TAINT = {"key": "dedicated", "value": "x", "effect": "NoSchedule"}


def helps(*objects, name="p"):
    return [each.text for each in Insight(Snapshot.of(objects)).explain(f"default/{name}").help]


def deployment(replicas, requests, strategy=None, **spec):
    container = {"name": "c", "image": "i", "resources": {"requests": requests}}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container], **spec}}
    fields = {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    made = document("Deployment", "web", "apps/v1", spec=fields | ({"strategy": strategy} if strategy else {}))
    made["metadata"]["uid"] = "web"
    return made


def replica(name, revision="aaa", on=None, **spec):
    made = pod(name, on, owner=("ReplicaSet", f"web-{revision}"), **spec)
    made["metadata"] |= {"labels": {"app": "web", "pod-template-hash": revision}, "uid": name}
    return made


def test_rollout_that_gets_stuck_comes_last_and_says_so():
    nodes = [node("na", cpu="500m"), node("nb", cpu="16"), node("nc", cpu="16")]
    for each in nodes:
        each["metadata"]["labels"][ZONE] = each["metadata"]["name"][1]
    places = ["nb", "nc", *[None] * 7]
    pods = [replica(f"p-{number}", on=on, topologySpreadConstraints=[SPREAD]) for number, on in enumerate(places)]
    insight = Insight(Snapshot.of([*nodes, deployment(9, {"cpu": "1"}, topologySpreadConstraints=[SPREAD]), *pods]))

    found = insight.explain("default/p-8").help
    owner = insight.explain_owner("deployment", "web")

    assert found[0].change.text == f"set whenUnsatisfiable to ScheduleAnyway in the pod's spread over {ZONE}"
    assert [each.lasts for each in found] == sorted((each.lasts for each in found), reverse=True)
    assert "the rollout of deployment default/web gets stuck: 4 of 9 pods run then" in found[-1].text
    assert owner.causes[0].example.help[0].lasts


def test_request_is_not_cut_to_a_tiny_part():
    assert helps(node("n1"), pod("web", "n1", cpu="3650m", priority=9), pod("p", cpu="4")) == [
        "add a node like n1 -> n1-new"
    ]
    assert helps(node("n1"), pod("web", "n1", cpu="2", priority=9), pod("p", cpu="4")) == [
        "let the pod request only 2 cpu -> n1",
        "add a node like n1 -> n1-new",
    ]


def test_one_change_that_lets_the_pod_preempt_comes_before_two():
    low = pod("low", "n1", cpu="3", priority=1)
    nodes = [node("n1", taints=[TAINT]), node("n2", cpu="1")]

    found = helps(*nodes, low, pod("p", cpu="2", priority=5))

    toleration = "add a toleration of dedicated=x:NoSchedule to the pod"
    assert f"{toleration} -> n1 (it then preempts default/low: evicts 1 pod of default)" in found
    two = [" and " in each for each in found]
    assert two == sorted(two)
    assert any(two)


def test_old_pod_may_go_before_a_new_one_comes():
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    old = [replica(f"old-{number}", on=on, cpu="2") for number, on in enumerate(["n1", "n1", "n2"])]
    new = replica("p", "bbb", cpu="2")
    sets = []
    for revision in ("aaa", "bbb"):
        made = document("ReplicaSet", f"web-{revision}", "apps/v1", spec={"replicas": 3, "selector": {}})
        reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "web", "controller": True}
        made["metadata"]["ownerReferences"] = [reference]
        sets.append(made)

    found = helps(node("n1"), node("n2", cpu="2"), deployment(3, {"cpu": "2"}, strategy), *sets, *old, new)

    assert found[-1].startswith("set maxSurge to 0 and maxUnavailable to 1 in deployment default/web -> n1")
    assert found[-1].endswith("(an old pod goes before each new one comes)")
    assert not any("delete pod" in each for each in found)  # the Deployment would make them again


def test_pods_that_hang_are_force_deleted():
    hangs = pod("old", "n1", cpu="3")
    hangs["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"

    found = helps(node("n1"), hangs, pod("p", cpu="4", preemptionPolicy="Never"))

    since = "its grace period ended at 2026-01-01T00:00:00Z"
    assert found[0] == f"force-delete pod default/old on n1, which hangs: {since} -> n1"


def test_explanation_of_a_workload_names_the_victims_of_its_pod():
    pods = [pod(f"low-{number}", f"n{number}", cpu="3", priority=1) for number in range(4)]
    nodes = [node(f"n{number}") for number in range(4)]
    waiting = [replica(f"p-{number}", cpu="3", priority=9) for number in range(3)]
    insight = Insight(Snapshot.of([*nodes, *pods, *waiting]))

    example = insight.explain_owner("replicaset", "web-aaa").causes[0].example

    assert example.to_dict()["victims"] == list(insight.explain(example.pod).victims)

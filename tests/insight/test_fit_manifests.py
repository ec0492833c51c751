"""The pods that manifests lead to, and whether they fit."""

import json

import pytest
from click.testing import CliRunner
from tests.support.documents import of_kind
from tests.support.tables import cases

from bayplan.faces.cli import main
from bayplan.insight import Insight, QuestionError, Snapshot

NODES = [
    {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "pool": name}},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}},
    }
    for name in ("a", "b")
]
TEMPLATE = {
    "metadata": {"labels": {"app": "web"}},
    "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]},
}
SELECTOR = {"matchLabels": {"app": "web"}}


def workload(api_version, kind, **spec):
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "web"}, "spec": spec}


def job(**spec):
    template = {**TEMPLATE, "spec": {**TEMPLATE["spec"], "restartPolicy": "Never"}}
    return workload("batch/v1", "Job", template=template, **spec)


def asked(*objects):
    return Insight(Snapshot.of([*NODES, *objects]))


DEPLOYMENT = workload("apps/v1", "Deployment", replicas=3, selector=SELECTOR, template=TEMPLATE)
REPLICAS = {"replicas": 2, "selector": SELECTOR, "template": TEMPLATE}
CRON_JOB = workload("batch/v1", "CronJob", schedule="* * * * *", jobTemplate={"spec": job()["spec"]})
PODS = {
    "pod": ({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": TEMPLATE["spec"]}, 1),
    "deployment": (DEPLOYMENT, 3),
    "replica set": (workload("apps/v1", "ReplicaSet", **REPLICAS), 2),
    "stateful set": (workload("apps/v1", "StatefulSet", serviceName="web", **REPLICAS), 2),
    "daemon set": (workload("apps/v1", "DaemonSet", selector=SELECTOR, template=TEMPLATE), 2),
    "job": (job(parallelism=5, completions=3), 3),
    "job without numbers": (job(), 1),
    "suspended job": (job(parallelism=5, suspend=True), 0),
    "indexed job": (job(parallelism=2, completions=2, completionMode="Indexed"), 2),
    "cron job": (CRON_JOB, 1),
    "list": ({"apiVersion": "v1", "kind": "List", "items": [DEPLOYMENT]}, 3),
    "no pods": ({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": {"ports": []}}, 0),
}


@cases("document, number", PODS)
def test_manifest_leads_to_pods(document, number):
    if document["kind"] == "Service":
        document["spec"]["ports"] = [{"port": 80}]
    answer = asked().fit([document])
    assert [each.outcome for each in answer.pods] == ["placed"] * number
    assert answer.fits
    assert all(each.pod.startswith("default/web") for each in answer.pods)
    assert asked().fit([document]) == answer, "names are repeatable"


def test_daemon_pods_go_to_their_nodes():
    template = {**TEMPLATE, "spec": {**TEMPLATE["spec"], "nodeSelector": {"pool": "b"}}}
    answer = asked().fit([workload("apps/v1", "DaemonSet", selector=SELECTOR, template=template)])
    assert [each.node for each in answer.pods] == ["b"]


def test_priority_comes_from_the_class():
    high = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 7}
    full = {**TEMPLATE["spec"], "containers": [{**TEMPLATE["spec"]["containers"][0]}], "nodeName": "a"}
    full["containers"][0]["resources"] = {"requests": {"cpu": "4"}}
    bound = [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"full-{name}"}, "spec": {**full, "nodeName": name}}
        for name in ("a", "b")
    ]
    spec = {**TEMPLATE["spec"], "priorityClassName": "high"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": spec}
    (answer,) = asked(high, *bound).fit([pod]).pods
    assert (answer.outcome, len(answer.victims)) == ("preempts", 1)
    assert answer.message.startswith("0/2 nodes are available: 2 Insufficient cpu.")


def test_claims_of_templates_and_ephemeral_volumes_are_created():
    late = of_kind("StorageClass", "late", provisioner="csi.example.com", volumeBindingMode="WaitForFirstConsumer")
    at_once = {**late, "metadata": {"name": "at-once"}, "volumeBindingMode": "Immediate"}
    sizes = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    scratch = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {**sizes, "storageClassName": "late"}}}}
    template = {**TEMPLATE, "spec": {**TEMPLATE["spec"], "volumes": [scratch]}}
    claims = [{"metadata": {"name": "data"}, "spec": {**sizes, "storageClassName": "at-once"}}]
    document = workload(
        "apps/v1",
        "StatefulSet",
        serviceName="web",
        **{**REPLICAS, "template": template, "volumeClaimTemplates": claims},
    )
    assert asked(late, at_once).fit([document]).fits


BAD = {
    "invalid object": (
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "Web"}, "spec": TEMPLATE["spec"]},
        r'object 1 \(Pod Web\): Pod "Web" is invalid: metadata\.name: Invalid value',
    ),
    "value of another type": (
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": {"priority": "high"}},
        r"object 1 \(Pod web\): Pod in version \"v1\" cannot be handled as a Pod: json: cannot unmarshal string",
    ),
}


@cases("document, problem", BAD)
def test_bad_manifest_is_reported(document, problem):
    old = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "old"}, "spec": {**TEMPLATE["spec"]}}
    with pytest.raises(QuestionError, match=problem):
        asked(old).fit([document])


PRIORITY = {"priorityClassName": "x"}
HIGH = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1000}
QUOTA = of_kind("ResourceQuota", "q", metadata={"namespace": "default"}, spec={"hard": {"requests.cpu": "2"}})
LIMITS = of_kind(
    "LimitRange", "l", metadata={"namespace": "default"}, spec={"limits": [{"type": "Container", "min": {"cpu": "2"}}]}
)


def with_spec(**spec):
    template = {**TEMPLATE, "spec": {**TEMPLATE["spec"], **spec}}
    return workload("apps/v1", "Deployment", replicas=3, selector=SELECTOR, template=template)


def a_pod(name="one", **spec):
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {**TEMPLATE["spec"], **spec}}


REFUSALS = {
    "unknown class of a pod": ([], [a_pod(**PRIORITY)], 1, "no PriorityClass with name x was found"),
    "class with a similar name": ([HIGH], [a_pod(priorityClassName="higgh")], 1, "found: did you mean 'high'?"),
    "unknown class of a workload": ([], [with_spec(**PRIORITY)], 3, "no PriorityClass with name x was found"),
    "quota of the cluster": ([QUOTA], [DEPLOYMENT], 1, "exceeded quota: q, requested: requests.cpu=1, used: "),
    "quota of the file": ([], [DEPLOYMENT, QUOTA], 1, "exceeded quota: q, requested: requests.cpu=1, used: requests"),
    "quota and running pods": ([QUOTA, a_pod("old", nodeName="a")], [DEPLOYMENT], 2, "used: requests.cpu=2, limited"),
    "limits of the cluster": ([LIMITS], [DEPLOYMENT], 3, "minimum cpu usage per Container is 2, but request is 1"),
    "quota of another namespace": ([{**QUOTA, "metadata": {"name": "q", "namespace": "b"}}], [DEPLOYMENT], 0, ""),
}


@cases("cluster, objects, refused, message", REFUSALS)
def test_refused_pod_costs_only_itself(cluster, objects, refused, message):
    answer = asked(*cluster).fit([*objects, a_pod("other") | {"metadata": {"name": "other", "namespace": "c"}}])
    outcomes = [each.outcome for each in answer.pods]

    assert outcomes.count("refused") == refused
    assert "other" in [each.pod.partition("/")[2] for each in answer.pods if each.outcome == "placed"]
    assert all(message in each.message for each in answer.pods if each.outcome == "refused")
    assert answer.fits is not bool(refused)


def test_refused_object_costs_only_itself():
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "Web"}, "spec": {"ports": [{"port": 80}]}}
    answer = asked().fit([service, DEPLOYMENT])

    assert [each.outcome for each in answer.pods] == ["placed"] * 3
    assert [each.what for each in answer.refused] == ["object 1 (Service Web)"]
    assert not answer.fits
    assert "refused: object 1 (Service Web): Service" in answer.text(width=1000)


@pytest.mark.parametrize(("name", "outcome"), [("a", "placed"), ("c", "pending")])
def test_node_name_of_a_pod_must_exist(name, outcome):
    (answer,) = asked().fit([a_pod(nodeName=name)]).pods

    assert answer.outcome == outcome
    assert answer.message.startswith(f"spec.nodeName is {name}")
    assert ("there is no such node" in answer.message) is (outcome == "pending")


SIZE = {"requests": {"storage": "1Gi"}}
MANUAL = {"accessModes": ["ReadWriteOnce"], "storageClassName": "manual"}


def claim(**spec):
    spec = {**MANUAL, "resources": SIZE, **spec}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}, "spec": spec}


def volume(size="2Gi", **spec):
    spec = {**MANUAL, "capacity": {"storage": size}, "hostPath": {"path": "/x"}, **spec}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pv"}, "spec": spec}


RESERVED = {"claimRef": {"namespace": "default", "name": "data"}}
ON_B = {
    "nodeAffinity": {
        "required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "pool", "operator": "In", "values": ["b"]}]}]}
    }
}
STATIC = {
    "claim first": ([claim(), volume()], True),
    "volume first": ([volume(), claim()], True),
    "no class": ([volume(storageClassName=""), claim(storageClassName="")], True),
    "named volume": ([volume(), claim(volumeName="pv")], True),
    "reserved volume": ([volume(**RESERVED), claim()], True),
    "reserved for another": ([volume(claimRef={"namespace": "default", "name": "x"}), claim()], False),
    "named volume of another": ([volume(claimRef={"namespace": "x", "name": "x"}), claim(volumeName="pv")], False),
    "too small": ([volume("500Mi"), claim()], False),
    "another class": ([volume(storageClassName="other"), claim()], False),
    "volume of one node": ([volume(**ON_B), claim()], True),
}


@cases("objects, fits", STATIC)
def test_static_volume_of_the_file_is_bound(objects, fits):
    pod = a_pod(volumes=[{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}])
    answer = asked().fit([*objects, pod])

    assert answer.fits is fits
    if any("nodeAffinity" in each["spec"] for each in objects):
        assert answer.pods[0].node == "b"


def test_new_volume_is_bound_to_a_claim_that_waits():
    pod = a_pod(volumes=[{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}])

    assert asked(claim()).fit([volume(), pod]).fits


# The command line


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cluster.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": NODES}))
    (tmp_path / "web.json").write_text(json.dumps(DEPLOYMENT))
    large = {**DEPLOYMENT, "spec": {**DEPLOYMENT["spec"], "replicas": 9}}
    (tmp_path / "large.json").write_text(json.dumps(large))
    (tmp_path / "broken.yaml").write_text("kind: [")
    return tmp_path


def called(*arguments, stdin=None):
    result = CliRunner().invoke(main, [*arguments, "--from", "cluster.json"], input=stdin)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exc_info
    return result


def test_fit_exits_with_0_or_1(folder):
    fits = called("fit", "-f", "web.json", "-o", "json")
    answer = json.loads(fits.stdout)
    assert (fits.exit_code, answer["fits"], [each["outcome"] for each in answer["pods"]]) == (0, True, ["placed"] * 3)
    assert answer["pods"][0].keys() == {"pod", "outcome", "node", "victims", "message", "chance"}
    some = called("fit", "-f", "large.json", "-o", "json")
    outcomes = [each["outcome"] for each in json.loads(some.stdout)["pods"]]
    assert (some.exit_code, outcomes) == (1, ["placed"] * 8 + ["pending"])


def test_fit_reads_standard_input_and_uses_the_namespace(folder):
    result = called("fit", "-f", "-", "-n", "shop", "-o", "json", stdin=json.dumps(DEPLOYMENT))
    assert {each["pod"].partition("/")[0] for each in json.loads(result.stdout)["pods"]} == {"shop"}


MISTAKES = {
    "no such pod": (["explain", "x"], "there is no pod default/x"),
    "no such workload": (["explain", "deployment/x"], "there is no deployment default/x with pods"),
    "no workload": (["explain", "service/x"], "expected a pod, or one of deployment"),
    "nothing": (["explain"], "expected a pod, a workload such as deployment/web, or --all-pending"),
    "no such manifest": (["fit", "-f", "x.yaml"], "x.yaml: No such file or directory"),
    "broken manifest": (["fit", "-f", "broken.yaml"], "broken.yaml, document 1 (line 1): not valid YAML"),
    "workload for a pod": (["why-not", "deployment/x", "a"], "expected a pod, as in web-0 or pod/web-0"),
}


@cases("arguments, message", MISTAKES)
def test_mistake_ends_with_status_2_and_one_message(folder, arguments, message):
    result = called(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize("output", ["table", "wide", "html"])
def test_every_output_names_the_nodes(folder, output):
    result = called("fit", "-f", "web.json", "-o", output)
    assert result.exit_code == 0
    assert "3 of 3 pods would be placed" in result.stdout


@pytest.mark.parametrize(
    ("scheduler", "fits"), [("default-scheduler", True), ("bayplan-scheduler", True), ("x", False)]
)
def test_default_configuration_has_the_schedulers_of_kubernetes_and_bayplan(scheduler, fits):
    template = {**TEMPLATE, "spec": {**TEMPLATE["spec"], "schedulerName": scheduler}}
    deployment = workload("apps/v1", "Deployment", replicas=1, selector=SELECTOR, template=template)
    assert asked().fit([deployment]).fits is fits


@pytest.mark.parametrize(
    ("field", "document"),
    [
        ("spec.nodeselector", a_pod(nodeselector={"a": "b"})),
        ("spec.template.spec.tolerationss", with_spec(tolerationss=[])),
        ("spec.replicass", workload("apps/v1", "Deployment", **DEPLOYMENT["spec"], replicass=2)),
    ],
    ids=["pod", "template", "workload"],
)
def test_unknown_field_is_an_error_with_its_place(folder, field, document):
    (folder / "typo.json").write_text(json.dumps(document))

    result = called("fit", "-f", "typo.json", "--from", "cluster.json")

    assert result.exit_code == 2
    assert f'strict decoding error: unknown field "{field}"' in result.output
    assert "typo.json, document 1 (line 1): " in result.output


def test_generated_names_are_free():
    replicas = workload("apps/v1", "ReplicaSet", replicas=3, selector=SELECTOR, template=TEMPLATE)
    first = asked().fit([replicas]).pods
    there = [{**a_pod(each.pod.partition("/")[2]), "spec": {**a_pod()["spec"], "nodeName": "a"}} for each in first]

    again = asked(*there).fit([replicas]).pods

    assert len({each.pod for each in first}.union(each.pod for each in again)) == 6

"""The pages about workloads, and the links to them."""

import pytest
from served_page import node, page_of, pod, served, served_objects

from bayplan.answers.snapshots.rights import EFFECTS
from bayplan.core.api.kinds import DEPLOYMENT
from bayplan.faces.asking.sources import ClusterSource
from bayplan.faces.ui import workloads_page
from bayplan.testing.in_memory import make_client
from bayplan_devcluster.apiserver import Fault

HASH = "5d4f8c7b9d"


def controlled(document, kind, name):
    version = {"Deployment": "apps/v1", "ReplicaSet": "apps/v1", "Job": "batch/v1"}.get(kind, "example.com/v1")
    owner = {"apiVersion": version, "kind": kind, "name": name, "uid": name, "controller": True}
    document["metadata"]["ownerReferences"] = [owner]
    return document


def member(name, number, namespace="default", ready=True, **options):
    found = controlled(pod(f"{name}-{HASH}-{number}", **options), "ReplicaSet", f"{name}-{HASH}")
    found["metadata"] |= {
        "namespace": namespace,
        "uid": f"{namespace}-{name}-{number}",
        "labels": {"app": name, "pod-template-hash": HASH},
    }
    found["status"]["conditions"] = [{"type": "Ready", "status": str(ready and "node" in options)}]
    return found


def workload(kind, name, namespace="default", api="apps/v1", **fields):
    metadata = {"name": name, "namespace": namespace}
    fields["spec"] = {"template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}, **fields["spec"]}
    return {"apiVersion": api, "kind": kind, "metadata": metadata, **fields}


def deployment(name, replicas, namespace="default"):
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    selector = {"matchLabels": {"app": name}}
    spec = {"replicas": replicas, "template": template, "selector": selector}
    yield workload("Deployment", name, namespace, spec=spec)
    yield controlled(workload("ReplicaSet", f"{name}-{HASH}", namespace, spec=spec), "Deployment", name)


def workloads():
    yield node("a")
    yield node("b", cpu="8")
    yield from deployment("web", 5)
    yield member("web", 0, node="a")
    yield member("web", 1, node="b", ready=False)
    yield member("web", 2, cpu="32")
    yield from deployment("idle", 0, "team-a")
    yield workload("DaemonSet", "agent", "team-a", status={"desiredNumberScheduled": 2}, spec={})
    yield workload("Job", "etl-29", api="batch/v1", spec={"completions": 3, "parallelism": 2}, status={"succeeded": 2})
    done = controlled(pod("etl-29-x", node="a"), "Job", "etl-29")
    done["status"]["phase"] = "Succeeded"
    yield done
    yield controlled(pod("train-0", cpu="64"), "PyTorchJob", "train")
    yield pod("alone-0", node="b")


async def test_list_has_what_each_workload_wants_and_has():
    page = await page_of("/workloads", *workloads())
    assert "5 workloads. Those that lack most pods are first." in page.text
    assert "web deployment default 5 1 2 1 2" in page.text  # wanted, ready, placed, pending, not created
    assert "idle deployment team-a 0 0 0 0 0" in page.text
    assert "agent daemonset team-a 2 0 0 0 2" in page.text
    assert "etl-29 job default" in page.text
    assert "train pytorchjob default unknown 0 0 1 0" in page.text
    assert page.text.index("web deployment") < page.text.index("train pytorchjob") < page.text.index("idle deployment")
    assert HASH not in page.text
    assert "alone" not in page.text
    assert "/workloads/default/deployment/web" in page.links
    assert "/workloads?namespace=team-a" in page.links


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("namespace=team-a", ["agent", "idle"]),
        ("kind=deployment", ["web", "idle"]),
        ("name=E", ["web", "idle", "etl-29", "agent"]),
        ("namespace=team-a&kind=deployment&name=id", ["idle"]),
        ("kind=statefulset", []),
    ],
)
async def test_list_is_filtered(query, names):
    page = await page_of(f"/workloads?{query}", *workloads())
    found = [each.rpartition("/")[2] for each in page.links if each.startswith("/workloads/")]
    assert sorted(found) == sorted(names)


async def test_list_is_cut(monkeypatch):
    monkeypatch.setattr(workloads_page, "WORKLOADS_SHOWN", 2)
    page = await page_of("/workloads", *workloads())
    assert "and 3 more workloads: choose a namespace, a kind or a name." in page.text


async def test_workload_has_its_pods_and_why_the_rest_is_missing():
    page = await page_of("/workloads/default/deployment/web", *workloads())
    assert "deployment default/web Wanted 5 Ready 1 Placed 2 Pending 1 Not created 2" in page.text
    assert "2 of 5 not created" in page.text
    assert "1 pod pending: 0/2 nodes are available: 2 Insufficient cpu" in page.text
    assert f"default/web-{HASH}-2 none Pending" in page.text
    assert f"default/web-{HASH}-1 b Running, not ready" in page.text
    assert f"default/web-{HASH}-0 a Running 0" in page.text
    assert page.text.index(f"web-{HASH}-2 none") < page.text.index(f"web-{HASH}-0 a")
    assert {f"/pods/default/web-{HASH}-0", "/nodes/b", "/objects/deployments.apps/default/web"} <= page.links.keys()


async def test_reason_of_pods_that_were_not_created_is_the_controllers():
    makers = list(deployment("web", 3))
    message = 'pods "web-x" is forbidden: exceeded quota: small'
    makers[1]["status"] = {"conditions": [{"type": "ReplicaFailure", "status": "True", "message": message}]}
    page = await page_of("/workloads/default/deployment/web", node("a"), *makers)
    assert f"3 of 3 not created replicaset default/web-{HASH}: {message}" in page.text


async def test_controller_that_only_its_pods_name_has_a_page():
    page = await page_of("/workloads/default/pytorchjob/train", *workloads())
    assert "pytorchjob default/train Ready 0 Placed 0 Pending 1 Not created 0" in page.text
    assert "Insufficient cpu" in page.text


async def test_terminated_pods_do_not_count():
    page = await page_of("/workloads/default/job/etl-29", *workloads())
    assert "Wanted 1 Ready 0 Placed 0 Pending 0 Not created 1" in page.text
    assert "Pods 0 pods" in page.text


@pytest.mark.parametrize(
    ("path", "message"),
    [
        (
            "/workloads/default/deployment/webb",
            "There is no deployment default/webb with pods in file cluster.yaml: did",
        ),
        ("/workloads/other/deployment/web", "in file cluster.yaml; there is default/web."),
        ("/workloads/default/rocket/%3Cb%3E", "There is no rocket default/<b> with pods in file cluster.yaml."),
    ],
)
async def test_workload_that_does_not_exist_is_a_404_page(path, message):
    async with served_objects(*workloads()) as visitor:
        assert message in (await visitor.page(path, status=404)).text


async def test_pods_and_causes_lead_to_their_workload():
    async with served_objects(*workloads()) as visitor:
        of_pod = await visitor.page(f"/pods/default/web-{HASH}-0")
        alone = await visitor.page("/pods/default/alone-0")
        queue = await visitor.page("/queue")
    assert "/workloads/default/deployment/web" in of_pod.links
    assert not any(each.startswith("/workloads/") for each in alone.links)
    assert "Of deployment default/web (1), pytorchjob default/train (1)" in queue.text
    assert {"/workloads/default/deployment/web", "/workloads/default/pytorchjob/train"} <= queue.links.keys()


async def test_kind_that_may_not_be_listed_costs_only_what_it_says():
    client = make_client(node("a"), *deployment("web", 2), member("web", 0, node="a"))
    client.transport.faults.add(Fault(verb="list", resource="deployments", answer=403, message="no right"))
    async with served(ClusterSource(client)) as visitor:
        page = await visitor.page("/workloads")
        one = await visitor.page("/workloads/default/deployment/web")
    assert f"no right: {EFFECTS[DEPLOYMENT]}" in page.text
    assert "web deployment default unknown 1 1 0 0" in page.text
    assert f"default/web-{HASH}-0 a Running" in one.text


async def test_odd_workload_costs_only_itself():
    odd = workload("Deployment", "odd", spec={"replicas": "many"})
    page = await page_of("/workloads", *workloads(), odd)
    assert "odd deployment" not in page.text  # it can't be read, and is left out
    assert "web deployment default 5" in page.text


async def test_cron_job_wants_what_its_jobs_want():
    jobs = [
        controlled(workload("Job", name, api="batch/v1", spec={"parallelism": pods, "completions": pods}), *owner)
        for name, pods, owner in (
            ("nightly-29000000", 2, ("CronJob", "nightly")),
            ("by-hand", 3, ("CronJob", "nightly")),
        )
    ]
    own = [
        controlled(pod("nightly-29000000-x", node="a"), "Job", "nightly-29000000"),
        controlled(pod("by-hand-x", node="a"), "Job", "by-hand"),
    ]
    template = {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}}
    cron_jobs = (
        workload("CronJob", name, api="batch/v1", spec={"jobTemplate": template}) for name in ("nightly", "weekly")
    )
    page = await page_of("/workloads", node("a"), *cron_jobs, *jobs, *own)

    assert "nightly cronjob default 2 0 1 0 1" in page.text
    assert "by-hand job default 3 0 1 0 2" in page.text
    assert "weekly cronjob default 0 0 0 0 0" in page.text

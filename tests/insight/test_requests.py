"""what-if about changed workloads and new requests: what they free, and one line for what can't be used."""

import json

import pytest
from click.testing import CliRunner
from tests.support.tables import cases

from bayplan.answers.insight.answers import Stopped
from bayplan.answers.insight.asked.diff import AskDiff
from bayplan.answers.insight.asked.what_if import AskWhatIf
from bayplan.faces.cli import main
from bayplan.insight import Changes, Insight, QuestionError, Snapshot

NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
TYPE = "node.kubernetes.io/instance-type"


def node(name, cpu="4"):
    room = {"cpu": cpu, "memory": "16Gi", "pods": "20"}
    labels = {"kubernetes.io/hostname": name, TYPE: "m5.xlarge"}
    metadata = {"name": name, "labels": labels}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": {"allocatable": room, "capacity": room}}


def container(cpu="1", limits=None, name="main"):
    requests = {"cpu": cpu} if isinstance(cpu, str) else cpu
    return {"name": name, "image": "i", "resources": {"requests": requests, **({"limits": limits} if limits else {})}}


def workload(kind, name, replicas=None, *containers, **spec):
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [*containers] or [container()]}}
    group = "batch/v1" if kind in {"Job", "CronJob"} else "apps/v1"
    if kind == "Job":
        template["spec"]["restartPolicy"] = "Never"
        spec |= {"template": template, "selector": {"matchLabels": labels}, "manualSelector": True}
    elif kind == "CronJob":
        template["spec"]["restartPolicy"] = "Never"
        spec |= {"schedule": "0 * * * *", "jobTemplate": {"spec": {"template": template}}}
    else:
        spec |= {"selector": {"matchLabels": labels}, "template": template}
        spec |= {"replicas": replicas} if replicas is not None else {}
        spec |= {"serviceName": name} if kind == "StatefulSet" else {}
    return {
        "apiVersion": group,
        "kind": kind,
        "metadata": {"name": name, "namespace": "shop", "uid": name},
        "spec": spec,
    }


def pods(made, *nodes):
    """The pods of a workload on nodes; "" for pending ones."""
    kind, name = made["kind"], made["metadata"]["name"]
    owner, labels = (kind, name), dict(made["spec"]["template"]["metadata"]["labels"])
    if kind == "Deployment":
        owner = "ReplicaSet", f"{name}-abc"
        labels["pod-template-hash"] = "abc"
    reference = {"apiVersion": "apps/v1", "kind": owner[0], "name": owner[1], "uid": owner[1], "controller": True}
    for number, on in enumerate(nodes):
        metadata = {"name": f"{name}-{number}", "namespace": "shop", "uid": f"{name}-{number}", "labels": labels}
        spec = {**made["spec"]["template"]["spec"], **({"nodeName": on} if on else {})}
        yield {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {**metadata, "ownerReferences": [reference]},
            "spec": spec,
            "status": {"phase": "Running" if on else "Pending"},
        }


WEB = workload("Deployment", "web", 4, container({"cpu": "1", "memory": "1Gi"}, {"cpu": "1", "memory": "1Gi"}))
API = workload("Deployment", "api", 2, container("1"))
LARGE = workload("Deployment", "large", 1, container("3"))
CLUSTER = [
    NAMESPACE,
    *(node(f"n{number}") for number in range(3)),
    WEB,
    API,
    LARGE,
    *pods(WEB, "n0", "n0", "n1", "n1"),
    *pods(API, "n0", "n1"),
    *pods(LARGE, "n2"),
]


def row(name="web", cpu="250m", **fields):
    return {"namespace": "shop", "kind": "Deployment", "name": name, "container": "main", "cpu": cpu, **fields}


def ask(*requests, cluster=CLUSTER, prices=None, **changes):
    insight = Insight(Snapshot.of(cluster))
    price_of = None if prices is None else lambda labels: prices.get(labels.get(TYPE))
    return insight.what_if(Changes(requests=requests, namespace="shop", **changes), price_of=price_of)


def effect(answer, workload):
    return next(each for each in answer.requests.workloads if each.workload == workload)


def test_new_requests_free_nodes_and_dollars():
    answer = ask(row(memory="512Mi"), row("api", "1"), prices={"m5.xlarge": 0.2})

    found = answer.requests
    assert (found.total, found.needed, found.needed_after) == (3, 3, 2)
    assert (found.cost, found.cost_needed, found.cost_after) == (0.6, 0.6, 0.4)
    web, api = effect(answer, "deployment shop/web"), effect(answer, "deployment shop/api")
    assert len(web.frees) == 1
    assert (web.pods, web.before, web.after) == (4, {"cpu": 1000, "memory": 2**30}, {"cpu": 250, "memory": 2**29})
    assert (web.saving, web.brings) == ({"cpu": 3000, "memory": 2**31}, True)
    assert (web.qos, web.qos_after) == ("Guaranteed", "Burstable")
    assert (api.change, api.brings) == ("", False)
    assert "of 3 nodes, 3 are needed with the present requests, 2 with the new ones" in answer.text()
    assert "deployment shop/api brings nothing: it requests that already" in answer.text()
    document = json.loads(json.dumps(answer.to_dict()))
    assert document["requests"]["workloads"][0]["saving"] == {"cpu": 3000, "memory": 2**31}
    assert document["rollouts"] == [{"workload": "deployment shop/web", "old": 4, "new": 4, "placed": 4, "message": ""}]


def test_what_frees_no_node_names_its_holder():
    answer = ask(row(cpu="900m"))

    web = effect(answer, "deployment shop/web")
    assert (web.frees, web.brings) == ((), False)
    assert web.held.startswith("n")
    assert "Insufficient cpu" in web.held
    assert f"deployment shop/web alone frees no node: {web.held}" in answer.text(width=400)


def test_savings_that_free_a_node_only_together_bring_something():
    small = [workload("Deployment", name, 2, container("1")) for name in ("one", "two")]
    cluster = [
        NAMESPACE,
        node("n0"),
        node("n1"),
        *small,
        *pods(small[0], "n0", "n0"),
        *pods(small[1], "n0", "n1"),
        workload("Deployment", "rest", 1, container("1500m")),
        *pods(workload("Deployment", "rest", 1, container("1500m")), "n1"),
    ]
    answer = ask(row("one", "600m"), row("two", "600m"), cluster=cluster)

    assert (answer.requests.needed, answer.requests.needed_after) == (2, 1)
    assert [(each.frees, each.brings) for each in answer.requests.workloads] == [((), True)] * 2


def test_pods_that_fit_now():
    waiting = workload("Deployment", "waiting", 1, container("2"))
    answer = ask(row(), cluster=[*CLUSTER, waiting, *pods(waiting, "")])

    assert answer.requests.fits == ("shop/waiting-0",)
    assert effect(answer, "deployment shop/web").fits == ("shop/waiting-0",)
    assert "pods that fit now: shop/waiting-0" in answer.text()


def test_larger_requests_that_find_no_room():
    answer = ask(row(cpu="3"))

    web = effect(answer, "deployment shop/web")
    assert web.lacks
    assert web.saving["cpu"] < 0
    (rollout,) = answer.rollouts
    assert rollout.stuck
    text = answer.text(width=400)
    assert f"the rollout of deployment shop/web gets stuck: {rollout.placed} of" in text
    assert "deployment shop/web requests too much: " in text
    assert answer.requests.lacks == web.lacks


def test_larger_requests_say_how_many_nodes_more_are_needed():
    """With them, and with no fewer, the rollout ends and no pod is pending."""
    answer = ask(row(cpu="3"))
    assert answer.requests.more.without == 0
    ((like, number),) = answer.requests.more.nodes.items()
    assert f"more nodes that are needed: {number} nodes like {like}\n" in answer.text(width=400)
    enough = ask(row(cpu="3"), add_nodes=[f"{number}xlike:{like}"])
    assert (enough.requests.lacks, enough.requests.more, enough.rollouts[0].stuck) == ((), None, False)
    fewer = ask(row(cpu="3"), add_nodes=[f"{number - 1}xlike:{like}"])
    assert fewer.requests.lacks


def test_requests_that_no_node_has_say_so():
    answer = ask(row(cpu="9"))
    assert (answer.requests.more.nodes, answer.requests.more.without) == ({}, len(answer.requests.lacks))
    assert "no new node of a pool is enough" in answer.text(width=400)


@pytest.mark.parametrize(("seconds", "tried"), [(0.0, 20), (1e9, 22)])
def test_as_many_workloads_are_tried_alone_as_there_is_time_for(monkeypatch, seconds, tried):
    monkeypatch.setattr("bayplan.answers.insight.questions.requests_effect.TRIED_SECONDS", seconds)
    many = [workload("Deployment", f"w{number}", 1, container("100m")) for number in range(22)]
    cluster = [NAMESPACE, node("n0"), node("n1"), *many, *(pod for made in many for pod in pods(made, "n0"))]
    answer = ask(*(row(f"w{number}", "50m") for number in range(22)), cluster=cluster)
    assert [each.brings is not None for each in answer.requests.workloads] == [True] * tried + [False] * (22 - tried)
    assert not answer.requests.interrupted
    assert ("not tried one by one, because that takes long: 2 workloads" in answer.text(width=400)) == (tried == 20)


def test_interrupted_question_has_what_is_known():
    def progress(text):
        if text.startswith("1 of 2"):
            raise Stopped

    changes = Changes(requests=[row(), row("api", "500m")], namespace="shop")
    answer = Insight(Snapshot.of(CLUSTER)).what_if(changes, progress=progress)

    assert answer.interrupted
    assert [each.brings for each in answer.requests.workloads] == [True, None]
    assert answer.requests.needed_after == 2
    assert "1 workload with smaller savings: deployment shop/api" in answer.text(width=400)
    assert not ask(row()).interrupted


def test_factor_and_recommendation_multiply():
    answer = ask(row(cpu="500m"), scale_requests=["deployment/web=0.5", "api=0.5"])

    assert effect(answer, "deployment shop/web").after["cpu"] == 250
    assert effect(answer, "deployment shop/api").after["cpu"] == 500


def test_rollouts_make_room_for_each_other():
    full = [workload("Deployment", name, 2, container("2")) for name in ("one", "two")]
    spare = workload("Deployment", "spare", 1, container("1"))
    cluster = [NAMESPACE, node("n0"), node("n1"), node("n2", "1"), *full]
    cluster += [*pods(full[0], "n0", "n0"), *pods(full[1], "n1", "n1"), spare]
    answer = ask(cluster=cluster, scale_requests=["one=0.5", "two=0.75"])

    assert [(each.workload, each.placed, each.new) for each in answer.rollouts] == [
        ("deployment shop/one", 2, 2),
        ("deployment shop/two", 2, 2),
    ]


def test_quota_lets_others_come_once_a_rollout_has_ended():
    hard = {"requests.cpu": "4"}
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few", "namespace": "shop"}}
    more = workload("ReplicaSet", "more", 1)
    recreated = {**WEB, "spec": {**WEB["spec"], "strategy": {"type": "Recreate"}}}
    cluster = [NAMESPACE, node("n0", "8"), {**quota, "spec": {"hard": hard}}, recreated, more]
    answer = ask(row(), cluster=[*cluster, *pods(recreated, "n0", "n0", "n0", "n0")])

    new = [each for each in answer.pods if each.before.state == "absent"]
    assert [each.after.state for each in new] == ["placed"] * 5
    assert sum("more" in each.pod for each in new) == 1


def test_requests_that_are_there_already_are_said_to_be():
    answer = ask(scale_requests=["web=1"])

    assert answer.steps == ()
    assert "\nwhat you ask for is there already\n" in answer.text()


def test_few_lines_are_shown_of_many_that_are_left_out():
    answer = ask(row(), *(row(f"w{number}") for number in range(1000)))

    assert len(answer.problems) == 1000
    assert answer.text().count("left out: ") == 21
    assert "left out: and 980 more" in answer.text()


PROBLEMS = {
    "no workload": (row("nope"), "there is no deployment shop/nope"),
    "another kind": (row(kind="StatefulSet"), "there is no statefulset shop/web; there is deployment shop/web"),
    "an unknown kind": (row(kind="Rollout"), "Rollout is no kind of workload that is known here"),
    "no container": (row(container="side"), "there is no container side; there is main"),
    "negative": (row(cpu="-1"), "cpu -1: expected more than 0"),
    "a Job": (row("batch", kind="Job"), "the template of a Job is immutable: create it again"),
    "not a recommendation": ({"a": "b"}, "expected VerticalPodAutoscaler objects"),
}


@cases("request_, message", PROBLEMS)
def test_what_cannot_be_used_is_left_out(request_, message):
    cluster = [*CLUSTER, workload("Job", "batch")]
    answer = ask(request_, row(), cluster=cluster)

    (problem,) = answer.problems
    assert message in problem
    assert f"left out: {problem}" in answer.text(width=500)
    assert answer.requests.needed_after == 2
    with pytest.raises(QuestionError, match=message.replace("(", ".")):
        ask(request_, cluster=cluster)


def test_limit_range_refuses_what_is_too_little():
    limits = [{"type": "Container", "min": {"cpu": "500m"}}]
    few = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "few", "namespace": "shop"}}
    answer = ask(row(), cluster=[*CLUSTER, {**few, "spec": {"limits": limits}}])

    assert any("refused: " in step and "minimum cpu usage per Container is 500m" in step for step in answer.steps)


def test_workload_that_replaces_no_pods_by_itself_brings_nothing():
    replica_set = workload("ReplicaSet", "plain", 1, container("1"))
    answer = ask(row("plain", "100m", kind="ReplicaSet"), cluster=[*CLUSTER, replica_set, *pods(replica_set, "n2")])

    assert answer.pods == ()
    assert "replicaset shop/plain brings nothing: its pods stay as they are" in answer.text()


def test_workload_that_cannot_be_read_costs_itself_only():
    odd = [
        workload("Deployment", "one", 1, container("much")),
        workload("Deployment", "two", 1, container("1", {"cpu": "?"})),
        workload("Deployment", "three"),
        workload("Deployment", "four", 1, {"name": "main", "resources": 5}),
    ]
    odd[2]["spec"]["template"]["spec"]["containers"] = "none"
    names = [each["metadata"]["name"] for each in odd]
    answer = ask(*map(row, names), row(), cluster=[*CLUSTER, *odd])

    assert ["can't be read: " in problem for problem in answer.problems] == [True, True, False, False]
    assert all("there is no deployment" in problem for problem in answer.problems[2:])  # left out of the cluster
    assert answer.requests.needed_after == 2
    with pytest.raises(QuestionError, match="can't be read"):
        ask(cluster=[*CLUSTER, *odd], scale_requests=["one=0.5"])


BAD_FACTORS = {
    "no number": ("web=much", "expected .TYPE/.NAME=FACTOR"),
    "zero": ("web=0", "more than 0"),
    "negative": ("web=-1", "expected .TYPE/.NAME=FACTOR"),
    "huge": ("web=100000", "at most 1000"),
    "no workload": ("wb=0.5", "there is no workload shop/wb: did you mean 'web'"),
    "no type": ("pod/web=0.5", "expected TYPE to be one of deployment"),
    "two of them": ("api=0.5", "more than one workload shop/api: expected one of deployment/api, statefulset/api"),
    "a Job": ("batch=0.5", "immutable"),
}


@cases("text, message", BAD_FACTORS)
def test_bad_factor_is_an_error(text, message):
    cluster = [*CLUSTER, workload("StatefulSet", "api", 0), workload("Job", "batch")]
    with pytest.raises(QuestionError, match=message):
        ask(cluster=cluster, scale_requests=[text])


def test_cron_job_changes_its_next_jobs_only():
    answer = ask(row("nightly", kind="CronJob"), cluster=[*CLUSTER, workload("CronJob", "nightly")])

    assert answer.pods == ()
    assert answer.steps == ("change the requests of cronjob shop/nightly",)


def changed(made, cpu="500m", **spec):
    template = json.loads(json.dumps(made["spec"]["template"]))
    template["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
    metadata = {name: each for name, each in made["metadata"].items() if name != "uid"}
    return {**made, "metadata": metadata, "spec": {**made["spec"], **spec, "template": template}}


def applied(*objects, cluster=CLUSTER):
    return Insight(Snapshot.of(cluster)).what_if(Changes(objects=objects))


def test_changed_manifest_is_rolled_out_beside_new_ones():
    new = workload("Deployment", "new", 1, container("500m"))
    answer = applied(changed(WEB), new)

    assert answer.steps == ("change deployment shop/web", "add deployment shop/new")
    gone = [each.pod for each in answer.pods if each.after.state == "absent"]
    assert gone == [f"shop/web-{number}" for number in range(4)]
    assert sum(each.after.state == "placed" for each in answer.pods) == 5


def test_another_strategy_is_applied_as_by_kubectl():
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    before = {**WEB, "spec": {**WEB["spec"], "strategy": rolling}}
    answer = applied(changed(WEB, strategy={"type": "Recreate"}), cluster=[*CLUSTER[:4], before, *CLUSTER[5:]])

    assert [(each.old, each.new, each.placed) for each in answer.rollouts] == [(4, 4, 4)]


def test_unchanged_manifest_changes_nothing():
    assert applied(WEB).pods == ()


def test_paused_deployment_is_not_rolled_out():
    assert applied(changed(WEB, paused=True)).pods == ()


def test_job_with_another_template_is_an_error_that_says_so():
    job = workload("Job", "batch")
    with pytest.raises(QuestionError, match="field is immutable") as error:
        applied(changed(job), cluster=[*CLUSTER, job])
    assert "\n" not in str(error.value)


def test_pods_that_others_preempt_come_again_after_a_rollout():
    high = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 9}
    urgent = changed(LARGE, "4", strategy={"type": "Recreate"})
    urgent["spec"]["template"]["spec"]["priorityClassName"] = "high"
    answer = applied(urgent, cluster=[high, *CLUSTER[:3], node("n2", "3"), *CLUSTER[4:]])

    gone = [each.pod for each in answer.pods if each.after.state == "absent"]
    moved = [each.pod for each in answer.pods if each.states == ("placed", "placed")]
    assert gone == ["shop/large-0"]
    assert sorted(moved) in (["shop/api-0", "shop/web-0", "shop/web-1"], ["shop/api-1", "shop/web-2", "shop/web-3"])


def test_replace_all_places_the_new_pods_anew():
    answer = Insight(Snapshot.of(CLUSTER)).what_if(Changes(objects=[changed(WEB)], replace_all=True))

    assert sum(each.after.state == "placed" and each.before.state == "absent" for each in answer.pods) == 4
    assert answer.pending == 0


def test_diff_with_manifests_applied():
    answer = AskDiff(objects=[changed(WEB)]).ask(Insight(Snapshot.of(CLUSTER)))

    assert [each.object for each in answer.objects] == ["deployment shop/web"]
    assert sum(each.after.state == "placed" for each in answer.pods) == 4
    with pytest.raises(QuestionError, match="expected one of them"):
        AskDiff().ask(Insight(Snapshot.of(CLUSTER)))


def test_question_of_programs_has_the_same_answer():
    asked = AskWhatIf(requests=[row()], prices={"m5.xlarge": 0.2})
    answer = asked.ask(Insight(Snapshot.of(CLUSTER)))

    assert answer.requests.cost_after == 0.4
    assert asked.command() == [*("bayplan", "what-if", "--requests", "recommendations.yaml", "--prices", "prices.yaml")]


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cluster.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": CLUSTER}))
    (tmp_path / "r.csv").write_text("namespace,kind,name,container,cpu\nshop,Deployment,web,main,250m\n")
    (tmp_path / "web.yaml").write_text(json.dumps(changed(WEB)))
    (tmp_path / "prices.yaml").write_text("m5.xlarge: 0.2\n")
    (tmp_path / "empty.csv").write_text("")
    return tmp_path


COMMANDS = {
    "requests": ("what-if --requests r.csv --prices prices.yaml", 0, "$0.60 for all"),
    "factor": ("what-if --scale-requests web=0.25 -n shop", 0, "of 3 nodes, 3 are needed"),
    "manifest": ("what-if -f web.yaml", 0, "if you change deployment shop/web"),
    "diff": ("diff -f web.yaml", 0, "requests of the pods changed"),
    "an empty file": ("what-if --requests empty.csv", 2, "empty.csv is empty: expected VerticalPodAutoscaler"),
    "no file": ("what-if --requests nope.csv", 2, "nope.csv: No such file or directory"),
    "prices": ("what-if --requests r.csv --prices r.csv", 2, "r.csv"),
    "diff of two": ("diff cluster.json cluster.json -f web.yaml", 2, "expected neither snapshots nor configurations"),
}


@cases("command, status, shown", COMMANDS)
@pytest.mark.usefixtures("cluster")
def test_command(command, status, shown):
    source = [] if "diff cluster.json" in command else ["--from", "cluster.json"]
    result = CliRunner().invoke(main, [*command.split(), *source])

    assert result.exit_code == status, result.output
    assert shown in (result.stdout if status == 0 else result.stderr)
    assert "Traceback" not in result.output

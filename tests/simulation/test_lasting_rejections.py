"""An attempt that would reject a pod as before may be left out where pods keep their order: nothing else differs."""

import json
import os
import random

import pytest
from tests.simulation.timelines import timeline_of

from bayplan.answers.simulation.behaviour import Behaviour, Startup, Termination
from bayplan.answers.simulation.happenings import NodeComes, NodeGoes, ObjectChanges, PodArrives, PodEnds, PodIsChanged
from bayplan.answers.simulation.lasting_rejections import LastingRejections
from bayplan.answers.simulation.world import World
from bayplan.core.api.kinds import POD_DISRUPTION_BUDGET, kind_of
from bayplan.core.api.objects import decode
from bayplan.core.api.pod_groups import POD_GROUPS
from bayplan.core.queue import RetryTimes, SchedulingQueue
from bayplan.core.versions import gates_of, with_gangs
from bayplan.testing import make_node, make_pod

FIRST = 500
STORIES = range(FIRST, FIRST + int(os.environ.get("BAYPLAN_STORIES", "60")))
BEHAVIOUR = Behaviour(
    startup=Startup(0.0), termination=Termination(3.0), attempt_seconds=0.0, retries=RetryTimes(keeps_order=True)
)
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"


class NoChance(random.Random):
    """Chooses the first of all: an attempt more or less changes no other choice."""

    def choice(self, seq):
        return seq[0]

    def randrange(self, *_):
        return 0


def term(rng, app):
    return {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": rng.choice((ZONE, HOST))}


def spread(rng, app):
    selector = {"matchLabels": {"app": app}}
    rule = rng.choice(("DoNotSchedule", "ScheduleAnyway"))
    return {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": rule, "labelSelector": selector}


def random_pod(rng, name, priorities):
    app, more, spec = rng.choice("ab"), {}, {}
    if rng.random() < 0.15:
        kind = rng.choice(("podAffinity", "podAntiAffinity"))
        rule = "requiredDuringSchedulingIgnoredDuringExecution"
        more["affinity"] = {kind: {rule: [term(rng, rng.choice("ab"))]}}
    if rng.random() < 0.1:
        more["spread"] = [spread(rng, app)]
    if rng.random() < 0.1:
        more["host_ports"] = [80]
    if rng.random() < 0.15:
        more["node_selector"] = {ZONE: rng.choice("xy")}
    if rng.random() < 0.1:
        spec["preemptionPolicy"] = "Never"
    if rng.random() < 0.15:
        spec["schedulingGroup"] = {"podGroupName": rng.choice(("g", "h"))}
    if rng.random() < 0.1:
        spec["schedulingGates"] = [{"name": "later"}]
    cpu = str(rng.choice((1, 1, 2, 2, 3, 4)))
    memory = rng.choice((None, None, "1Gi", "2Gi"))
    if memory and rng.random() < 0.2:
        cpu = None
    labels, priority = {"app": app}, rng.choice(priorities)
    return make_pod(name, cpu=cpu, memory=memory, labels=labels, priority=priority, spec=spec, **more)


def changed(rng, pod):
    """A pod with what the API server lets clients change: other labels and requests, and no gates any more."""
    spec = {**json.loads(pod.raw)["spec"], "schedulingGates": []}
    spec["containers"][0]["resources"] = {"requests": {"cpu": str(rng.choice((1, 2, 3)))}}
    return make_pod(pod.name, labels={"app": rng.choice("ab")}, spec=spec)


def random_node(rng, name):
    taints = ["full:NoSchedule"] if rng.random() < 0.1 else []
    room = {"cpu": str(rng.choice((2, 3, 4, 6))), "memory": "4Gi", "pods": rng.choice((2, 4, 110))}
    return make_node(name, labels={ZONE: rng.choice("xy"), HOST: name}, taints=taints, **room)


def group(name, least):
    document = {
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {"schedulingPolicy": {"gang": {"minCount": least}}},
    }
    kind = kind_of(POD_GROUPS)
    return ObjectChanges(0.0, kind, f"default/{name}", decode(kind.type, json.dumps(document).encode()))


def budget(app):
    spec = {"maxUnavailable": 0, "selector": {"matchLabels": {"app": app}}}
    document = {"metadata": {"name": app, "namespace": "default"}, "spec": spec, "status": {"disruptionsAllowed": 0}}
    obj = decode(POD_DISRUPTION_BUDGET.type, json.dumps(document).encode())
    return ObjectChanges(0.0, POD_DISRUPTION_BUDGET, f"default/{app}", obj)


def random_story(rng):
    """Happenings of two minutes: pods come, end and change, nodes come, change and go."""
    priorities = rng.choice(((0,), (0, 0, 0, 5), (0, 5, 9)))
    kinds = [random_pod(rng, "any", priorities) for _ in range(rng.randrange(2, 6))]
    story = [group("g", 2), group("h", 3)] if rng.random() < 0.4 else []
    if rng.random() < 0.2:
        story.append(budget("a"))
    story += [NodeComes(0.0, random_node(rng, f"n{each}")) for each in range(rng.randrange(1, 5))]
    pods = []
    for number in range(rng.randrange(5, 40)):
        at, name = float(rng.choice((0, 0, rng.randrange(1, 60)))), f"p{number:02}"
        if rng.random() < 0.7:
            document = json.loads(rng.choice(kinds).raw)
            document["metadata"].update(name=name, uid=f"default-{name}")
            pod = make_pod(name, labels=document["metadata"]["labels"], spec=document["spec"])
        else:
            pod = random_pod(rng, name, priorities)
        pods.append(pod)
        story.append(PodArrives(at, pod, rng.choice((None, 1.0, 2.0, 5.0, float(rng.randrange(3, 40))))))
    for _ in range(rng.randrange(8)):
        at, name, pod = float(rng.randrange(1, 90)), f"n{rng.randrange(5)}", rng.choice(pods)
        story.append(
            rng.choice(
                (
                    NodeComes(at, random_node(rng, name)),
                    NodeGoes(at, f"n{rng.randrange(1, 5)}"),
                    PodEnds(at, pod.uid),
                    PodIsChanged(at, changed(rng, pod)),
                )
            )
        )
    return sorted(story, key=lambda each: each.at)


def tell(seed, version):
    """What happens in a story, and how many attempts were made."""
    world = World(gates=with_gangs(gates_of(version)))
    world.rng = NoChance()
    timeline, diary = timeline_of(random_story(random.Random(seed)), until=120.0, world=world, behaviour=BEHAVIOUR)
    return diary.lines, timeline.attempts


def test_what_is_left_out_changes_nothing(monkeypatch):
    told = {seed: tell(seed, ("1.36", "1.37")[seed % 2]) for seed in STORIES}
    monkeypatch.setattr(
        LastingRejections, "ask", lambda _, hint, _plugin, queued, _event, *about: hint(queued.pod, *about)
    )
    monkeypatch.setattr(SchedulingQueue, "_rejected_again", lambda *_: False)
    fewer = 0
    for seed, (found, attempts) in told.items():
        expected, all_attempts = tell(seed, ("1.36", "1.37")[seed % 2])
        assert found == expected, f"story {seed}"
        fewer += all_attempts - attempts
    assert fewer > len(STORIES)


@pytest.mark.parametrize(("ends", "attempts"), [("small", 2), ("large", 3)])
def test_a_pod_is_attempted_again_only_if_a_node_has_room(ends, attempts):
    """Two equal pods wait. Once `large` ends, there is room for one of them."""
    there = {name: make_pod(name, cpu=cpu, node="n") for name, cpu in (("small", "1"), ("large", "3"))}
    story = [
        *(PodArrives(0.0, pod, 5.0 if name == ends else None) for name, pod in there.items()),
        *(PodArrives(1.0, make_pod(name, cpu="2")) for name in ("first", "second")),
    ]
    timeline, diary = timeline_of(story, nodes=[make_node("n", cpu="4")], behaviour=BEHAVIOUR)
    assert timeline.attempts == attempts
    assert [line.split()[2] for line in diary.of("bound")] == (["first"] if ends == "large" else [])


def test_a_pod_is_attempted_again_if_another_node_may_accept_it_now():
    """The first pod of those that want to be together may be alone. The last one of the others leaves a small node."""
    app = {"app": "a"}
    together = {"labelSelector": {"matchLabels": app}, "topologyKey": HOST}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [together]}}
    story = [
        PodArrives(0.0, make_pod("last", cpu="1", labels=app, node="small"), 5.0),
        PodArrives(1.0, make_pod("waiting", cpu="4", labels=app, affinity=affinity)),
    ]
    nodes = [make_node("small", cpu="1"), make_node("large", cpu="4")]
    _, diary = timeline_of(story, nodes=nodes, behaviour=BEHAVIOUR)
    assert diary.of("bound") == ["5.000 bound waiting large"]


def test_a_pod_is_attempted_again_once_room_is_free_that_was_kept_for_another():
    """`first` preempts `victim`, but goes to `new`, as `small` is tainted by then.

    No event tells that `small` has room: `waiting` finds it once any pod ends.
    """
    patient = {"tolerations": [{"key": "full", "operator": "Exists"}], "preemptionPolicy": "Never"}
    story = [
        NodeComes(0.0, make_node("small", cpu="4", memory="4Gi", pods=1)),
        NodeComes(0.0, make_node("full", cpu="2", memory="1Gi")),
        PodArrives(0.0, make_pod("victim", cpu="4", node="small", priority=1)),
        PodArrives(0.0, make_pod("other", cpu="1", node="full", priority=9), 10.0),
        PodArrives(1.0, make_pod("waiting", memory="2Gi", spec=patient, priority=5)),
        PodArrives(2.0, make_pod("first", cpu="4", priority=5)),
        NodeComes(5.0, make_node("small", cpu="4", memory="4Gi", pods=1, taints=["full:NoSchedule"])),
        NodeComes(5.0, make_node("new", cpu="4", memory="1Gi", pods=1)),
    ]
    _, diary = timeline_of(story, until=20.0, behaviour=BEHAVIOUR)
    assert diary.of("bound", "gone") == [
        "5.000 gone victim small",
        "5.000 bound first new",
        "10.000 gone other full",
        "10.000 bound waiting small",
    ]

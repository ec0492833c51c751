"""Streams of similar pods and of changes to everything that decisions depend on, and schedulers that apply them."""

import random
from dataclasses import replace

from lightkube.models.core_v1 import Namespace, Node, Pod, Service
from plain_loops import HOSTNAME
from random_clusters import NAMESPACES, NODES, Maker

from bayplan.answers.simulation.handle import OfflineHandle
from bayplan.core.api import kinds
from bayplan.core.api.objects import convert
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.cluster.state import ClusterState
from bayplan.core.config import default_profile
from bayplan.core.framework.pod_run import PodRun
from bayplan.core.scheduling import decide
from bayplan.core.sharing import Sharing
from bayplan.core.versions import DEFAULT_GATES

PLAIN = {"containers": [{"name": "c", "image": "web", "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}}]}
SHAPES = [
    PLAIN,
    {"containers": [{"name": "c", "image": "batch"}]},
    {
        "containers": [{"name": "c", "image": "web", "resources": {"requests": {"cpu": "2", "example.com/gpu": "1"}}}],
        "tolerations": [{"key": "dedicated", "operator": "Exists"}],
    },
    {
        "containers": [{"name": "c", "image": "web", "ports": [{"containerPort": 80, "hostPort": 80}]}],
        "nodeSelector": {"Rack": "1"},
    },
    {
        "containers": [{"name": "c", "image": "web", "resources": {"requests": {"cpu": "100m"}}}],
        "affinity": {
            "nodeAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "weight": 7,
                        "preference": {"matchExpressions": [{"key": "Rack", "operator": "In", "values": ["2"]}]},
                    }
                ]
            }
        },
    },
]
APART = {
    **PLAIN,
    "affinity": {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": {"app": "a"}}}
            ]
        }
    },
}


def stream(rng, *, length, related):
    """Yield (what, how): nodes, then pods and changes. `related`: some pods have affinity or spread constraints."""
    make = Maker(rng)
    shapes = [{"labels": make.pod_labels(), "namespace": "one", "spec": spec} for spec in (*SHAPES, PLAIN, PLAIN)]
    if related:
        shapes += [{"labels": {"app": app}, "namespace": "one", "spec": APART} for app in "ab"]
    for _ in range(3 if related else 0):
        pod = make.pod("shape")
        shapes.append({"labels": pod["metadata"]["labels"], "namespace": "one", "spec": pod["spec"]})
    rng.shuffle(shapes)
    for name in NODES:
        yield "set node", node(make, name)
    for number in range(length):
        what = rng.choices(
            [
                "pod",
                "remove pod",
                "set node",
                "remove node",
                "label pod",
                "end pod",
                "namespace",
                "service",
                "nominate",
            ],
            [60, 12, 8, 2, 4, 4, 3, 3, 2],
        )[0]
        if what == "pod":
            yield what, {"name": f"pod-{number}", **shapes[0 if rng.random() < 0.6 else rng.randrange(len(shapes))]}
        elif what == "set node":
            yield what, node(make, rng.choice(NODES))
        elif what == "remove node":
            yield what, rng.choice(NODES)
        elif what == "label pod":
            yield what, (rng.randrange(1000), make.pod_labels())
        elif what == "namespace":
            yield what, (rng.choice(NAMESPACES), make.namespace_labels() if rng.random() < 0.8 else None)
        elif what == "service":
            yield what, rng.choice([{"app": "a"}, {"app": "B"}, {}, None, None])
        elif what == "nominate":
            yield what, rng.choice([*NODES, ""])
        else:
            yield what, rng.randrange(1000)


def node(make, name):
    """A node with random resources, images and labels."""
    rng, document = make.rng, make.node(name)
    if rng.random() < 0.3:
        document["metadata"]["labels"][HOSTNAME] = rng.choice(NODES)
    document["spec"]["unschedulable"] = rng.random() < 0.1
    image = rng.choice([None, "web:latest", "batch:latest"])
    document["status"] = {
        "allocatable": {
            "cpu": rng.choice(["2", "4", "8"]),
            "memory": "16Gi",
            "pods": "6",
            "example.com/gpu": rng.choice(["0", "2"]),
        },
        "images": [{"names": [image], "sizeBytes": 2000 * 2**20}] if image else [],
    }
    return document


class World:
    """A scheduler's view of a stream.

    `reuse`: share results; `rebuilt`: rebuild the state before every decision; `plugins`: in addition to the default;
    `gates`: the version of Kubernetes and its feature gates.
    """

    def __init__(self, *, reuse=False, rebuilt=False, plugins=(), gates=DEFAULT_GATES):
        self.rebuilt, self.plugins, self.gates = rebuilt, plugins, gates
        self.known = Known()
        self._begin(reuse=reuse)
        self.decisions = []

    def _begin(self, *, reuse):
        self.state = ClusterState()
        self.profile = default_profile("test", OfflineHandle(self.state), self.plugins, self.gates)
        self.sharing = Sharing(self.profile)
        self.start = self.sharing.start if reuse else PodRun.start

    def apply(self, what, how):
        """Apply a step of a stream."""
        if what == "pod":
            self._decide(how)
        else:
            for change in self.known.change(what, how):
                change(self.state)

    def _decide(self, shape):
        if self.rebuilt:
            self._begin(reuse=False)
            for change in self.known.everything():
                change(self.state)
        metadata = {key: shape[key] for key in ("name", "namespace", "labels")}
        document = {"metadata": {**metadata, "uid": shape["name"]}, "spec": shape["spec"]}
        pod = info(document)
        decision = decide(self.profile, self.state, pod, first_by_name(self.state), start=self.start)
        self.decisions.append(summary(decision, self.state))
        if decision.node:
            self.state.assume(pod, decision.node)
            self.known.pods[pod.uid] = {**document, "spec": {**document["spec"], "nodeName": decision.node}}


class Known:
    """The objects that a server would store, as manifests."""

    def __init__(self):
        self.nodes, self.pods, self.namespaces, self.services, self.nominated = {}, {}, {}, {}, {}

    def everything(self):
        """Yield the changes that turn an empty state into this one."""
        for document in self.nodes.values():
            yield lambda state, document=document: state.set_node(convert(Node, document))
        for document in self.pods.values():
            yield lambda state, document=document: state.set_pod(info(document))
        for name, labels in self.namespaces.items():
            yield lambda state, name=name, labels=labels: set_namespace(state, name, labels)
        for selector in self.services.values():
            yield lambda state, selector=selector: set_service(state, selector)
        for uid, node in self.nominated.items():
            yield lambda state, uid=uid, node=node: state.nominations.add(nominee(uid), node)

    def change(self, what, how):
        """Record a change and yield the functions that apply it to a state."""
        if what == "set node":
            self.nodes[how["metadata"]["name"]] = how
            yield lambda state: state.set_node(convert(Node, how))
        elif what == "remove node":
            self.nodes.pop(how, None)
            yield lambda state: state.remove_node(how)
        elif what == "namespace":
            name, labels = how
            self.namespaces.pop(name, None)
            if labels is not None:
                self.namespaces[name] = labels
            yield lambda state: set_namespace(state, name, labels)
        elif what == "service":
            self.services = {} if how is None else {"s": how}
            yield lambda state: set_service(state, how)
        elif what == "nominate":
            uids, self.nominated = list(self.nominated), {"nominee": how} if how else {}
            yield lambda state: [state.nominations.remove(uid) for uid in uids]
            if how:
                yield lambda state: state.nominations.add(nominee("nominee"), how)
        elif self.pods:
            yield from self._change_pod(what, how)

    def _change_pod(self, what, how):
        index, labels = how if what == "label pod" else (how, None)
        uid = list(self.pods)[index % len(self.pods)]
        document = self.pods.pop(uid)
        if what == "remove pod":
            yield lambda state: state.remove_pod(uid)
            return
        changed = {"labels": labels} if what == "label pod" else {"deletionTimestamp": "2026-01-01T00:00:00Z"}
        self.pods[uid] = {**document, "metadata": {**document["metadata"], **changed}}
        yield lambda state: state.set_pod(info(self.pods[uid]))


class FirstByName(random.Random):
    """Chooses the row with the first node name, so that a choice does not depend on the order of rows."""

    names = ()

    def choice(self, seq):
        return min(seq, key=lambda row: self.names[row])


def first_by_name(state):
    rng = FirstByName(0)
    rng.names = state.table.names
    return rng


def info(document):
    return PodInfo(convert(Pod, document))


def nominee(uid):
    return info({"metadata": {"name": uid, "uid": uid, "namespace": "one", "labels": {"app": "a"}}, "spec": PLAIN})


def set_namespace(state, name, labels):
    if labels is None:
        state.objects[kinds.NAMESPACE].remove(name)
    else:
        document = {"metadata": {"name": name, "labels": labels}}
        state.objects[kinds.NAMESPACE].set(name, convert(Namespace, document))


def set_service(state, selector):
    if selector is None:
        state.objects[kinds.SERVICE].remove("one/s")
    else:
        document = {"metadata": {"name": "s", "namespace": "one"}, "spec": {"selector": selector}}
        state.objects[kinds.SERVICE].set("one/s", convert(Service, document))


def summary(decision, state):
    """Return a decision in node names, without the result of preemption."""
    names = state.table.names
    totals = {}
    if decision.scores is not None:
        totals = {names[row]: int(decision.scores.total[index]) for index, row in enumerate(decision.scores.rows)}
    if decision.node:
        return decision.outcome, decision.node, sorted(names[row] for row in decision.feasible), totals
    diagnosis = replace(decision.diagnosis, post_filter_message="")
    return decision.outcome, diagnosis.explain(), sorted(diagnosis.unschedulable_plugins)

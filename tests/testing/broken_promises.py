"""Plugins that break a promise, each in one way, with the expected report; and a correct one."""

import asyncio
import datetime as dt
import os
import time
from dataclasses import dataclass

from bayplan import (
    SKIP,
    Action,
    ClusterEvent,
    Code,
    EventHint,
    Hint,
    Plugin,
    PostFilterResult,
    Status,
    Wait,
    filter_plugin,
    score_plugin,
)
from bayplan.core.framework.events import Topics
from bayplan.core.framework.interface import OnlyNow
from bayplan.plugin import NodeColumns
from bayplan.testing.builders import make_pod

TIER = "example.com/tier"
NOT_HERE = Status.unschedulable("another tier")


class SignsTooLittle(Plugin):
    name = "signs-too-little"

    def filter(self, cycle, pod, node):
        return NOT_HERE if pod.labels.get(TIER) == "web" else None

    def sign(self, pod):
        return ()


class SignsSomePods(Plugin):
    name = "signs-some-pods"

    def score(self, cycle, pod, node):
        return 50 if pod.labels.get("app") == node.labels.get("app") else 0

    def sign(self, pod):
        return pod.labels["app"]


class SignsNoAnnotation(Plugin):
    name = "signs-no-annotation"

    def score(self, cycle, pod, node):
        return 50 if pod.annotations.get("example.com/favourite") == node.labels.get("example.com/favourite") else 0

    def sign(self, pod):
        return tuple(sorted(pod.labels.items()))


class SignsList(Plugin):
    name = "signs-list"

    def filter(self, cycle, pod, node):
        return None if len(pod.requested) < 2 else NOT_HERE

    def sign(self, pod):
        return sorted(pod.requested)


class RestsOnMore(Plugin):
    """Compares a node with all others, so that a change of one affects the others."""

    name = "rests-on-more"

    def pre_filter(self, cycle, pod, nodes):
        cycle.data[self.name] = int(nodes.pod_count.sum())

    def filter(self, cycle, pod, node):
        return "as full as all others together" if 2 * node.pod_count > cycle.data[self.name] else None

    def add_pod(self, cycle, pod, added, node):
        cycle.data[self.name] += 1

    def remove_pod(self, cycle, pod, removed, node):
        cycle.data[self.name] -= 1

    def sign(self, pod):
        return ()


class ReadsPods(Plugin):
    name = "reads-pods"
    reads_pods = False

    def score(self, cycle, pod, node):
        return min(100, node.pod_count)

    def sign(self, pod):
        return ()


class NotesNodes(Plugin):
    """Marks a node as changed whenever an object comes, but says that it reads only the node."""

    name = "notes-nodes"
    reads_pods = False

    def __init__(self, handle):
        self.columns = NodeColumns(handle.nodes, lambda row, name: None, lambda capacity: None)
        self.nodes = handle.nodes
        handle.objects("Pod").listen(self.changed)

    def changed(self, old, new):
        for at in range(len(self.nodes)):
            self.columns.changed(self.nodes.name(at))

    def score(self, cycle, pod, node):
        return 1

    def sign(self, pod):
        return ()


class RemembersNodes(Plugin):
    """Stores the state of the nodes at the first such pod in PreScore."""

    name = "remembers-nodes"

    def pre_score(self, cycle, pod, nodes):
        cycle.data[self.name] = nodes.pod_count.sum()

    def score(self, cycle, pod, node):
        return int(min(100, node.pod_count * 10 + cycle.data[self.name]))

    def sign(self, pod):
        return ()

    def rests_on(self, pod, nodes):
        return ()


class RemembersPods(Plugin):
    """Stores the state of each node at the first such pod in PreScore."""

    name = "remembers-pods"

    def pre_score(self, cycle, pod, nodes):
        cycle.data[self.name] = {nodes.name(at): int(nodes.pod_count[at]) for at in range(len(nodes))}

    def score(self, cycle, pod, node):
        return min(100, cycle.data[self.name].get(node.name, 99))

    def sign(self, pod):
        return ()


class DeafToLabels(Plugin):
    name = "deaf-to-labels"

    def filter(self, cycle, pod, node):
        return None if node.labels.get(TIER) == "web" else NOT_HERE

    def events(self):
        yield EventHint(ClusterEvent("Node", Action.ADD | Action.UPDATE_NODE_ALLOCATABLE))


class WrongHint(DeafToLabels):
    """The hint compares with the wrong value."""

    name = "wrong-hint"

    def events(self):
        yield EventHint(ClusterEvent("Node", Action.ADD | Action.UPDATE_NODE_LABEL), self.after)

    def after(self, pod, old, new):
        return Hint.QUEUE if (new.metadata.labels or {}).get(TIER) == "batch" else Hint.SKIP


class RaisingHint(WrongHint):
    name = "raising-hint"

    def after(self, pod, old, new):
        return Hint.QUEUE if old.metadata.labels != new.metadata.labels else Hint.SKIP


class BooleanHint(WrongHint):
    name = "boolean-hint"

    def after(self, pod, old, new):
        return True


class TopicsForget(Plugin):
    """Gates pods while they preempt, and tells once which of them it gates no longer."""

    name = "topics-forget"

    def __init__(self, handle):
        self._handle = handle
        self._gated = set()

    def pre_enqueue(self, pod):
        if not self._handle.preempting(pod.uid):
            return None
        self._gated.add(pod.uid)
        return "still preempting"

    def events(self):
        topics = Topics(lambda pod: (pod.uid,), self._released)
        yield EventHint(ClusterEvent("Pod", Action.ALL), lambda pod, old, new: Hint.SKIP, topics)

    def _released(self, old, new):
        released = {uid for uid in self._gated if not self._handle.preempting(uid)}
        self._gated -= released
        return released


class HintRemembers(Plugin):
    """The first event of a pod's node releases the pod."""

    name = "hint-remembers"

    def __init__(self):
        self._seen = False

    def pre_enqueue(self, pod):
        return None if self._seen else "no node has come yet"

    def events(self):
        yield EventHint(ClusterEvent("*", Action.ALL), self.after)

    def after(self, pod, old, new):
        self._seen = True
        return Hint.QUEUE


class HintReadsMore(DeafToLabels):
    """The hint reads a label of the pod, which the filter doesn't read."""

    name = "hint-reads-more"

    def sign(self, pod):
        return ()

    def events(self):
        yield EventHint(ClusterEvent("Node", Action.ADD | Action.UPDATE), self.after)
        yield EventHint(ClusterEvent("Node", Action.ADD | Action.UPDATE))

    def after(self, pod, old, new):
        return Hint.QUEUE if TIER in pod.labels else Hint.SKIP


class RejectsMore(Plugin):
    """The filter reads a label of the pod that `sign` omits."""

    name = "rejects-more"

    def filter(self, cycle, pod, node):
        return None if node.labels.get(TIER) == pod.labels.get(TIER) else NOT_HERE

    def sign(self, pod):
        return pod.namespace

    def rests_on(self, pod, nodes):
        return OnlyNow(())


class BareEvents(DeafToLabels):
    name = "bare-events"

    def events(self):
        return [ClusterEvent("Node", Action.ADD)]


class FailsToStart(Plugin):
    name = "fails-to-start"

    def __init__(self):
        raise OSError("no disk")

    def filter(self, cycle, pod, node):
        return None


class GateThatStays(Plugin):
    name = "gate-that-stays"

    def pre_enqueue(self, pod):
        return "not released" if pod.labels.get("app") != "b" else None

    def events(self):
        return []


class LeaksReservations(Plugin):
    name = "leaks-reservations"

    def __init__(self):
        self._taken = {}

    def filter(self, cycle, pod, node):
        return "taken" if self._taken.get(node.name) else None

    def reserve(self, cycle, pod, node_name):
        self._taken[node_name] = pod.uid

    def unreserve(self, cycle, pod, node_name):
        """Does not release the reservation."""


class UnreservesOnce(LeaksReservations):
    name = "unreserves-once"

    def unreserve(self, cycle, pod, node_name):
        del self._taken[node_name]


class TakesNothingBack(LeaksReservations):
    name = "takes-nothing-back"

    def unreserve(self, cycle, pod, node_name):
        self._taken.pop(node_name, None)

    def checkpoint(self):
        return self._taken

    def restore(self, checkpoint):
        """Forgets what was reserved."""


class RemembersSets(TakesNothingBack):
    name = "remembers-sets"

    def checkpoint(self):
        return object()


class PermitsNumber(Plugin):
    name = "permits-number"

    def permit(self, cycle, pod, node_name):
        return 30


class PostBindRaises(Plugin):
    name = "post-bind-raises"

    def post_bind(self, cycle, pod, node_name):
        raise OSError("no file")


class VictimsElsewhere(Plugin):
    name = "victims-elsewhere"

    def post_filter(self, cycle, pod, diagnosis, what_if):
        return PostFilterResult(Status(Code.SUCCESS), "n0", (make_pod("victim", node="n1"),))


class MixedKeys(Plugin):
    name = "mixed-keys"

    def sort_key(self, pod, queued_at):
        return pod.name if pod.name.startswith("p") else queued_at


@filter_plugin(name="never-says-no")
def never_says_no(pod, node):
    return "in maintenance" if node.labels.get("example.com/maintenance window ") else None


@score_plugin(name="always-7")
def always_7(pod, node):
    return 7


class RejectsItsWaitingPods(Plugin):
    """A background task rejects every waiting pod; as there is no `events`, that requeues the others."""

    name = "rejects-its-waiting-pods"

    def __init__(self, handle):
        self._handle = handle

    def permit(self, cycle, pod, node_name):
        return Wait(30)

    async def background(self):
        while True:
            await asyncio.sleep(0.5)
            for waiting in self._handle.waiting_pods:
                waiting.reject(self.name, "not now")


class WakesOtherPods(Plugin):
    """Forgetting a pod that Reserve rejected is an event like the deletion of a pod."""

    name = "wakes-other-pods"

    def reserve(self, cycle, pod, node_name):
        return "no licence"

    def unreserve(self, cycle, pod, node_name):
        pass

    def events(self):
        return [EventHint(ClusterEvent("Pod", Action.DELETE))]


class Patient(Plugin):
    """A correct plugin with many features: it passes."""

    name = "patient"

    @dataclass
    class Arguments:
        tier: str = "web"

    arguments = Arguments

    def __init__(self, handle, args):
        self._tier = args.tier

    def pre_filter(self, cycle, pod, nodes):
        return SKIP if TIER not in pod.labels else None

    def filter(self, cycle, pod, node):
        return None if node.labels.get(TIER) == self._tier else NOT_HERE

    def permit(self, cycle, pod, node_name):
        return Wait(5)

    def events(self):
        nodes, pods = Action.ADD | Action.UPDATE_NODE_LABEL, Action.UPDATE_POD_LABEL
        return [EventHint(ClusterEvent("Node", nodes)), EventHint(ClusterEvent("Pod", pods))]


@filter_plugin(name="pure-clock", pure=True)
def pure_clock(pod, node):
    return "closed at night" if TIER in node.labels and time.localtime().tm_hour < 8 else None


@score_plugin(name="pure-today", pure=True)
def pure_today(pod, node):
    return hour_of_day() * 4 if TIER in node.labels else 0


def hour_of_day():
    return dt.datetime.now(dt.UTC).hour


@score_plugin(name="pure-chance", pure=True)
def pure_chance(pod, node):
    from random import randint

    return randint(0, 100)


@score_plugin(name="pure-environment", pure=True)
def pure_environment(pod, node):
    return 100 if node.labels.get(TIER) == os.environ.get("TIER") else 0


calls = {"number": 0}


@score_plugin(name="pure-counter", pure=True)
def pure_counter(pod, node):
    calls["number"] += 1
    return 100 if TIER in node.labels else 0


@filter_plugin(name="pure-name", pure=True)
def pure_name(pod, node):
    return "another tier" if TIER in node.labels and pod.name == "another" else None


@filter_plugin(name="pure-annotations", pure=True)
def pure_annotations(pod, node):
    return "taken" if any(TIER in other.annotations for other in node.pods) else None


BROKEN_PROMISES = [
    (pure_clock, "pure", "pure_clock uses time.localtime, which differs from call to call"),
    (pure_today, "pure", "hour_of_day uses dt.datetime.now, which differs from call to call"),
    (pure_chance, "pure", "pure_chance uses random.randint, which differs from call to call"),
    (pure_environment, "pure", "pure_environment uses os.environ"),
    (pure_counter, "pure", "keep nothing in calls: the function is not called for a pod or a node that it has seen"),
    (pure_name, "signature", "read nothing of metadata.name, or remove pure=True"),
    (pure_annotations, "pure", "not their annotations or status; or remove pure=True"),
    (MixedKeys, "answers", "cannot be compared"),
    (SignsList, "answers", "cannot be hashed"),
    (SignsTooLittle, "signature", "what the plugin reads of metadata.labels"),
    (SignsSomePods, "answers", "sign raised KeyError: 'app', in line "),
    (SignsNoAnnotation, "signature", "what the plugin reads of metadata.annotations"),
    (RestsOnMore, "rests-on", "let rests_on return what else the answers depend on"),
    (ReadsPods, "reads-pods", "leave reads_pods at True"),
    (NotesNodes, "rests-on", "leave reads_pods at True"),
    (RemembersNodes, "rests-on", "let rests_on return what else"),
    (RemembersPods, "reuse", "what pre_filter and pre_score remember must depend on the pod alone"),
    (DeafToLabels, "events", "(NodeUpdateNodeLabel)"),
    (WrongHint, "events", "no hint of the plugin returns Hint.QUEUE"),
    (RaisingHint, "hints", "let the hint accept any object, and None for the old or the new one"),
    (BooleanHint, "hints", "return Hint.QUEUE or Hint.SKIP"),
    (TopicsForget, "pure-hints", "store nothing while asked"),
    (HintRemembers, "pure-hints", "if hints weren't asked"),
    (HintReadsMore, "rejection", "let sign() return also what the plugin and its hints read of metadata.labels"),
    (RejectsMore, "rejection", "let sign() return also what the plugin and its hints read of metadata.labels"),
    (BareEvents, "registration", "expected an EventHint"),
    (FailsToStart, "registration", "OSError: no disk"),
    (GateThatStays, "events", "metadata.labels of Pod waiting changes"),
    (LeaksReservations, "reserve", "let unreserve return exactly what reserve took"),
    (TakesNothingBack, "checkpoint", "put all that answers depend on into checkpoint"),
    (RemembersSets, "checkpoint", "return dicts, lists, texts and numbers"),
    (UnreservesOnce, "reserve", "raise nothing if there is nothing"),
    (PermitsNumber, "binding", "returned 30"),
    (PostBindRaises, "binding", "let PostBind raise nothing"),
    (RejectsItsWaitingPods, "retries", "each rejection requeues the other pod"),
    (WakesOtherPods, "retries", "hints that return Hint.SKIP for a pod that was rejected"),
    (VictimsElsewhere, "post-filter", "name only victims that are on the nominated node"),
    (never_says_no, "exercise", "every node was feasible for every pod"),
    (always_7, "exercise", "every node got the same score, 7"),
]

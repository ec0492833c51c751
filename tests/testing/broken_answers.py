"""Plugins whose answers break the contract, each in one way, with the expected report."""

import itertools
import random

import numpy as np

from bayplan import NodeNames, Plugin, Rejections, Status, filter_plugin, score_plugin
from bayplan.core.api.kinds import NAMESPACE

TIER = "example.com/tier"
NOT_HERE = Status.unschedulable("another tier")
count = itertools.count()


class WrongParameters(Plugin):
    name = "wrong-parameters"

    def filter(self, pod, node):
        return None


class AnswersTrue(Plugin):
    name = "answers-true"

    def filter(self, cycle, pod, node):
        return bool(node.labels)


class NamesAsList(Plugin):
    name = "names-as-list"

    def pre_filter(self, cycle, pod, nodes):
        return NodeNames(["n0", "n1"])


@filter_plugin(name="raises")
def raises(pod, node):
    return "no tier" if node.labels["example.com/tier"] == "none" else None


@score_plugin(name="beyond-100")
def beyond(pod, node):
    return len(node.pods) * 60


class FloatScores(Plugin):
    name = "float-scores"

    def score_nodes(self, cycle, pod, nodes):
        return nodes.pod_count / 2


class DeadRows(Plugin):
    """Reads all rows in PreFilter, also those of deleted nodes."""

    name = "dead-rows"

    def pre_filter(self, cycle, pod, nodes):
        cycle.data[self.name] = [nodes.info(position).labels for position in range(len(nodes))]


class AsksLate(Plugin):
    """Reads namespaces without having asked to watch them."""

    name = "asks-late"

    def __init__(self, handle):
        self._handle = handle

    def pre_filter(self, cycle, pod, nodes):
        return None if pod.namespace in self._handle.objects(NAMESPACE) else "unknown namespace"


@score_plugin(name="chance")
def chance(pod, node):
    return random.randint(0, 100)


class RemembersInClass(Plugin):
    name = "remembers-in-class"
    seen: list[str] = []  # noqa: RUF012 - the mistake

    def score(self, cycle, pod, node):
        self.seen.append(pod.name)
        return len(self.seen) % 100


class ChangesPod(Plugin):
    name = "changes-pod"

    def pre_filter(self, cycle, pod, nodes):
        pod.metadata.annotations = {"seen": "yes"}


class ChangesColumn(Plugin):
    name = "changes-column"

    def filter_nodes(self, cycle, pod, nodes):
        free = nodes.allocatable("cpu")
        free -= nodes.requested("cpu")
        return Rejections.where(free < 500, Status.unschedulable("too little left"))


class ForgetsOthers(Plugin):
    name = "forgets-others"

    def pre_score(self, cycle, pod, nodes):
        cycle.data.clear()

    def score(self, cycle, pod, node):
        return min(100, len(node.pods))


class NormalizesInPlace(Plugin):
    name = "normalizes-in-place"

    def score_nodes(self, cycle, pod, nodes):
        return nodes.pod_count * 60

    def normalize_scores(self, cycle, pod, scores, nodes):
        np.minimum(scores, 100, out=scores)
        scores //= 2
        return scores


class FormsDiffer(Plugin):
    name = "forms-differ"

    def filter(self, cycle, pod, node):
        return NOT_HERE if len(node.pods) >= 2 else None

    def filter_nodes(self, cycle, pod, nodes):
        return Rejections.where(nodes.pod_count > 2, NOT_HERE)


class ScoresDiffer(Plugin):
    name = "scores-differ"

    def score(self, cycle, pod, node):
        return min(10, len(node.pods))

    def score_nodes(self, cycle, pod, nodes):
        return np.minimum(9, nodes.pod_count * 2)


class FullestOnly(Plugin):
    """Compares the nodes of a call with one another."""

    name = "fullest-only"

    def filter_nodes(self, cycle, pod, nodes):
        return Rejections.where(nodes.pod_count < nodes.pod_count.max(initial=0), NOT_HERE)


class CountsOnce(Plugin):
    """Counts pods in PreFilter, and ignores what-ifs."""

    name = "counts-once"

    def pre_filter(self, cycle, pod, nodes):
        cycle.data[self.name] = {nodes.name(at): len(nodes.pods(at)) for at in np.flatnonzero(nodes.live).tolist()}

    def filter(self, cycle, pod, node):
        return "full" if cycle.data[self.name][node.name] >= 1 else None


class AddsButDoesNotRemove(CountsOnce):
    name = "adds-but-does-not-remove"

    def pre_filter(self, cycle, pod, nodes):
        super().pre_filter(cycle, pod, nodes)
        cycle.data[self.name] = Counts(cycle.data[self.name])

    def add_pod(self, cycle, pod, added, node):
        cycle.data[self.name][node.name] += 1

    def remove_pod(self, cycle, pod, removed, node):
        return None


class Counts(dict):
    def clone(self):
        return Counts(self)


BROKEN_ANSWERS = [
    (WrongParameters, "registration", "filter is called with (cycle, pod, node)"),
    (AnswersTrue, "answers", "returned True; expected None, a reason (str) or a Status"),
    (NamesAsList, "answers", "give NodeNames a frozenset of node names"),
    (raises, "answers", "KeyError: 'example.com/tier'"),
    (beyond, "answers", "it should in the range of [0, 100] after normalizing"),
    (FloatScores, "answers", "integers, got float64"),
    (DeadRows, "answers", "AssertionError"),
    (AsksLate, "answers", "namespaces are not watched: ask the handle for them in __init__"),
    (chance, "repeatable", "draw no random numbers"),
    (RemembersInClass, "repeatable", "keep nothing of earlier questions in the class"),
    (ChangesPod, "inputs", "PreFilter changed the pod ("),
    (ChangesColumn, "answers", "output array is read-only"),
    (ForgetsOthers, "inputs", "PreScore changed what other plugins remember in cycle.data"),
    (NormalizesInPlace, "inputs", "normalize_scores changed its array"),
    (FormsDiffer, "forms", "make filter and filter_nodes agree"),
    (ScoresDiffer, "forms", "make score and score_nodes agree"),
    (FullestOnly, "forms", "when filter_nodes is asked about all nodes"),
    (CountsOnce, "what-ifs", "implement add_pod and remove_pod"),
    (AddsButDoesNotRemove, "what-ifs", "let add_pod and remove_pod update everything that pre_filter remembered"),
]

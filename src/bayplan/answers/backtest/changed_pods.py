"""Pods of a history as changed workloads would have made them: with another template, or with other requests.

    changed = changed_pods(history, WorkloadChanges(requests=documents))
    changed.document_of(pod, document)          # that of the pod, or another one

How many pods arrive, and when, stays as it was recorded. The pods that a workload had at the start are changed, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from bayplan.answers.backtest.errors import BacktestError
from bayplan.answers.backtest.pods import PodMaker
from bayplan.answers.history.events import PodArrived
from bayplan.answers.history.reading import History
from bayplan.answers.insight.answers import QuestionError, first_line, plural
from bayplan.answers.insight.manifests import Manifests
from bayplan.answers.insight.owners import WORKLOADS, kind_called
from bayplan.answers.insight.questions.documents import pending_copy
from bayplan.answers.insight.questions.request_changes import ScaledRequests
from bayplan.answers.insight.recommendations.applying import WorkloadRequests, by_workload
from bayplan.answers.insight.recommendations.reading import recommendations_in
from bayplan.answers.simulation.owners import workload_of
from bayplan.answers.snapshots import Snapshot, SnapshotError
from bayplan.answers.snapshots.documents import identify, kind_named
from bayplan.answers.snapshots.objects import ADMISSION
from bayplan.core.api.kinds import POD, Kind
from bayplan.core.api.objects import Document, encode
from bayplan.core.api.status import StatusError
from bayplan.core.api.suggestions import did_you_mean
from bayplan.core.api.well_known_labels import POD_TEMPLATE_HASH
from bayplan.core.cluster.pod_info import PodInfo

_KEPT = 4096
"""How many changed specs are remembered."""
_OF_CONTROLLERS = (POD_TEMPLATE_HASH, "controller-revision-hash", "job-name", "batch.kubernetes.io/job-name")
"""Labels that a pod keeps: they tell its owner."""
_LONG_AGO = datetime.min.replace(tzinfo=UTC)
Json = Mapping[str, Any]
Change = Callable[[PodInfo, Json], Json]
"""Returns the document of a pod, changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadChanges:
    """Changes of workloads: as in `edits.Changes`."""

    objects: Sequence[Mapping[str, Any]] = ()
    requests: Sequence[Mapping[str, Any]] = ()
    scale_requests: Sequence[str] = ()
    namespace: str = "default"

    def __bool__(self) -> bool:
        return bool(self.objects or self.requests or self.scale_requests)


class ChangedPods:
    """The pods of changed workloads. `changes`: by workload, as in `deployment shop/web`. `notes`: what is left out."""

    def __init__(self, changes: Mapping[str, Change], notes: Sequence[str] = ()) -> None:
        self.notes = notes
        self._changes = changes
        self._known: dict[tuple[str, int, int], tuple[Json, Json]] = {}
        """By workload and what pods share: the document of one, and its changed one."""

    def document_of(self, pod: PodInfo, document: Json) -> Json:
        """Return the document of a pod as its workload would have made it; equal ones share their parts."""
        workload = workload_of(pod)
        change = self._changes.get(workload)
        if change is None:
            return document
        metadata = document["metadata"]
        key = workload, id(document["spec"]), id(metadata.get("labels"))
        known = self._known.get(key)
        if known is None or pod.volumes:  # of a StatefulSet's pods, each has its own claims
            if len(self._known) >= _KEPT:
                self._known.clear()
            known = self._known[key] = document, change(pod, document)
        changed = known[1]
        parts = {name: changed["metadata"][name] for name in ("labels", "annotations") if name in changed["metadata"]}
        return {**document, "metadata": {**metadata, **parts}, "spec": changed["spec"]}

    def at_begin(self, pod: PodInfo, document: Json) -> PodInfo:
        """Return a pod that the cluster had at the start. One that requests more, or differs otherwise, has no node."""
        changed = self.document_of(pod, document)
        if changed is document:
            return pod
        made = PodInfo.from_raw(encode(changed))
        made.creation_timestamp = pod.creation_timestamp
        smaller = all(amount <= pod.requested.get(name, 0) for name, amount in made.requested.items())
        return made if smaller and _without_resources(changed) == _without_resources(document) else pending_copy(made)


def changed_pods(history: History, asked: WorkloadChanges) -> ChangedPods:
    """Return the pods of changed workloads. Raises BacktestError if nothing of the history changes."""
    known = _workloads(history)
    changes: dict[str, Change] = {}
    start = history.start()
    documents = {kind: start.of_kind(kind) for kind in ADMISSION}
    server = Manifests(Snapshot(documents, start.source))
    for document in asked.objects:
        workload, change = _template(server, document, known)
        changes[workload] = change
    requests, notes = _requests(asked, known)
    for workload, each in requests.items():
        before = changes.get(workload)
        changes[workload] = _requesting(each, before)
    if not changes:
        more = f", and {plural(len(notes) - 1, 'more')}" if len(notes) > 1 else ""
        raise BacktestError(f"{notes[0]}{more}" if notes else "no workload changes")
    return ChangedPods(changes, tuple(f"left out: {note}" for note in notes))


def _workloads(history: History) -> dict[str, Json]:
    """The workloads of a history, each with the document of one of its pods."""
    found: dict[str, Json] = {}
    start = history.start()
    for key in start.of_kind(POD):
        _note(found, start.document(POD, key) or {})
    maker = PodMaker()
    for event in history.events():
        if isinstance(event, PodArrived):
            _note(found, event.document, maker)
    return found


def _note(found: dict[str, Json], document: Json, maker: PodMaker | None = None) -> None:
    try:
        pod = PodInfo.from_raw(encode(document)) if maker is None else maker.make(document, _LONG_AGO)
    except ValueError:
        return  # the lookahead names it
    workload = workload_of(pod)
    if workload:
        found.setdefault(workload, document)


def _requests(asked: WorkloadChanges, known: Mapping[str, Json]) -> tuple[dict[str, WorkloadRequests], list[str]]:
    """The new requests by workload, and the recommendations that can't be used."""
    read = recommendations_in(asked.requests)
    problems, found = list(read.problems), dict[str, WorkloadRequests]()
    for (namespace, kind_name, name), containers in by_workload(read.found).items():
        kind = kind_called(kind_name)
        workload = f"{kind_name.lower() if kind is None else kind.singular} {namespace}/{name}"
        if workload not in known:
            where = next(iter(containers.values())).target.where
            problems.append(f"{where}: {_unknown(workload, known)}")
            continue
        requests = WorkloadRequests(containers)
        unknown = list(requests.unknown(known[workload]["spec"]))
        problems += unknown
        if len(unknown) < len(containers):
            found[workload] = requests
    for text in asked.scale_requests:
        try:
            given = ScaledRequests.of(text)
            key = f"{asked.namespace}/{given.name}"
            kinds = [each for each in WORKLOADS if f"{each.singular} {key}" in known]
            workload = f"{given.among(kinds, key, ' in the history').singular} {key}"
        except QuestionError as error:
            raise BacktestError(str(error)) from None
        before = found.get(workload, WorkloadRequests())
        found[workload] = replace(before, factor=before.factor * given.factor)
    return found, problems


def _template(server: Manifests, document: Json, known: Mapping[str, Json]) -> tuple[str, Change]:
    """A changed workload, and how it changes a pod. Raises BacktestError."""
    try:
        kind, key, _ = identify(document)
        kind = kind_named(str(document.get("apiVersion")), str(document.get("kind")))
    except SnapshotError as error:
        raise BacktestError(str(error)) from None
    workload = f"{kind.singular} {key}"
    if kind not in WORKLOADS:
        types = ", ".join(each.kind for each in WORKLOADS)
        raise BacktestError(f"{workload}: expected a changed workload: {types}")
    if workload not in known:
        raise BacktestError(_unknown(workload, known))
    example = known[workload]
    change = _templated(server, kind, dict(document))
    change(PodInfo.from_raw(encode(example)), example)  # what the API server refuses shows now
    return workload, change


def _templated(server: Manifests, kind: Kind, workload: Document) -> Change:
    def change(pod: PodInfo, document: Json) -> Json:
        try:
            made = server.successor(kind, workload, pod)
        except StatusError as error:
            name = workload["metadata"]["name"]
            raise BacktestError(f"{kind.singular} {pod.namespace}/{name}: {first_line(error.message)}") from None
        old = document["metadata"].get("labels") or {}
        labels = {**(made["metadata"].get("labels") or {}), **{key: old[key] for key in _OF_CONTROLLERS if key in old}}
        metadata = {**document["metadata"], "labels": labels, "annotations": made["metadata"].get("annotations") or {}}
        node = document["spec"].get("nodeName")
        spec = {**made["spec"], **({"nodeName": node} if node else {})}
        return {**document, "metadata": metadata, "spec": spec}

    return change


def _requesting(requests: WorkloadRequests, before: Change | None) -> Change:
    def change(pod: PodInfo, document: Json) -> Json:
        changed = document if before is None else before(pod, document)
        return {**changed, "spec": requests.applied(changed["spec"])}

    return change


def _unknown(workload: str, known: Iterable[str]) -> str:
    return f"there are no pods of {workload} in the history{did_you_mean(workload, sorted(known))}"


def _without_resources(document: Json) -> Json:
    """The spec of a pod without what its containers request."""
    spec = document["spec"]
    lists = {name: spec[name] for name in ("containers", "initContainers") if spec.get(name)}
    plain = {
        name: [{key: value for key, value in each.items() if key != "resources"} for each in found]
        for name, found in lists.items()
    }
    return {**spec, **plain, "resources": None}

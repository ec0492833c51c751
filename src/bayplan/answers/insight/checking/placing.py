"""Findings of fit: what is refused, which pods stay pending, and whom the others evict."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bayplan.answers.insight.answers import first_line, listed, plural
from bayplan.answers.insight.checking.fields import replicas_at, spec_of_pods_at, strategy_at
from bayplan.answers.insight.checking.findings import Finding, Given, GivenObjects
from bayplan.answers.insight.checking.lines import field_of
from bayplan.answers.insight.questions.fit import REFUSED, Fit, PodFit
from bayplan.answers.insight.questions.rolling_out import RolledOut
from bayplan.answers.insight.questions.what_if import WhatIf
from bayplan.answers.insight.tables import grouped
from bayplan.answers.simulation.results import Fate
from bayplan.answers.snapshots import Snapshot
from bayplan.core.api.kinds import POD
from bayplan.core.expansion.expansion import Refused
from bayplan.foundations.manifest_files import file_and_line

Helped = Callable[[Given], str]
"""A change that lets the pending pods of an object be placed, as it was tried; "" if none was found."""

_QUOTA = "exceeded quota"


@dataclass(frozen=True, slots=True)
class Around:
    """What else an apply leads to. `homeless`: pods that lose their node. `stuck`: rollouts, by workload."""

    homeless: Collection[str] = ()
    stuck: Mapping[str, RolledOut] = field(default_factory=dict)

    @classmethod
    def of(cls, found: WhatIf) -> Around:
        """What an answer of what-if says of it."""
        homeless = {each.pod for each in found.pods if each.states in {("placed", "pending"), ("placed", "absent")}}
        return cls(homeless, {each.workload: each for each in found.rollouts if each.stuck})


def found_by_fit(fit: Fit, given: GivenObjects, around: Around, helped: Helped) -> Iterator[Finding]:
    """Yield the findings of an answer of fit about the objects."""
    for former, latter in given.twice:
        message = f"it is given again{f' in {latter.file}:{latter.line}' if latter.file else ''}, which counts"
        yield former.finding("given-twice", message, "keep one of them, or check one environment at a time")
    for refused in fit.refused:
        yield _refused(refused, given)
    for name in (*fit.unknown, *fit.not_run):
        yield _not_decided(name, given)
    missing = [pod for pod in fit.pods if pod.outcome in {Fate.PENDING.value, REFUSED}]
    for owner, pods in _by_owner(missing, given):
        yield from _missing(owner, pods, fit, around, helped)
    for owner, pods in _by_owner([pod for pod in fit.pods if pod.victims], given):
        victims = list(dict.fromkeys(victim for pod in pods for victim in pod.victims))
        lost = [victim for victim in victims if victim in around.homeless]
        after = f"; no other node would take {listed(lost)}" if lost else "; other nodes would take them"
        yield owner.finding(
            "evicts",
            f"{plural(len(pods), 'pod')} would preempt {plural(len(victims), 'pod')}: {listed(victims)}{after}",
            "give it a lower priorityClassName, or add room first: bayplan scale-up -f shows how many nodes",
            f"{spec_of_pods_at(owner.kind)}.priorityClassName",
        )


def accepted(given: GivenObjects, fit: Fit) -> Iterator[Mapping[str, Any]]:
    """Yield the objects that the API server takes. Workloads whose pods it refuses have none."""
    gone = {owner.title for each in fit.refused if (owner := given.refused(each.what)) is not None}
    refused = {owner.title for pod in fit.pods if pod.outcome == REFUSED and (owner := given.of_pod(pod.pod))}
    for document in given.documents:
        owner = given.of_document(document)
        if owner is None or owner.title in gone or owner is not given.get(owner.kind, owner.key):
            continue
        if owner.title not in refused:
            yield document
        elif "replicas" in document["spec"]:
            yield {**document, "spec": {**document["spec"], "replicas": 0}}


def with_nodes(snapshot: Snapshot, fit: Fit) -> Snapshot:
    """Return a snapshot in which the pods that fit has placed, without evictions, are on their nodes."""
    placed = {pod.pod: pod.node for pod in fit.pods if pod.outcome == Fate.PLACED.value}
    changed = []
    for key in placed.keys() & snapshot.of_kind(POD).keys():
        document = snapshot.document(POD, key) or {}
        if not document["spec"].get("nodeName"):
            header = {"apiVersion": POD.api_version, "kind": POD.kind}
            changed.append({**document, **header, "spec": {**document["spec"], "nodeName": placed[key]}})
    return snapshot.but(change=changed)


def _refused(refused: Refused, given: GivenObjects) -> Finding:
    message, known = first_line(refused.message), given.refused(refused.what)
    if known is not None:
        return known.finding("refused", message, _CORRECT, field_of(message))
    where, _, name = refused.what.rpartition(": ")
    return Finding("refused", name, message, _CORRECT, *file_and_line(where))


def _not_decided(name: str, given: GivenObjects) -> Finding:
    kind, _, others = name.partition(" ")
    found = given.named(kind, others.partition(" ")[0].rstrip(":"))
    next_step = "check the pods that its controller makes: pass them, or the workloads, with -f"
    if found is None:
        return Finding("not-decided", name, name, next_step)
    return found.finding("not-decided", name, next_step)


def _by_owner(pods: Sequence[PodFit], given: GivenObjects) -> Iterator[tuple[Given, list[PodFit]]]:
    """The pods of each object of the manifests."""
    pairs = [(owner, pod) for pod in pods if (owner := given.of_pod(pod.pod)) is not None]
    yield from grouped(pairs).items()


def _missing(owner: Given, pods: Sequence[PodFit], fit: Fit, around: Around, helped: Helped) -> Iterator[Finding]:
    """Pods of an object that aren't created, or stay pending."""
    refused = [pod for pod in pods if pod.outcome == REFUSED]
    if refused:
        message = f"{plural(len(refused), 'pod')} would not be created: {first_line(refused[0].message)}"
        if _QUOTA in refused[0].message:
            step = "request less, run fewer replicas, or raise the quota that it names"
            yield owner.finding("quota", message, step, replicas_at(owner.kind))
        else:
            yield owner.finding("refused", message, _CORRECT)
    pending = [pod for pod in pods if pod.outcome != REFUSED]
    if not pending:
        return
    if owner.title in around.stuck:
        step = helped(owner) or FIRST_OLD
        yield owner.finding("rollout-stuck", str(around.stuck[owner.title]), step, strategy_at(owner.kind))
        return
    total = sum(pod.pod.startswith(f"{owner.key}-") or pod.pod == owner.key for pod in fit.pods)
    message = f"{len(pending)} of {plural(total, 'pod')} would stay pending: {pending[0].message}"
    yield owner.finding("pending", message, helped(owner) or _NODES)


_CORRECT = "correct the field that the message names"
FIRST_OLD = "let an old pod go before each new one comes: set maxSurge to 0 and maxUnavailable to 1"
_NODES = "bayplan scale-up -f shows whether new nodes would help, and bayplan fit -f every pod"

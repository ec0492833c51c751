"""How two snapshots differ besides nodes and pods: workloads that scale, disruption budgets, and quotas."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from bayplan.answers.simulation.owners import references_in
from bayplan.answers.snapshots import Snapshot
from bayplan.core.api import kinds
from bayplan.core.api.kinds import Kind

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ObjectChange:
    """An object, such as `deployment default/web`, that is `added`, `removed`, `scaled` or `changed`, and how."""

    object: str
    change: str
    details: tuple[str, ...] = ()


def object_changes(old: Snapshot, new: Snapshot) -> Iterator[ObjectChange]:
    """Yield the changes of workloads, budgets and quotas, as far as the number of pods or their eviction depends on it.

    Objects with equal bytes are not read.
    """
    for kind, facts_of in _FACTS.items():
        befores, afters = old.of_kind(kind), new.of_kind(kind)
        if befores is afters:
            continue
        for key in sorted({*befores, *afters}):
            if befores.get(key) == afters.get(key):
                continue
            if _is_controlled(befores.get(key) or afters[key]):
                continue
            before, after = old.document(kind, key), new.document(kind, key)
            olds, news = (None if each is None else facts_of(each) for each in (before, after))
            name = f"{kind.singular} {key}"
            if olds is None or news is None:
                shown = [what for what, value in (olds or news or {}).items() if value and what not in _TEMPLATE]
                details = tuple(f"{what} {(olds or news or {})[what]}" for what in shown)
                yield ObjectChange(name, "added" if olds is None else "removed", details)
            elif details := tuple(_differences(olds, news)):
                scaled = kind in _SCALED and olds[_SCALED[kind]] != news[_SCALED[kind]]
                yield ObjectChange(name, "scaled" if scaled else "changed", details)


def _is_controlled(raw: bytes) -> bool:
    """Whether another workload makes the object, as a Deployment its ReplicaSets: then that one tells the change."""
    return any(owner.controller for owner in references_in(raw))


def _differences(old: Document, new: Document) -> Iterator[str]:
    for what in dict.fromkeys((*old, *new)):
        before, after = old.get(what), new.get(what)
        if before == after:
            continue
        if what in _TEMPLATE:
            yield f"{what} of the pods changed"
        else:
            yield f"{what} {'-' if before is None else before} -> {'-' if after is None else after}"


_TEMPLATE = (
    "requests",
    "nodeSelector",
    "affinity",
    "tolerations",
    "topologySpreadConstraints",
    "priorityClassName",
    "schedulerName",
    "resourceClaims",
)
"""The fields of pods that decisions depend on most; `requests` are those of the containers."""


def _workload(fields: Mapping[str, Any], document: Document) -> Document:
    """The facts of a workload. `fields`: those of its spec that say how many pods there are, with their defaults."""
    spec = document.get("spec") or {}
    return {name: spec.get(name, default) for name, default in fields.items()} | _template(spec)


def _cron_job(document: Document) -> Document:
    spec = document.get("spec") or {}
    job = (spec.get("jobTemplate") or {}).get("spec") or {}
    return {
        "schedule": spec.get("schedule"),
        "suspend": spec.get("suspend") or False,
        "parallelism": job.get("parallelism", 1),
    } | _template(job)


def _template(spec: Document) -> Document:
    pod = (spec.get("template") or {}).get("spec") or {}
    containers = [*(pod.get("initContainers") or ()), *(pod.get("containers") or ())]
    requests = [(container.get("resources") or {}).get("requests") or {} for container in containers]
    return {"requests": requests} | {name: pod.get(name) for name in _TEMPLATE[1:]}


def _budget(document: Document) -> Document:
    spec, status = document.get("spec") or {}, document.get("status") or {}
    return {
        "minAvailable": spec.get("minAvailable"),
        "maxUnavailable": spec.get("maxUnavailable"),
        "disruptionsAllowed": status.get("disruptionsAllowed"),
        "currentHealthy": status.get("currentHealthy"),
        "desiredHealthy": status.get("desiredHealthy"),
    }


def _quota(document: Document) -> Document:
    spec, status = document.get("spec") or {}, document.get("status") or {}
    hard = {f"hard {name}": amount for name, amount in (spec.get("hard") or {}).items()}
    return hard | {f"used {name}": amount for name, amount in (status.get("used") or {}).items()}


_REPLICAS = partial(_workload, {"replicas": 1})
_FACTS: Mapping[Kind, Callable[[Document], Document]] = {
    kinds.DEPLOYMENT: partial(_workload, {"replicas": 1, "paused": False}),
    kinds.STATEFUL_SET: _REPLICAS,
    kinds.DAEMON_SET: partial(_workload, {}),
    kinds.REPLICA_SET: _REPLICAS,
    kinds.REPLICATION_CONTROLLER: _REPLICAS,
    kinds.JOB: partial(_workload, {"parallelism": 1, "completions": None, "suspend": False}),
    kinds.CRON_JOB: _cron_job,
    kinds.POD_DISRUPTION_BUDGET: _budget,
    kinds.RESOURCE_QUOTA: _quota,
}
"""What is compared of each kind."""
_SCALED = {
    kinds.DEPLOYMENT: "replicas",
    kinds.STATEFUL_SET: "replicas",
    kinds.REPLICA_SET: "replicas",
    kinds.REPLICATION_CONTROLLER: "replicas",
    kinds.JOB: "parallelism",
}

"""What happens to the pods of a workload that exists when it is applied again: which stay, go, and are replaced.

It says what the controllers' rules lead to; `questions/deployment.py` carries it out, pod by pod.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from bayplan.answers.insight.owners import newest_replica_set, owners_behind
from bayplan.answers.simulation.owners import owners_of
from bayplan.answers.snapshots import Snapshot
from bayplan.core.api.kinds import DAEMON_SET, DEPLOYMENT, JOB, NODE, POD, REPLICA_SET, STATEFUL_SET, Kind
from bayplan.core.api.objects import Document, convert
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.expansion import rollout, stateful_pods
from bayplan.core.expansion.expansion import Rollout
from bayplan.core.expansion.scale_down import scale_down_order


@dataclass(frozen=True, slots=True, kw_only=True)
class Redeployment:
    """The pods (`namespace/name`) of a workload that stay, go without a successor, and are replaced.

    `document` is the workload that new pods are made of, and `kind` its kind; None if there are none. `is_new`: which
    of the document's pods are new, and `is_successor`: which of these replace others. `least`, `most`, `one_by_one` and
    `must_run`: as for `Rollout`.
    """

    workload: str
    kind: Kind
    kept: Sequence[str] = ()
    removed: Sequence[str] = ()
    replaced: Sequence[str] = ()
    document: Document | None = None
    makes_all: bool = False
    """Whether `document` makes the pods that stay, too."""
    is_new: Callable[[Document], bool] = lambda _: True
    is_successor: Callable[[Document], bool] = lambda _: True
    turn: Callable[[Document], bool] = lambda _: False
    """False for successors that come before others."""
    least: int = 0
    most: int = 0
    one_by_one: bool = False
    must_run: Sequence[str] = ()

    def rollout(self, new: Iterable[Document]) -> Rollout:
        """Return the rollout to these new pods."""
        successors = sorted(filter(self.is_successor, new), key=self.turn)
        keys = [f"{pod['metadata']['namespace']}/{pod['metadata']['name']}" for pod in successors]
        if self.kind is STATEFUL_SET:
            missing = sorted(set(keys).difference(self.replaced), key=_place)
            keys = [*missing, *(key for key in self.replaced if key in set(keys))]
        return Rollout(
            self.workload,
            self.replaced,
            keys,
            self.least,
            self.most,
            self.one_by_one,
            self.must_run,
            spares=self.kind is DEPLOYMENT,
        )


def redeployment(snapshot: Snapshot, kind: Kind, before: Document, now: Document) -> Redeployment:
    """Return what happens to a workload's pods. `before` and `now`: the workload as it was, and after it is applied."""
    metadata = now["metadata"]
    workload = f"{kind.singular} {metadata['namespace']}/{metadata['name']}"
    owned = list(_pods_of(snapshot, kind, metadata["namespace"], metadata["name"]))
    changed = before["spec"].get("template") != now["spec"].get("template")
    if kind is JOB:
        started = owned or (before.get("status") or {}).get("startTime")
        return Redeployment(workload=workload, kind=kind, kept=_keys(owned), document=None if started else now)
    if kind is DAEMON_SET:
        places = {name: place for place, name in enumerate(snapshot.of_kind(NODE))}
        in_order = sorted(owned, key=lambda pod: places.get(_node_of(msgspec.json.decode(pod.raw)), -1))
        return _daemon_set(workload, in_order, now, changed=changed)
    if kind is STATEFUL_SET:
        return _stateful_set(workload, owned, now, changed=changed)
    if kind is DEPLOYMENT and changed and not now["spec"].get("paused"):
        return _deployment(workload, owned, now)
    return _replicas(workload, kind, owned, now, newest_replica_set(snapshot, metadata) if kind is DEPLOYMENT else None)


def _replicas(
    workload: str, kind: Kind, owned: Sequence[PodInfo], now: Document, newest: Document | None
) -> Redeployment:
    """More or fewer pods of the same template."""
    wanted = _number(now["spec"].get("replicas"), 1)
    surplus = max(len(owned) - wanted, 0)
    objects = [pod.object for pod in owned]
    doomed = {pod.metadata.name for pod in scale_down_order(objects, objects)[:surplus]} if surplus else set()
    missing = wanted - len(owned)
    template = now if newest is None else newest
    document = {**template, "spec": {**template["spec"], "replicas": missing}} if missing > 0 else None
    return Redeployment(
        workload=workload,
        kind=kind if newest is None else REPLICA_SET,
        kept=_keys(pod for pod in owned if pod.name not in doomed),
        removed=_keys(pod for pod in owned if pod.name in doomed),
        document=document,
    )


def _deployment(workload: str, owned: Sequence[PodInfo], now: Document) -> Redeployment:
    """A new template: with RollingUpdate, new pods come while old ones go; with Recreate, all old ones go first.

    Old pods that don't run go first, as in upstream's `cleanupUnhealthyReplicas`, and no more than it allows.
    """
    deployment: Any = convert(DEPLOYMENT.type, now)
    wanted = rollout.wanted(deployment)
    least = wanted - rollout.max_unavailable(deployment) if rollout.is_rolling_update(deployment) else 0
    return Redeployment(
        workload=workload,
        kind=DEPLOYMENT,
        replaced=_keys(sorted(owned, key=lambda pod: bool(pod.node_name))),
        document=now,
        least=least,
        most=wanted + rollout.max_surge(deployment),
    )


def _stateful_set(workload: str, owned: Sequence[PodInfo], now: Document, *, changed: bool) -> Redeployment:
    """Pods keep their names. With a new template, those from the partition on are replaced, the highest first.

    Pods that don't run keep an ordered StatefulSet from beginning. Others wait only for the pods that they replaced;
    with `maxUnavailable`, pods that don't run count.
    """
    stateful_set: Any = convert(STATEFUL_SET.type, now)
    strategy = now["spec"].get("updateStrategy") or {}
    rolling = strategy.get("rollingUpdate") or {}
    known = {pod.name: pod for pod in owned}
    wanted = set(stateful_pods.ordinals(stateful_set))
    first = min(wanted, default=0) + _number(rolling.get("partition"), 0)
    replaces = changed and strategy.get("type") != "OnDelete"
    inside = [pod for pod in owned if stateful_pods.parent_and_ordinal(pod.name)[1] in wanted]
    replaced = [pod for pod in inside if replaces and stateful_pods.parent_and_ordinal(pod.name)[1] >= first]
    staying = {pod.name for pod in inside} - {pod.name for pod in replaced}
    at_once = max(rollout.scaled(rolling.get("maxUnavailable"), len(wanted), round_up=False), 1)
    return Redeployment(
        workload=workload,
        kind=STATEFUL_SET,
        kept=_keys(pod for pod in inside if pod.name in staying),
        removed=_keys(pod for pod in owned if pod not in inside),
        replaced=sorted(_keys(replaced), key=_place, reverse=True),
        document=now if replaced or len(known) < len(wanted) else None,
        makes_all=True,
        is_new=lambda pod: pod["metadata"]["name"] not in staying,
        least=len(wanted) - len(staying) - at_once,
        most=len(wanted) - len(staying),
        one_by_one=rolling.get("maxUnavailable") is None,
        must_run=_keys(inside) if stateful_pods.is_ordered(stateful_set) else (),
    )


def _daemon_set(workload: str, owned: Sequence[PodInfo], now: Document, *, changed: bool) -> Redeployment:
    """A pod for each node. With a new template, they are replaced node by node, those that don't run first."""
    strategy = now["spec"].get("updateStrategy") or {}
    rolling = strategy.get("rollingUpdate") or {}
    replaces = changed and strategy.get("type") != "OnDelete"
    surge = rollout.scaled(rolling.get("maxSurge"), len(owned), round_up=True)
    at_once = rollout.scaled(rolling.get("maxUnavailable"), len(owned), round_up=True) or (0 if surge else 1)
    nodes = {_node_of(msgspec.json.decode(pod.raw)): bool(pod.node_name) for pod in owned}
    return Redeployment(
        workload=workload,
        kind=DAEMON_SET,
        kept=() if replaces else _keys(owned),
        replaced=_keys(sorted(owned, key=lambda pod: bool(pod.node_name))) if replaces else (),
        document=now,
        makes_all=True,
        turn=lambda pod: nodes.get(_node_of(pod), False),
        is_new=lambda pod: replaces or _node_of(pod) not in nodes,
        is_successor=lambda pod: _node_of(pod) in nodes,
        least=len(owned) - at_once,
        most=len(owned) + surge,
    )


def _pods_of(snapshot: Snapshot, kind: Kind, namespace: str, name: str) -> Iterator[PodInfo]:
    """The pods of a workload that run or wait, in the order of their names."""
    owners = owners_behind(snapshot, kind, namespace, name)
    prefix, marks = f"{namespace}/", [name.encode() for _, name in owners]
    for key, raw in sorted(snapshot.of_kind(POD).items()):
        if not key.startswith(prefix) or not any(mark in raw for mark in marks):
            continue
        try:
            pod = PodInfo.from_raw(raw)
        except ValueError:
            continue  # it is left out of every answer, with a warning
        if not pod.terminated and not pod.terminating and not owners.isdisjoint(owners_of(pod)):
            yield pod


def _keys(pods: Any) -> tuple[str, ...]:
    return tuple(pod.key for pod in pods)


def _place(key: str) -> int:
    """The ordinal of a StatefulSet's pod."""
    return stateful_pods.parent_and_ordinal(key.rpartition("/")[2])[1]


def _number(value: Any, default: int) -> int:
    return value if isinstance(value, int) else default


def _node_of(pod: Mapping[str, Any]) -> str:
    """The node that a DaemonSet's pod is made for."""
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    for term in required.get("nodeSelectorTerms") or ():
        for field in term.get("matchFields") or ():
            if field.get("key") == "metadata.name":
                return str((field.get("values") or [""])[0])
    return str(pod["spec"].get("nodeName") or "")

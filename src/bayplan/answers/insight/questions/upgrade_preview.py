"""upgrade-preview: what another version of Kubernetes decides differently on a cluster, and which changes cause it.

Each workload's pod is decided alone, as if it were created again, by the scheduler of both versions on the same state.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Group as Lines
from rich.console import RenderableType
from rich.text import Text

from bayplan.answers.insight.answers import Answer, Progress, listed, plural, silent
from bayplan.answers.insight.questions.documents import pending_copy
from bayplan.answers.insight.tables import table
from bayplan.answers.judging.placements import decision_of
from bayplan.answers.simulation.evictions import remove
from bayplan.answers.simulation.owners import references_in, workload_of
from bayplan.answers.simulation.usual import usual_configuration
from bayplan.answers.simulation.world import World
from bayplan.answers.snapshots import Snapshot
from bayplan.core.api.kinds import GATED_KINDS, PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, POD, STORAGE_CLASS
from bayplan.core.api.volumes import claim_name, class_of_claim, full_name, volume_name
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.cluster.resizes import APPLIED_TO_PODS, may_be_read_otherwise
from bayplan.core.config import ExtraPlugin, KubeSchedulerConfiguration, build_profiles
from bayplan.core.framework.calling import call
from bayplan.core.framework.profile import Point, Profile
from bayplan.core.queue.gates import run_pre_enqueue
from bayplan.core.queue.queued_pod import QueuedPod
from bayplan.core.scheduling.decision import Decision, Outcome
from bayplan.core.versions import CHANGES, GATES, GONE_METRICS, VERSIONS, FeatureGates, GoneMetric

API = "API"
_METRIC = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
Scheduler = tuple[World, Mapping[str, Profile]]
"""The state as a scheduler reads it, and its profiles by scheduler name."""


@dataclass(frozen=True, slots=True)
class Decided:
    """What a version decides about a pod. `nodes`: those with the highest score; one of them is chosen.

    `scores`: the totals of all feasible nodes. `message`: why the pod is pending, but for preemption; "" if it isn't.
    """

    outcome: str
    nodes: tuple[str, ...] = ()
    scores: Mapping[str, int] | None = None
    message: str = ""

    def text(self, other: Decided) -> str:
        """What a table shows of it beside the other version's decision."""
        if self.message:
            return f"{self.outcome}: {self.message}"
        nodes, scores = listed(self.nodes, 3), self.scores or {}
        changed = sorted(name for name in scores if scores[name] != (other.scores or {}).get(name))
        shown = changed if self.nodes == other.nodes else [name for name in self.nodes if name in scores]
        return f"{nodes} ({', '.join(f'{name} {scores[name]}' for name in shown[:3])})" if shown else nodes


@dataclass(frozen=True, slots=True)
class ChangedDecision:
    """A pod, pending or created again, about which the versions decide differently, with all `causes`.

    `workload`: what it belongs to, with `pods` pods like it.
    """

    pod: str
    workload: str
    pods: int
    before: Decided
    after: Decided
    causes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class UnservedObject:
    """An object in a version of the API that the next version of Kubernetes doesn't serve."""

    object: str
    api_version: str
    owner: str
    instead: str


@dataclass(frozen=True, slots=True)
class UpgradeCause:
    """A gate, a change without a gate, or an API version, with what it does and what it changes here."""

    name: str
    effect: str
    pods: int = 0
    objects: int = 0


@dataclass(frozen=True, slots=True)
class EndingMetric:
    """A metric of a component that the next version doesn't have, and what replaces it."""

    metric: str
    component: str
    instead: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UpgradePreview(Answer):
    """What version `after` decides differently from `before`.

    `looked_at`: how many nodes, pods and workloads there are, and how many pods were decided. `settings`: options,
    feature gates and metrics in use that `after` doesn't have. `metrics`: all those that end, which is no change by
    itself: dashboards and alerts may use them.
    """

    before: str
    after: str
    looked_at: Mapping[str, int]
    causes: tuple[UpgradeCause, ...]
    decisions: tuple[ChangedDecision, ...]
    objects: tuple[UnservedObject, ...]
    settings: tuple[str, ...]
    metrics: tuple[EndingMetric, ...] = ()
    shown: int = 20

    @property
    def changes(self) -> bool:
        """Whether anything changes."""
        return bool(self.decisions or self.objects or self.settings)

    @property
    def passes(self) -> bool:
        """Whether nothing changes."""
        return not self.changes

    def rows(self) -> list[dict[str, Any]]:
        """Return one row per pod about which the decision changes."""
        return [
            {"pod": each.pod, "workload": each.workload, "causes": ", ".join(each.causes)} for each in self.decisions
        ]

    def render(self, *, wide: bool = False) -> RenderableType:
        """Return the causes, the decisions, the objects and the settings that change, or what was looked at."""
        limit = 0 if wide else self.shown
        seen = ", ".join(plural(number, what) for what, number in self.looked_at.items())
        head = f"from Kubernetes {self.before} to {self.after}: "
        if not self.changes:
            return Lines(Text(f"{head}nothing changes; looked at {seen}"), *self._metrics(limit))
        parts: list[RenderableType] = [Text(f"{head}{self._headline()}", style="bold"), Text(f"looked at {seen}")]
        if self.causes:
            rows = [(each.name, each.pods, each.objects, each.effect) for each in self.causes]
            headers = ("CAUSE", "PODS", "OBJECTS", "EFFECT")
            parts += [Text(), table(headers, rows, lambda each: tuple(map(str, each)), limit)]
        if self.decisions:
            parts += [Text(), table(("POD", "BEFORE", "AFTER", "CAUSES"), self.decisions, _row, limit)]
        if self.objects:
            objects = [(each.object, each.api_version, each.owner, each.instead) for each in self.objects]
            headers = ("OBJECT", "NOT SERVED", "OWNER", "INSTEAD")
            parts += [Text(), table(headers, objects, lambda each: each, limit)]
        parts += [Text(), *map(Text, self.settings)] if self.settings else []
        return Lines(*parts, *self._metrics(limit))

    def _metrics(self, limit: int) -> list[RenderableType]:
        rows = [(each.metric, each.component, each.instead) for each in self.metrics]
        return [Text(), table(("METRIC THAT ENDS", "OF", "INSTEAD"), rows, lambda each: each, limit)] if rows else []

    def _headline(self) -> str:
        pods = sum(each.pods for each in self.decisions)
        parts = [f"{plural(pods, 'pod')} decided differently"] if pods else []
        parts += [f"{plural(len(self.objects), 'object')} not served"] if self.objects else []
        parts += [f"{plural(len(self.settings), 'setting')} gone"] if self.settings else []
        return ", ".join(parts)


def _row(each: ChangedDecision) -> Sequence[str]:
    name = each.pod if each.pods == 1 else f"{each.pod} (1 of {each.pods} of {each.workload})"
    return name, each.before.text(each.after), each.after.text(each.before), ", ".join(each.causes)


def upgrade_preview(
    snapshot: Snapshot,
    scheduler: Callable[[FeatureGates], Scheduler],
    gates: tuple[FeatureGates, FeatureGates],
    *,
    settings: Sequence[str] = (),
    matches: Callable[[PodInfo], bool] = lambda _: True,
    shown: int = 20,
    progress: Progress = silent,
) -> UpgradePreview:
    """Compare two versions, with their feature gates, on a snapshot. `scheduler`: the one that has some gates.

    Raises ConfigurationError if the configuration isn't one of the later version, and Stopped if `progress` does.
    """
    before, after = gates
    built = {each: scheduler(each) for each in gates}
    world, _ = built[after]

    def decided(key: str, with_gates: FeatureGates) -> Decided:
        if with_gates not in built:
            built[with_gates] = scheduler(with_gates)
        world, profiles = built[with_gates]
        with world.trial():
            pod = _created_again(world, world.state.objects[POD][key])
            return _decide(world, profiles[pod.scheduler_name], pod)

    pods = [pod for pod in world.state.objects[POD].values() if pod.scheduler_name in world.profiles and matches(pod)]
    workloads = _alike(pods)
    decisions: list[ChangedDecision] = []
    for number, members in enumerate(workloads):
        progress(f"{number:,} of {plural(len(workloads), 'workload')} decided")
        decisions += _changed_decision(members, before, after, decided)
    objects = tuple(_unserved(snapshot, before.version, after.version))
    looked_at = {"node": world.state.table.live_count, "pod": len(pods), "workload": len(workloads)}
    return UpgradePreview(
        before=before.version,
        after=after.version,
        looked_at=looked_at,
        causes=tuple(_causes(decisions, objects)),
        decisions=tuple(decisions),
        objects=objects,
        settings=tuple(settings),
        metrics=tuple(
            EndingMetric(each.name, each.of, each.instead) for each in gone_metrics(before.version, after.version)
        ),
        shown=shown,
    )


def _changed_decision(
    members: Sequence[PodInfo],
    before: FeatureGates,
    after: FeatureGates,
    decided: Callable[[str, FeatureGates], Decided],
) -> Iterator[ChangedDecision]:
    """The decision about the first pod of a workload, if it changes.

    Its causes: the gates that change the decision of either version when they are switched alone.
    """
    key = members[0].key
    first, last = decided(key, before), decided(key, after)
    if first != last:
        switched = (name for name in sorted(before.on ^ after.on) if _can_be_switched(name, before, after))
        causes = tuple(
            name
            for name in switched
            if decided(key, _toggled(before, name)) != first or decided(key, _toggled(after, name)) != last
        )
        yield ChangedDecision(key, workload_of(members[0]) or key, len(members), first, last, causes)


def schedulers(
    snapshot: Snapshot,
    configuration: KubeSchedulerConfiguration | None,
    plugins: Sequence[ExtraPlugin],
    both: tuple[FeatureGates, FeatureGates],
    seed: int,
    known: World | None = None,
) -> Callable[[FeatureGates], Scheduler]:
    """Return the schedulers of some gates. Those that read the pods of the snapshot in the same way share a world.

    `known`: a world with the first gates that holds the snapshot, and whose state the schedulers may read from now on.
    """
    worlds: dict[frozenset[str], World] = {}

    def profiles(world: World, gates: FeatureGates) -> Mapping[str, Profile]:
        return build_profiles(configuration or usual_configuration(plugins, gates), world.handle, plugins, gates)

    def read_by_both(world: World) -> World:
        for each in both:  # so that the world has all kinds that either reads
            profiles(world, each)
        world.move(snapshot.documents, snapshot.taken or datetime.now(UTC))
        return world

    def world_of(gates: FeatureGates) -> World:
        read = gates.on & APPLIED_TO_PODS
        if read not in worlds:
            first = next(iter(worlds.values()), None)
            alike = first is not None and not any(map(may_be_read_otherwise, first.state.objects[POD].values()))
            if first is not None and alike:
                worlds[read] = first
            else:
                worlds[read] = read_by_both(World(configuration, plugins, gates, seed=seed))
        return worlds[read]

    def scheduler(gates: FeatureGates) -> Scheduler:
        world = world_of(gates)
        return world, profiles(world, gates)

    if known is not None:
        worlds[both[0].on & APPLIED_TO_PODS] = read_by_both(known)

    return scheduler


def _toggled(gates: FeatureGates, name: str) -> FeatureGates:
    return gates.but(off=(name,)) if name in gates.on else gates.but(name)


def _can_be_switched(name: str, *versions: FeatureGates) -> bool:
    """Whether it can be switched alone: a change, or a gate that all versions have.

    A gate that only one version has is the same difference under another name.
    """
    return name in CHANGES or all(GATES[name].stage(each.version) is not None for each in versions)


def _alike(pods: Iterable[PodInfo]) -> list[list[PodInfo]]:
    """The pods by workload, those without a node apart. A pod with claims of its own is like no other one."""
    groups: dict[tuple[str, bool, str], list[PodInfo]] = {}
    for pod in sorted(pods, key=lambda pod: pod.key):
        own = pod.key if any(claim_name(pod.name, each) for each in pod.volumes) and not pod.node_name else ""
        groups.setdefault((workload_of(pod) or pod.key, bool(pod.node_name), own), []).append(pod)
    return list(groups.values())


def _created_again(world: World, pod: PodInfo) -> PodInfo:
    """The pod without a node. If it has one, it leaves that, and its template makes its claims anew."""
    if not pod.node_name:
        return pod
    remove(world, pod)
    claims = world.state.objects[PERSISTENT_VOLUME_CLAIM]
    of_template = any(each.kind == "StatefulSet" for each in references_in(pod.raw))
    for volume in pod.volumes:
        claim = claims.get(f"{pod.namespace}/{claim_name(pod.name, volume)}")
        if claim is not None and (of_template or volume.ephemeral is not None) and _binds_late(world, claim):
            bound = volume_name(claim)
            if bound:
                world.change(PERSISTENT_VOLUME, bound, None)
            world.change(PERSISTENT_VOLUME_CLAIM, full_name(claim), _unbound(claim))
    return pending_copy(pod)


def _binds_late(world: World, claim: Any) -> bool:
    found = world.state.objects[STORAGE_CLASS].get(class_of_claim(claim))
    return found is not None and found.volumeBindingMode == "WaitForFirstConsumer"


def _unbound(claim: Any) -> Any:
    metadata = msgspec.structs.replace(claim.metadata, annotations={})
    spec = msgspec.structs.replace(claim.spec, volumeName=None)
    return msgspec.structs.replace(claim, metadata=metadata, spec=spec, status=None)


def _decide(world: World, profile: Profile, pod: PodInfo) -> Decided:
    queued = QueuedPod(pod, queued_at=0.0)
    if run_pre_enqueue(queued, profile.at(Point.PRE_ENQUEUE), call, world.failures):
        return Decided("gated", message=queued.message)
    return _outcome(world, decision_of(world, pod, profile))


def _outcome(world: World, decision: Decision) -> Decided:
    if decision.outcome is not Outcome.SCHEDULED:
        return Decided("pending", message=decision.reason)
    names = world.state.table.names
    if decision.scores is None:
        return Decided("placed", tuple(sorted(names[row] for row in decision.feasible.tolist())))
    totals = zip(decision.scores.rows.tolist(), decision.scores.total.tolist(), strict=True)
    best = tuple(sorted(names[row] for row in decision.scores.best.tolist()))
    return Decided("placed", best, {names[row]: total for row, total in totals})


def _unserved(snapshot: Snapshot, before: str, after: str) -> Iterator[UnservedObject]:
    """The objects of kinds that `before` serves, in a version that `after` has no more."""
    served = {(kind.group, kind.plural): kind.api_version for kind in GATED_KINDS[after]}
    gone = {
        (kind.api_version, kind.kind): served.get((kind.group, kind.plural), "")
        for kind in GATED_KINDS[before]
        if kind not in GATED_KINDS[after] or kind.api_version not in {each.api_version for each in GATED_KINDS[after]}
    }
    groups = {kind.group for kind in GATED_KINDS[before]}
    for kind, known in snapshot.documents.items():
        if kind.group not in groups:
            continue
        for key, raw in known.items():
            document = snapshot.document(kind, key) or {}
            header = (str(document.get("apiVersion")), str(document.get("kind")))
            if header in gone:
                owner = next((f"{each.kind} {each.name}" for each in references_in(raw) if each.controller), "")
                yield UnservedObject(f"{header[1]} {key}", header[0], owner, gone[header])


def _causes(decisions: Sequence[ChangedDecision], objects: Sequence[UnservedObject]) -> Iterator[UpgradeCause]:
    pods = Counter[str]()
    for each in decisions:
        pods.update(dict.fromkeys(each.causes, each.pods))
    for name, number in sorted(pods.items()):
        pulls = ", ".join(f"#{number}" for number in CHANGES[name].pull_requests) if name in CHANGES else ""
        effect = f"{CHANGES[name].effect} ({pulls})" if name in CHANGES else GATES[name].switches
        yield UpgradeCause(name, effect, pods=number)
    versions = Counter(each.api_version for each in objects)
    for version, number in sorted(versions.items()):
        yield UpgradeCause(version, f"this version of the {API} isn't served any more", objects=number)


def gone_metrics(before: str, after: str) -> tuple[GoneMetric, ...]:
    """The metrics that end between two versions."""
    first, last = VERSIONS.index(before), VERSIONS.index(after)
    return tuple(each for each in GONE_METRICS if first < VERSIONS.index(each.gone_in) <= last)


def metrics_used(paths: Iterable[Path], metrics: Iterable[GoneMetric]) -> Iterator[str]:
    """Say which files of dashboards and alerts use which metrics. `paths`: files and folders. Raises OSError."""
    of = {each.name: each for each in metrics}
    for path in paths:
        for file in sorted(each for each in path.rglob("*") if each.is_file()) if path.is_dir() else [path]:
            words = set(_METRIC.findall(file.read_text(encoding="utf-8", errors="replace")))
            for name in sorted(words & of.keys()):
                yield f"{file}: {name} ends in Kubernetes {of[name].gone_in}; use {of[name].instead}"


def next_version(version: str) -> str | None:
    """The known version after another one; None for the newest."""
    place = VERSIONS.index(version) + 1
    return VERSIONS[place] if place < len(VERSIONS) else None

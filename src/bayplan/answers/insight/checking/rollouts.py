"""Findings of a restart: what the next rollout would lead to, once the manifests are applied.

A rollout that gets stuck, or that leaves pods spread unevenly, shows only when a template changes the next time: by
then the manifest is long merged. So the workloads are restarted as `kubectl rollout restart` does it, in a cluster that
has the manifests.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, Protocol

from bayplan.answers.insight.answers import Progress
from bayplan.answers.insight.checking.fields import spec_of_pods_at
from bayplan.answers.insight.checking.findings import Finding, Given, GivenObjects
from bayplan.answers.insight.limits import AdditionLimit, Limits
from bayplan.answers.insight.owners import owned_by
from bayplan.answers.insight.questions.edits import Changes, edited
from bayplan.answers.insight.questions.request_changes import template_of, with_template
from bayplan.answers.insight.questions.rolling_out import ComingPods, RolledOut
from bayplan.answers.insight.questions.what_if import carried_out
from bayplan.answers.simulation.world import World
from bayplan.answers.snapshots import Snapshot
from bayplan.core.api.kinds import DAEMON_SET, DEPLOYMENT, POD, STATEFUL_SET
from bayplan.core.api.labels import InvalidSelector
from bayplan.core.api.well_known_labels import POD_TEMPLATE_HASH
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.framework.capabilities import CountsDomains, PodsByDomain
from bayplan.core.framework.profile import Point, implements

RESTARTED = "kubectl.kubernetes.io/restartedAt"
"""The annotation of a template by which kubectl restarts a workload."""
_ROLLED_OUT = frozenset({DEPLOYMENT, STATEFUL_SET, DAEMON_SET})


def restarted(snapshot: Snapshot, given: GivenObjects, without: Collection[str]) -> Iterator[dict[str, Any]]:
    """Yield the workloads of the manifests, restarted. `snapshot`: has them. `without`: the titles of some."""
    for each in given:
        document = snapshot.document(each.kind, each.key) if each.kind in _ROLLED_OUT else None
        template = None if document is None else template_of(each.kind, document)
        if document is None or template is None or each.title in without:
            continue
        metadata = template.get("metadata") or {}
        annotations = {**(metadata.get("annotations") or {}), RESTARTED: "1970-01-01T00:00:00Z"}
        changed = {**template, "metadata": {**metadata, "annotations": annotations}}
        header = {"apiVersion": each.kind.api_version, "kind": each.kind.kind}
        applied = {name: value for name, value in document.items() if name != "status"}
        yield {**with_template(each.kind, applied, changed), **header}


class RestartedCluster(Protocol):
    """The cluster in which workloads are restarted, as of an `Insight`."""

    world: World
    snapshot: Snapshot
    seed: int
    limits: Limits


@dataclass(slots=True)
class Restarts:
    """What restarts led to, which were tried several times: which old pods go first is up to chance.

    `stuck`: the rollouts that got stuck. `spreads`: by workload and topology, how uneven its pods were each time.
    """

    tries: int
    stuck: dict[Given, RolledOut] = field(default_factory=dict)
    spreads: dict[tuple[Given, str], list[tuple[PodsByDomain, PodInfo]]] = field(default_factory=dict)

    def uneven(self) -> Iterator[Finding]:
        """Yield the constraints that weren't met once the restarted pods had come, each with its worst counts."""
        for (owner, _), found in self.spreads.items():
            worst, pod = max(found, key=lambda each: each[0].skew)
            message = _uneven_text(worst)
            if len(found) < self.tries:
                message += f"; that came of {len(found)} of {self.tries} tries, with old pods in other orders"
            at = f"{spec_of_pods_at(owner.kind)}.topologySpreadConstraints{_number(pod, worst)}"
            yield owner.finding("uneven-spread", message, _evenly(pod), at)


def tried(
    cluster: RestartedCluster, documents: Sequence[Mapping[str, Any]], given: GivenObjects, progress: Progress
) -> Restarts:
    """Try a restart of workloads, several times if their pods are to be spread. May raise Stopped.

    `documents`: the restarted workloads. The cluster is as before afterwards.
    """
    world, seed = cluster.world, cluster.seed
    world.reset()
    room = AdditionLimit(cluster.limits, progress)
    edit = edited(world, cluster.snapshot, Changes(objects=documents), seed, room)
    found = Restarts(_TRIES if any(map(_spreads_pods, documents)) else 1)
    try:
        for number in range(found.tries):
            world.reseed(seed + number)
            this_time = replace(edit, coming=_in_another_order(edit.coming, number))
            with carried_out(world, world, cluster.snapshot, this_time, progress) as (rollouts, _):
                for each in rollouts:
                    owner = given.called(each.workload)
                    if each.stuck and owner is not None:
                        found.stuck.setdefault(owner, each)
                for owner, spread, pod in _spreads(world, edit.snapshot, given):
                    found.spreads.setdefault((owner, spread.topology_key), []).append((spread, pod))
    finally:
        world.reseed(seed)
        world.reset()
    return found


_TRIES = 8


def _in_another_order(coming: ComingPods, number: int) -> ComingPods:
    """The same rollouts; from the second try on, the old pods of Deployments go in another order.

    Its controller doesn't say in which order equal pods go.
    """
    if not number:
        return coming
    shuffled = {
        name: replace(each, old=Random(number).sample(each.old, len(each.old))) if each.spares else each
        for name, each in coming.rollouts.items()
    }
    return replace(coming, rollouts=shuffled)


def _spreads_pods(document: Mapping[str, Any]) -> bool:
    return bool(document["spec"]["template"]["spec"].get("topologySpreadConstraints"))


def _spreads(world: World, snapshot: Snapshot, given: GivenObjects) -> Iterator[tuple[Given, PodsByDomain, PodInfo]]:
    """The constraints of workloads that aren't met now. The world holds the snapshot."""
    for each in given:
        namespace, _, name = each.key.partition("/")
        pods = world.state.objects[POD]
        owned = owned_by(snapshot, pods, each.kind, namespace, name) if each.kind in _ROLLED_OUT else []
        pod = next((pod for pod in owned if pod.node_name and pod.spec.topologySpreadConstraints), None)
        for spread in () if pod is None else _spreads_of(world, pod):
            if spread.uneven and pod is not None:
                yield each, spread, pod


def _spreads_of(world: World, pod: PodInfo) -> Iterator[PodsByDomain]:
    profile = world.profiles.get(pod.scheduler_name)
    for plugin in profile.at(Point.FILTER) if profile is not None else ():
        if implements(plugin, CountsDomains):
            with suppress(InvalidSelector):  # its attempt fails, which is a finding
                yield from plugin.pods_by_domain(pod, world.state.nodes)


def _uneven_text(spread: PodsByDomain) -> str:
    counts = list(spread.by_domain.items())
    few, many = counts[0], counts[-1]
    return (
        f"after the next rollout, its pods are spread over {spread.topology_key} with a skew of {spread.skew}, and "
        f"maxSkew is {spread.max_skew}: {many[0]} has {many[1]}, {few[0]} has {few[1]}"
    )


def _number(pod: PodInfo, spread: PodsByDomain) -> str:
    """The index of a constraint among those of its pod; "" if none is known to be it."""
    for number, each in enumerate(pod.spec.topologySpreadConstraints or ()):
        if each.topologyKey == spread.topology_key:
            return f"[{number}]"
    return ""


def _evenly(pod: PodInfo) -> str:
    if POD_TEMPLATE_HASH in pod.labels:
        return (
            f"add matchLabelKeys: [{POD_TEMPLATE_HASH}] to the constraint, so that pods of the old template don't count"
        )
    return "add a label of the revision to the template, and to matchLabelKeys of the constraint"

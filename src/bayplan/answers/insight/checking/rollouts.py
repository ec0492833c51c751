"""Findings of a restart: what the next rollout would lead to, once the manifests are applied.

A rollout that gets stuck, or that leaves pods spread unevenly, shows only when a template changes the next time: by
then the manifest is long merged. So the workloads are restarted as `kubectl rollout restart` does it, in a cluster that
has the manifests.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from typing import Any

from bayplan.answers.insight.checking.findings import Finding, GivenObjects
from bayplan.answers.insight.owners import owned_by
from bayplan.answers.insight.questions.request_changes import template_of, with_template
from bayplan.answers.insight.questions.rolling_out import RolledOut
from bayplan.answers.simulation.world import World
from bayplan.answers.snapshots import Snapshot
from bayplan.core.api.kinds import DAEMON_SET, DEPLOYMENT, POD, STATEFUL_SET, Kind
from bayplan.core.api.labels import InvalidSelector
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.framework.capabilities import CountsDomains, PodsByDomain
from bayplan.core.framework.profile import Point, implements

RESTARTED = "kubectl.kubernetes.io/restartedAt"
"""The annotation of a template by which kubectl restarts a workload."""
_ROLLED_OUT = frozenset({DEPLOYMENT, STATEFUL_SET, DAEMON_SET})
_HASH = "pod-template-hash"


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


def spreading(snapshot: Snapshot, given: GivenObjects) -> bool:
    """Return whether any workload has constraints that a rollout may leave uneven."""
    templates = [
        template_of(each.kind, document) or {}
        for each in given
        if each.kind in _ROLLED_OUT and (document := snapshot.document(each.kind, each.key)) is not None
    ]
    return any((template.get("spec") or {}).get("topologySpreadConstraints") for template in templates)


def stuck(rollouts: Collection[RolledOut], given: GivenObjects, helped: Mapping[str, str]) -> Iterator[Finding]:
    """Yield the rollouts that get stuck. `helped`: by workload, a change with which its pods are placed."""
    for each in rollouts:
        owner = given.called(each.workload) if each.stuck else None
        if owner is not None:
            yield owner.finding(
                "rollout-stuck", f"after the next change of its template, {each}", helped[each.workload]
            )


def uneven(world: World, snapshot: Snapshot, given: GivenObjects) -> Iterator[Finding]:
    """Yield the constraints that aren't met once the restarted pods have come. The world holds that snapshot."""
    for each in given:
        if each.kind not in _ROLLED_OUT:
            continue
        for spread, pod in _spreads(world, placed_pods(world, snapshot, each.kind, each.key)):
            if spread.uneven:
                yield each.finding("uneven-spread", _uneven_text(spread), _evenly(pod))


def placed_pods(world: World, snapshot: Snapshot, kind: Kind, key: str) -> list[PodInfo]:
    """Return the pods of a workload that have a node."""
    namespace, _, name = key.partition("/")
    found = owned_by(snapshot, world.state.objects[POD], kind, namespace, name)
    return [pod for pod in found if pod.node_name]


def _spreads(world: World, pods: list[PodInfo]) -> Iterator[tuple[PodsByDomain, PodInfo]]:
    """How the pods of a workload are spread: they have the same constraints."""
    for pod in pods[:1]:
        profile = world.profiles.get(pod.scheduler_name)
        for plugin in profile.at(Point.FILTER) if profile is not None else ():
            if implements(plugin, CountsDomains):
                with suppress(InvalidSelector):  # its attempt fails, which is a finding
                    for spread in plugin.pods_by_domain(pod, world.state.nodes):
                        yield spread, pod


def _uneven_text(spread: PodsByDomain) -> str:
    counts = list(spread.by_domain.items())
    few, many = counts[0], counts[-1]
    return (
        f"after the next rollout, its pods are spread over {spread.topology_key} with a skew of {spread.skew}, and "
        f"maxSkew is {spread.max_skew}: {many[0]} has {many[1]}, {few[0]} has {few[1]}"
    )


def _evenly(pod: PodInfo) -> str:
    if _HASH in pod.labels:
        return f"add matchLabelKeys: [{_HASH}] to the constraint, so that pods of the old template don't count"
    return "add a label of the revision to the template, and to matchLabelKeys of the constraint"

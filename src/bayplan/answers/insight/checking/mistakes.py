"""Mistakes that users make in manifests which the API server takes, found by looking at the objects themselves.

Each function of `selecting.py` and `workloads.py` finds one; `_LOOKS` lists them. They look at objects as the API
server has stored them, in a cluster that has the manifests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from bayplan.answers.insight.checking import selecting, workloads
from bayplan.answers.insight.checking.cluster import CheckedCluster
from bayplan.answers.insight.checking.findings import Finding, GivenObjects
from bayplan.answers.simulation.world import World
from bayplan.answers.snapshots import Snapshot

_LOOKS: tuple[Callable[[CheckedCluster], Iterator[Finding]], ...] = (
    selecting.selectors_without_pods,
    selecting.affinities_without_pods,
    selecting.spreads_without_themselves,
    selecting.labels_of_no_node,
    selecting.tolerations_of_no_taint,
    selecting.overlapping_selectors,
    workloads.budgets_that_block,
    workloads.volumes_of_one_node,
    workloads.replicas_beside_autoscaler,
    workloads.tiny_memory,
    workloads.no_requests,
)


def mistakes(world: World, snapshot: Snapshot, given: GivenObjects) -> Iterator[Finding]:
    """Yield the mistakes in the objects of manifests. `world` and `snapshot`: the cluster that has them."""
    cluster = CheckedCluster(world, snapshot, given)
    for look in _LOOKS:
        yield from look(cluster)

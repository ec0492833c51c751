"""How evenly the pods of a constraint are spread now, counted as Filter counts them. It affects no decision."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from bayplan.core.api.tolerations import heeded
from bayplan.core.cluster.nodes import Nodes
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.plugins.pod_topology_spread.constraints import HARD, own_constraints
from bayplan.core.plugins.pod_topology_spread.eligibility import Eligibility
from bayplan.core.plugins.pod_topology_spread.explaining import Counts
from bayplan.core.plugins.pod_topology_spread.hard_spread import HardSpread


@dataclass(frozen=True, slots=True)
class Spread:
    """The pods that a DoNotSchedule constraint counts in each domain, the fewest first, and how uneven that is."""

    topology_key: str
    max_skew: int
    by_domain: Mapping[str, int]
    skew: int

    @property
    def uneven(self) -> bool:
        """Whether the constraint would not allow this."""
        return self.skew > self.max_skew


def spreads_of(pod: PodInfo, nodes: Nodes) -> Iterator[Spread]:
    """Yield how the pods of each of a pod's own constraints are spread. `nodes`: all. Raises InvalidSelector."""
    constraints = own_constraints(pod, HARD)
    if not constraints:
        return
    eligible = Eligibility().of(constraints, pod, nodes, all_keys=True)
    for constraint, domains in zip(constraints, eligible, strict=True):
        spread = HardSpread.of(constraint, domains, pod, nodes)
        counts = Counts(spread, heeded(pod.tolerations, comparisons=False), nodes).by_domain
        if counts:
            skew = max(counts.values()) - spread.minimum()
            yield Spread(constraint.topology_key, constraint.max_skew, counts, skew)

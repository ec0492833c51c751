"""A DoNotSchedule constraint, with the pods that it counts by domain.

Counts are int64, one per domain of the topology key; eligible domains are those of nodes that the constraint's policies
let in.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bayplan.core.cluster.columns import Int32, Int64
from bayplan.core.cluster.nodes import Nodes
from bayplan.core.cluster.pod_changes import Amounts
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.cluster.pod_selectors import by_labels
from bayplan.core.plugins.pod_topology_spread.constraints import SpreadConstraint
from bayplan.core.plugins.pod_topology_spread.eligibility import EligibleDomains

_NO_OTHER = 2**62
"""The minimum over no domain: more pods than any domain has."""


@dataclass(frozen=True, slots=True)
class HardSpread:
    """A DoNotSchedule constraint, with the current counts.

    Attributes:
        constraint: the constraint.
        eligible: the domains of the eligible nodes.
        matching: the matching pods of each domain: int64, shape (domains.count,).
        self_match: 1 if the pod matches the constraint's selector, else 0.
        count: counts matching pods for what-ifs. As upstream, it includes pods that are being deleted.
    """

    constraint: SpreadConstraint
    eligible: EligibleDomains
    matching: Int64
    self_match: int
    count: Amounts

    @classmethod
    def of(cls, constraint: SpreadConstraint, eligible: EligibleDomains, pod: PodInfo, nodes: Nodes) -> HardSpread:
        """Count the pods for a constraint of a pod."""
        active = nodes.table.group(constraint.group(pod.namespace)).active
        count = by_labels(lambda other: other.namespace == pod.namespace and constraint.matches(other.labels))
        return cls(constraint, eligible, eligible.sum(active), int(constraint.matches(pod.labels)), count)

    def verdicts(self, nodes: Nodes) -> Int32 | None:
        """Return 0 for a feasible node, 1 if the skew is too large, 2 if the label is missing; without what-ifs.

        int32, shape (len(nodes),); None if all nodes are feasible.
        """
        domains = self.eligible.domains
        uneven = self.matching > self.constraint.max_skew - self.self_match + self.minimum()
        uneven[0] = not domains.everywhere
        if not np.count_nonzero(uneven):
            return None
        verdicts = uneven.astype(np.int32)
        verdicts[0] = 2
        by_node: Int32 = verdicts.take(domains.at(nodes))
        return by_node

    def verdicts_if(self, nodes: Nodes) -> Int32:
        """Return what `verdicts` does, with the what-if of each node."""
        domain = self.eligible.domains.at(nodes)
        counted = self.eligible.codes[nodes.rows] == domain
        matching = self.matching[domain] + np.where(counted, nodes.counted(self.count), 0)
        lowest: Int64 | int = 0
        if not self.too_few_domains():
            minimum, minimum_of_others, where = self._two_minima()
            lowest = np.where(domain == where, minimum_of_others, minimum)
            lowest = np.where(counted, np.minimum(matching, lowest), minimum)
        verdicts = (matching + self.self_match - lowest > self.constraint.max_skew).astype(np.int32)
        verdicts[domain == 0] = 2
        return verdicts

    def minimum(self) -> int:
        """Return the lowest number of matching pods of a domain (the global minimum)."""
        if self.too_few_domains():
            return 0
        matching = self.matching.take(self.eligible.present)
        return matching.item(matching.argmin())

    def _two_minima(self) -> tuple[int, int, int]:
        """Return the global minimum, the minimum over the other domains, and the code of the minimal domain."""
        present = self.eligible.present
        matching = self.matching[present]
        where = int(matching.argmin())
        others = np.delete(matching, where)
        return int(matching[where]), int(others.min()) if len(others) else _NO_OTHER, int(present[where])

    def too_few_domains(self) -> bool:
        """Return whether there are fewer domains than `minDomains`. The minimum is 0 then."""
        return len(self.eligible.present) < max(1, self.constraint.min_domains)

"""Which nodes count for a spread constraint, and the domains that they make up.

Mirrors matchNodeInclusionPolicies of plugins/podtopologyspread/common.go.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from bayplan.api.selectors import RequiredNodeAffinity
from bayplan.api.tolerations import tolerate_scheduling
from bayplan.cluster.columns import Bool, Int64, Rows
from bayplan.cluster.domains import Domains
from bayplan.cluster.node_selection import match_required
from bayplan.cluster.nodes import Nodes
from bayplan.cluster.pod_info import PodInfo
from bayplan.cluster.tally import Tally
from bayplan.plugins.pod_topology_spread.constraints import Constraint

_REMEMBERED = 64


@dataclass(frozen=True, slots=True)
class EligibleDomains:
    """The domains of a topology key, as far as nodes count.

    `codes`: one a row of the table: the row's domain, or `domains.count` for a row that does not count. `present`:
    bool, one a domain: whether a row of it counts.
    """

    domains: Domains
    codes: Rows
    present: Bool

    def sum(self, tally: Tally) -> Int64:
        """The sum over the rows of each domain that count. int64, one a domain."""
        return tally.sum_by(self.codes, self.domains.count + 1)[:-1]


class Eligibility:
    """Finds the eligible domains of constraints, and remembers them as long as no node changes."""

    def __init__(self) -> None:
        self._version: Hashable = None
        self._found: dict[Hashable, EligibleDomains] = {}

    def of(
        self, constraints: Sequence[Constraint], pod: PodInfo, nodes: Nodes, *, all_keys: bool
    ) -> list[EligibleDomains]:
        """For each constraint, the domains of the nodes that count.

        `all_keys`: only nodes that have the labels of all constraints count. Otherwise a node without the label counts
        as if its value were empty.
        """
        table = nodes.table
        version = (table.nodes_version, table.size)
        if version != self._version or len(self._found) >= _REMEMBERED:
            self._version = version
            self._found.clear()
        keys = frozenset(each.topology_key for each in constraints) if all_keys else frozenset()
        affinity = RequiredNodeAffinity.of(pod.spec)
        everywhere = Nodes(table)
        eligible = []
        for each in constraints:
            wanted = affinity if each.honor_affinity else RequiredNodeAffinity()
            tolerations = pod.tolerations if each.honor_taints else None
            key = (each.topology_key, keys, wanted, tolerations)
            if wanted.selector is not None and wanted.selector.errors:  # which cannot be a key
                eligible.append(_eligible(each, keys, wanted, pod, everywhere))
                continue
            if key not in self._found:
                self._found[key] = _eligible(each, keys, wanted, pod, everywhere)
            eligible.append(self._found[key])
        return eligible


def has_all(keys: Iterable[str], nodes: Nodes) -> Bool:
    """Which nodes have all labels."""
    mask = np.ones(len(nodes), dtype=np.bool_)
    for key in keys:
        mask &= nodes.has_label(key)
    return mask


def _eligible(
    constraint: Constraint, keys: frozenset[str], affinity: RequiredNodeAffinity, pod: PodInfo, nodes: Nodes
) -> EligibleDomains:
    mask = nodes.live & has_all(keys, nodes) & match_required(affinity, nodes)
    if constraint.honor_taints:
        mask &= nodes.taints_where(lambda taints: tolerate_scheduling(pod.tolerations, taints))
    domains = Domains.of(constraint.topology_key, nodes)
    values = domains.codes if keys else valued(domains, domains.codes)
    codes = np.where(mask, values, domains.count)
    present = np.zeros(domains.count + 1, dtype=np.bool_)
    present[codes] = True
    return EligibleDomains(domains, codes, present[:-1])


def valued(domains: Domains, codes: Rows) -> Rows:
    """The codes, where to lack a label is the same as to have an empty value."""
    return np.where(codes == 0, domains.empty, codes) if domains.empty > 0 else codes

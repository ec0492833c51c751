"""Finds the nodes that a spread constraint takes into account, and their domains.

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

_CACHE_SIZE = 64


@dataclass(frozen=True, slots=True)
class EligibleDomains:
    """The domains of a topology key, restricted to eligible nodes.

    `codes`: intp, shape (table.size,); the domain of each row, or `domains.count` for a row that is not eligible.
    `present`: bool, shape (domains.count,); whether a domain has an eligible row.
    """

    domains: Domains
    codes: Rows
    present: Bool

    def sum(self, tally: Tally) -> Int64:
        """Sum a tally over the eligible rows of each domain: int64, shape (domains.count,)."""
        return tally.sum_by(self.codes, self.domains.count + 1)[:-1]


class Eligibility:
    """Finds the eligible domains of constraints. Results are cached until a node changes."""

    def __init__(self) -> None:
        self._version: Hashable = None
        self._found: dict[Hashable, EligibleDomains] = {}

    def of(
        self, constraints: Sequence[Constraint], pod: PodInfo, nodes: Nodes, *, all_keys: bool
    ) -> list[EligibleDomains]:
        """Return the eligible domains of each constraint.

        `all_keys`: whether only nodes with the topology keys of all constraints are eligible. If not, a missing label
        is treated like an empty value.
        """
        table = nodes.table
        version = (table.nodes_version, table.size)
        if version != self._version or len(self._found) >= _CACHE_SIZE:
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
            if wanted.selector is not None and wanted.selector.errors:  # errors are not hashable
                eligible.append(_eligible(each, keys, wanted, pod, everywhere))
                continue
            if key not in self._found:
                self._found[key] = _eligible(each, keys, wanted, pod, everywhere)
            eligible.append(self._found[key])
        return eligible


def has_all(keys: Iterable[str], nodes: Nodes) -> Bool:
    """Return which nodes have all labels: bool, shape (len(nodes),)."""
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
    values = domains.codes if keys else missing_as_empty(domains, domains.codes)
    codes = np.where(mask, values, domains.count)
    present = np.zeros(domains.count + 1, dtype=np.bool_)
    present[codes] = True
    return EligibleDomains(domains, codes, present[:-1])


def missing_as_empty(domains: Domains, codes: Rows) -> Rows:
    """Replace the code of a missing label by that of an empty value, if there is one."""
    return np.where(codes == 0, domains.empty, codes) if domains.empty > 0 else codes

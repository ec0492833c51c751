"""Finds the nodes that a spread constraint takes into account, and their domains.

Mirrors matchNodeInclusionPolicies of plugins/podtopologyspread/common.go.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from bayplan.core.api.selectors import RequiredNodeAffinity
from bayplan.core.api.tolerations import Tolerations, heeded, tolerate_scheduling
from bayplan.core.cluster.columns import Bool, Int64, Rows
from bayplan.core.cluster.domains import Countable, Domains
from bayplan.core.cluster.node_selection import match_required
from bayplan.core.cluster.nodes import Nodes
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.plugins.pod_topology_spread.constraints import SpreadConstraint

_CACHE_SIZE = 64


@dataclass(slots=True, eq=False)
class EligibleDomains:
    """The domains of a topology key, restricted to eligible nodes.

    `domain_of`: intp, shape (table.size,); the domain of each row. `codes`: the same, but `domains.count` for a row
    that is not eligible. `present`: the codes of the domains that have an eligible row, ascending.
    """

    domains: Domains
    domain_of: Rows
    codes: Rows
    present: Rows
    _number: tuple[slice | Rows, int] | None = None
    """The last result of `number_among`, and the rows that it is about."""

    def sum(self, tally: Countable) -> Int64:
        """Sum a tally over the eligible rows of each domain: int64, shape (domains.count,)."""
        return tally.sum_by(self.codes, self.domains.count + 1)[:-1]

    def number_among(self, nodes: Nodes) -> int:
        """Return the number of domains of some nodes. Pods of one template often have the same ones."""
        rows = nodes.rows
        if self._number is None or self._number[0] is not rows:
            self._number = rows, int(np.count_nonzero(np.bincount(self.domain_of[rows], minlength=1)))
        return self._number[1]


@dataclass(frozen=True, slots=True)
class EligibleNodes:
    """Nodes that constraints take into account, and their domains.

    `mask`: bool, shape (table.size,). `missing_as_empty`: whether a missing label is treated like an empty value.
    """

    mask: Bool
    missing_as_empty: bool
    by_key: dict[str, EligibleDomains] = field(default_factory=dict)

    def domains(self, topology_key: str, nodes: Nodes) -> EligibleDomains:
        """Return the domains of a topology key. `nodes`: all nodes."""
        found = self.by_key.get(topology_key)
        if found is None:
            domains = Domains.of(topology_key, nodes)
            domain_of = _missing_as_empty(domains) if self.missing_as_empty else domains.codes
            codes = np.where(self.mask, domain_of, domains.count)
            present = np.zeros(domains.count + 1, dtype=np.bool_)
            present[codes] = True
            found = EligibleDomains(domains, domain_of, codes, np.flatnonzero(present[:-1]))
            self.by_key[topology_key] = found
        return found


class Eligibility:
    """Finds the eligible domains of constraints. Results are cached until a node changes.

    `comparisons`: whether tolerations with Lt and Gt count.
    """

    def __init__(self, *, comparisons: bool = False) -> None:
        self._comparisons = comparisons
        self._version: Hashable = None
        self._found: dict[Hashable, EligibleNodes] = {}

    def of(
        self, constraints: Sequence[SpreadConstraint], pod: PodInfo, nodes: Nodes, *, all_keys: bool
    ) -> list[EligibleDomains]:
        """Return the eligible domains of each constraint.

        `all_keys`: whether only nodes with the topology keys of all constraints are eligible. If not, a missing label
        is treated like an empty value.
        """
        table = nodes.table
        version = (table.nodes_version, table.size)
        if version != self._version or sum(len(each.by_key) for each in self._found.values()) >= _CACHE_SIZE:
            self._version = version
            self._found.clear()
        keys = frozenset(each.topology_key for each in constraints) if all_keys else frozenset()
        everywhere = Nodes(table)
        by_policies: dict[tuple[bool, bool], EligibleNodes] = {}
        eligible = []
        for each in constraints:
            policies = each.honor_affinity, each.honor_taints
            if policies not in by_policies:
                by_policies[policies] = self._nodes(*policies, keys, pod, everywhere)
            eligible.append(by_policies[policies].domains(each.topology_key, everywhere))
        return eligible

    def _nodes(
        self, honor_affinity: bool, honor_taints: bool, keys: frozenset[str], pod: PodInfo, nodes: Nodes
    ) -> EligibleNodes:
        affinity = RequiredNodeAffinity.of(pod.spec) if honor_affinity else RequiredNodeAffinity()
        tolerations = heeded(pod.tolerations, comparisons=self._comparisons) if honor_taints else None
        if affinity.selector is not None and affinity.selector.errors:  # errors are not hashable
            return _eligible(affinity, keys, tolerations, nodes)
        key = keys, affinity, tolerations
        found = self._found.get(key)
        if found is None:
            found = self._found[key] = _eligible(affinity, keys, tolerations, nodes)
        return found


def has_all(keys: Iterable[str], nodes: Nodes) -> Bool:
    """Return which nodes have all labels: bool, shape (len(nodes),)."""
    mask = np.ones(len(nodes), dtype=np.bool_)
    for key in keys:
        mask &= nodes.has_label(key)
    return mask


def _eligible(
    affinity: RequiredNodeAffinity, keys: frozenset[str], tolerations: Tolerations | None, nodes: Nodes
) -> EligibleNodes:
    mask = nodes.live & has_all(keys, nodes) & match_required(affinity, nodes)
    if tolerations is not None:
        mask &= nodes.taints_where(lambda taints: tolerate_scheduling(tolerations, taints))
    return EligibleNodes(mask, missing_as_empty=not keys)


def _missing_as_empty(domains: Domains) -> Rows:
    """Return the domain of each row, with that of an empty value, if there is one, where the label is missing."""
    return np.where(domains.codes == 0, domains.empty, domains.codes) if domains.empty > 0 else domains.codes

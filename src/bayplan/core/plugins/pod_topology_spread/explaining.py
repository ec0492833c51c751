"""The pods of each domain of a spread constraint, and what would make a node's domain acceptable.

It counts as Filter does (`hard_spread.py`), and affects no decision.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any

import numpy as np

from bayplan.core.api.tolerations import Tolerations, tolerate_scheduling
from bayplan.core.api.well_known_labels import POD_TEMPLATE_HASH
from bayplan.core.cluster.nodes import NodeInfo, Nodes
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.framework.remedies import Details, Remedy, add_labels
from bayplan.core.plugins.pod_topology_spread.constraints import HARD, SOFT
from bayplan.core.plugins.pod_topology_spread.hard_spread import HardSpread

_SHOWN = 5
"""The most domains to list."""
_SOFT: dict[str, Any] = {"whenUnsatisfiable": SOFT, "minDomains": None}
"""A preference may have no minDomains."""


NO_LABEL = 2
"""The verdict about a node that lacks the topology key."""


class Counts:
    """The matching pods of each domain of a constraint. It is the same for all nodes.

    Attributes:
        by_domain: the number of matching pods, the lowest first.
        closed: the domains in which the pod tolerates the taints of no node.
    """

    def __init__(self, spread: HardSpread, tolerations: Tolerations, nodes: Nodes) -> None:
        column, eligible = nodes.table.labels(spread.constraint.topology_key), spread.eligible
        codes = [code for code in eligible.present.tolist() if code]
        counts = {str(column.values[code]): int(spread.matching[code]) for code in codes}
        self.by_domain = dict(sorted(counts.items(), key=lambda each: (each[1], each[0])))
        tolerated = nodes.taints_where(lambda taints: tolerate_scheduling(tolerations, taints)) & nodes.live
        reachable = set(np.unique(eligible.codes[nodes.rows][tolerated]).tolist())
        self.closed = {str(column.values[code]) for code in codes if code not in reachable}


def explain(spreads: Sequence[HardSpread], counts: Sequence[Counts], pod: PodInfo, node: NodeInfo) -> Details:
    """Explain which constraints a node breaks. `spreads`: those of the pod, in order, with their counts."""
    constraints = pod.spec.topologySpreadConstraints or ()
    own = [number for number, each in enumerate(constraints) if each.whenUnsatisfiable == HARD]
    numbers: list[int | None] = [*own] if len(own) == len(spreads) else [None] * len(spreads)
    broken = []
    for spread, counted, number in zip(spreads, counts, numbers, strict=True):
        verdict = spread.verdicts_if(node.alone)[0]
        if verdict:
            broken.append((_Broken(spread, counted, pod, node, number), verdict))
    texts = [each.missing_label() if verdict == NO_LABEL else each.sentence() for each, verdict in broken]
    kind = tuple((each.key, each.domain, int(verdict)) for each, verdict in broken)
    return Details("; ".join(texts), _remedies([each for each, _ in broken]), kind)


class _Broken:
    """A constraint that a node breaks. `number`: its place in the pod's spec; None for a default constraint."""

    def __init__(self, spread: HardSpread, counts: Counts, pod: PodInfo, node: NodeInfo, number: int | None) -> None:
        self.spread = spread
        self.counts = counts
        self.pod = pod
        self.node = node
        self.number = number
        self.key = spread.constraint.topology_key
        self.domain = node.labels.get(self.key, "")
        self.minimum = spread.minimum()

    def missing_label(self) -> str:
        return f"the node lacks the label {self.key}, over which the pod's constraint spreads"

    def sentence(self) -> str:
        """The constraint, and the counts of its domains."""
        constraint, by_domain = self.spread.constraint, self.counts.by_domain
        listed = [f"{name} has {by_domain[name]}" for name in islice(by_domain, _SHOWN) if name != self.domain]
        more = len(by_domain) - len(listed) - (self.domain in by_domain)
        parts = [
            f"the pod's constraint spreads over {self.key} with maxSkew {constraint.max_skew}: matching pods: "
            + ", ".join([f"{self.domain} has {by_domain.get(self.domain, 0)}", *listed])
            + (f", and {more:,} more domains" if more > 0 else "")
        ]
        if self.spread.too_few_domains():
            have = f"only {_names(list(by_domain))} have" if by_domain else "none has"
            parts.append(f"minDomains is {constraint.min_domains}, but {have} nodes that count, so the minimum is 0")
            return "; ".join(parts)
        parts.append(f"the minimum is {self.minimum}")
        empty = [name for name in self.counts.closed if by_domain[name] == self.minimum]
        if empty:
            verb = "counts" if len(empty) == 1 else "count"
            parts.append(f"{_names(sorted(empty))} {verb}, but the pod can't go there for its taints")
        return "; ".join(parts)

    def relaxed(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Changes of the constraint that may help, with their texts."""
        constraint, over = self.spread.constraint, f"in the pod's spread over {self.key}"
        if self.counts.closed and not constraint.honor_taints:
            yield f"set nodeTaintsPolicy to Honor {over}", {"nodeTaintsPolicy": "Honor"}
        if self.spread.too_few_domains() and constraint.min_domains > 1:
            fewer = max(len(self.counts.by_domain), 1)
            yield f"set minDomains to {fewer} {over}", {"minDomains": fewer}
        if POD_TEMPLATE_HASH in self.pod.labels and not self._has_hash():
            yield f"set matchLabelKeys to [{POD_TEMPLATE_HASH}] {over}", {"matchLabelKeys": [POD_TEMPLATE_HASH]}
        if self.domain:
            skew = self.counts.by_domain.get(self.domain, 0) + self.spread.self_match - self.spread.minimum()
            if skew > constraint.max_skew:
                yield f"set maxSkew to {skew} {over}", {"maxSkew": skew}
        yield (
            f"set whenUnsatisfiable to ScheduleAnyway {over}",
            {"whenUnsatisfiable": "ScheduleAnyway", "minDomains": None},
        )

    def _has_hash(self) -> bool:
        selector = self.spread.constraint.selector
        return selector is not None and any(each.key == POD_TEMPLATE_HASH for each in selector.requirements)

    def elsewhere(self) -> Iterator[Remedy]:
        """A new node in the emptiest domain that the pod can go to."""
        name = next((each for each in self.counts.by_domain if each != self.domain), None)
        if name is not None:
            yield replace(add_labels(self.node, {self.key: name}), node=None)


def _remedies(broken: Sequence[_Broken]) -> Iterator[Remedy]:
    """A node elsewhere; or relax one of the constraints, or all of them."""
    if len(broken) == 1:
        yield from broken[0].elsewhere()
    own = [each for each in broken if each.number is not None]
    if len(own) < len(broken):
        return
    if len(own) == 1:
        for text, fields in own[0].relaxed():
            yield Remedy(text, pod=partial(_relax, {own[0].number: fields}))
        return
    keys = " and ".join(each.key for each in own)
    every = {each.number: _SOFT for each in own}
    yield Remedy(f"set whenUnsatisfiable to ScheduleAnyway in the pod's spread over {keys}", pod=partial(_relax, every))


def _relax(changes: dict[int | None, dict[str, Any]], pod: dict[str, Any]) -> None:
    """Change constraints, by their places. A field that is None is removed."""
    constraints = list(pod["spec"]["topologySpreadConstraints"])
    for number, fields in changes.items():
        if number is not None:
            changed = {**constraints[number], **fields}
            constraints[number] = {name: value for name, value in changed.items() if value is not None}
    pod["spec"]["topologySpreadConstraints"] = constraints


def _names(names: Sequence[str]) -> str:
    shown = names[:_SHOWN]
    if len(names) > _SHOWN:
        return f"{', '.join(shown)} and {len(names) - _SHOWN:,} more"
    return f"{', '.join(shown[:-1])} and {shown[-1]}" if len(shown) > 1 else shown[0]

"""Recommendations of Goldilocks (`goldilocks summary`): the targets of its VPAs, by namespace, workload and container.

Older versions know Deployments alone, and say `deployments` for `workloads`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from bayplan.answers.insight.recommendations.recommendation import Read, RecommendedWorkload, recommended
from bayplan.core.api.kinds import DEPLOYMENT

NAMESPACES = "Namespaces"
_KINDS = ("controllerType", "workloadType", "kind")
Document = Mapping[str, Any]


def read(document: Document, where: str) -> Read:
    """Yield the recommendations of a summary."""
    for namespace, found in _named(document, NAMESPACES):
        for field in ("workloads", "deployments"):
            for name, workload in _named(found, field):
                kind = next((workload[each] for each in _KINDS if workload.get(each)), DEPLOYMENT.kind)
                target = RecommendedWorkload(f"{where}: {kind} {namespace}/{name}", namespace, kind, name)
                for container, each in _named(workload, "containers"):
                    yield recommended(target, container, each.get("target"))


def _named(document: Document, field: str) -> Iterator[tuple[str, Document]]:
    found = document.get(field)
    for name, each in found.items() if isinstance(found, Mapping) else ():
        if isinstance(each, Mapping):
            yield str(name), each

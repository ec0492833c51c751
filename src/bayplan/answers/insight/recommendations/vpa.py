"""Recommendations of VerticalPodAutoscaler objects: the targets in their status, as their resource policy allows.

The update policy doesn't count: the question is what the recommendation would do. As for the VPA, `minAllowed` comes
before `maxAllowed`, and a policy for `*` is for the containers without one of their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from bayplan.answers.insight.recommendations.recommendation import (
    Read,
    Recommendation,
    RecommendedWorkload,
    UnusableRecommendation,
    amounts_of,
    recommended,
)

KIND = "VerticalPodAutoscaler"
_ALL = "*"
Document = Mapping[str, Any]


def read(document: Document, where: str) -> Read:
    """Yield the recommendations of one object."""
    metadata, spec = _mapping(document, "metadata"), _mapping(document, "spec")
    name, namespace = metadata.get("name"), metadata.get("namespace") or "default"
    where = f"{where}: {KIND} {namespace}/{name}"
    ref = _mapping(spec, "targetRef")
    target = RecommendedWorkload(where, namespace, ref.get("kind", ""), ref.get("name", ""))
    found = _mappings(_mapping(_mapping(document, "status"), "recommendation"), "containerRecommendations")
    if not found:
        yield f"{where} has no recommendation yet: status.recommendation.containerRecommendations is empty"
    policies = {
        str(each.get("containerName")): each
        for each in _mappings(_mapping(spec, "resourcePolicy"), "containerPolicies")
    }
    for each in found:
        container = each.get("containerName")
        policy = policies.get(str(container), policies.get(_ALL, {}))
        if policy.get("mode") == "Off":
            yield f"{where}: container {container} is left out: its resource policy has the mode Off"
            continue
        one = recommended(target, container, each.get("target"))
        try:
            yield one if isinstance(one, str) else _allowed(one, policy)
        except UnusableRecommendation as error:
            yield str(error)


def _allowed(found: Recommendation, policy: Document) -> Recommendation | str:
    """A recommendation as a policy allows it. Raises UnusableRecommendation."""
    where = f"{found.target.where}: container {found.container}: resource policy"
    least, most = (amounts_of(policy.get(each), f"{where}: {each}") for each in ("minAllowed", "maxAllowed"))
    controlled = policy.get("controlledResources")
    requests = {}
    for resource, amount in found.requests.items():
        if not isinstance(controlled, list) or resource in controlled:
            raised = max(amount, least.get(resource, 0))
            requests[resource] = min(raised, most.get(resource, raised))
    if not requests:
        return f"{where}: controlledResources has none of those that are recommended"
    return replace(found, requests=requests, scales_limits=policy.get("controlledValues") != "RequestsOnly")


def _mapping(document: Document, name: str) -> Document:
    found = document.get(name)
    return found if isinstance(found, Mapping) else {}


def _mappings(document: Document, name: str) -> Sequence[Document]:
    found = document.get(name)
    return [each for each in found if isinstance(each, Mapping)] if isinstance(found, list) else []

"""Aggregates cluster roles by label selectors. Mirrors pkg/controller/clusterroleaggregation, but synchronously."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bayplan.api.kinds import CLUSTER_ROLE
from bayplan.api.labels import LabelSelector
from bayplan.devcluster.apiserver.schema import Object
from bayplan.devcluster.apiserver.selectors import label_selector

if TYPE_CHECKING:
    from bayplan.devcluster.apiserver.registry import Registry
    from bayplan.devcluster.apiserver.resources import Resource
    from bayplan.devcluster.apiserver.store import Entry


def aggregate(registry: Registry, resource: Resource, _: Entry) -> None:
    """Updates the rules of all aggregated roles after a cluster role was written or deleted."""
    for entry in registry.store.collection(CLUSTER_ROLE.resource).select():
        role = entry.load()
        selectors = (role.get("aggregationRule") or {}).get("clusterRoleSelectors")
        if not selectors:
            continue
        parsed = [label_selector(selector) for selector in selectors]
        rules = _rules(registry, parsed, entry)
        if rules != (role.get("rules") or []):
            registry.write(resource, {**role, "rules": rules})  # calls this function again
            return


def _rules(registry: Registry, selectors: list[LabelSelector], of: Entry) -> list[Object]:
    """The distinct rules of all other roles that match one of the selectors."""
    found: list[Object] = []
    for selector in selectors:
        for entry in registry.store.collection(CLUSTER_ROLE.resource).select():
            if entry.key != of.key and selector.matches(entry.labels):
                found += [rule for rule in entry.load().get("rules") or () if rule not in found]
    return found

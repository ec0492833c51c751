"""Aggregates cluster roles by label selectors. Mirrors pkg/controller/clusterroleaggregation, but synchronously."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bayplan.core.api.kinds import CLUSTER_ROLE
from bayplan.core.api.labels import LabelSelector
from bayplan.core.api.selectors import read_selector
from bayplan_devcluster.apiserver.schema import Object

if TYPE_CHECKING:
    from bayplan_devcluster.apiserver.storage.resource import Resource
    from bayplan_devcluster.apiserver.storage.rest_storage import RestStorage
    from bayplan_devcluster.apiserver.storage.store import Entry


def aggregate(storage: RestStorage, resource: Resource, _: Entry) -> None:
    """Updates the rules of all aggregated roles after a cluster role was written or deleted."""
    for entry in storage.store.collection(CLUSTER_ROLE.resource).select():
        role = entry.load()
        selectors = (role.get("aggregationRule") or {}).get("clusterRoleSelectors")
        if not selectors:
            continue
        wanted = [read_selector(selector) for selector in selectors]
        rules = _rules(storage, wanted, entry)
        if rules != (role.get("rules") or []):
            storage.write(
                resource, {**role, "rules": rules}
            )  # calls this function again for roles that aggregate this one
            return


def _rules(storage: RestStorage, wanted: list[LabelSelector], of: Entry) -> list[Object]:
    """The distinct rules of all other roles that match one of the selectors."""
    found: list[Object] = []
    for selector in wanted:
        for entry in storage.store.collection(CLUSTER_ROLE.resource).select():
            if entry.key != of.key and selector.matches(entry.labels):
                found += [rule for rule in entry.load().get("rules") or () if rule not in found]
    return found

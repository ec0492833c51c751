"""The permissions for answering provisioning requests, with a scheduler or beside one."""

from __future__ import annotations

from collections.abc import Iterable

from bayplan.answers.insight.tables import grouped
from bayplan.answers.simulation.world import World
from bayplan.core.api.kinds import (
    POD_TEMPLATE,
    PRIORITY_CLASS,
    RESOURCE_CLAIM_TEMPLATE,
    RUNTIME_CLASS,
    STORAGE_CLASS,
    Kind,
)
from bayplan.core.api.provisioning import PROVISIONING_REQUEST
from bayplan.core.config import KubeSchedulerConfiguration
from bayplan.core.versions import VERSIONS, gates_of, with_gangs
from bayplan.faces.cli.manifests_documents import Document

PROVISION = "bayplan-provision"
"""The default name of the objects of `bayplan provision`."""
_READ = (PROVISIONING_REQUEST, POD_TEMPLATE, PRIORITY_CLASS, RESOURCE_CLAIM_TEMPLATE, RUNTIME_CLASS, STORAGE_CLASS)
_ANSWERS = {
    "apiGroups": [PROVISIONING_REQUEST.group],
    "resources": [f"{PROVISIONING_REQUEST.plural}/status"],
    "verbs": ["patch"],
}
_ALONE = (
    # Preemption, for requests that ask for it.
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["delete"]},
    {"apiGroups": [""], "resources": ["pods/status"], "verbs": ["patch"]},
    {"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch"]},
    # The election of a leader, and who may read metrics.
    {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create"]},
    {"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"]},
    {"apiGroups": ["authorization.k8s.io"], "resources": ["subjectaccessreviews"], "verbs": ["create"]},
)


def rules(configuration: KubeSchedulerConfiguration | None, *, alone: bool) -> list[Document]:
    """What answering requests needs in addition to what a scheduler has; all that it needs, if it is `alone`."""
    if not alone:
        return [*_reading(_READ), _ANSWERS]
    every = (World(configuration, (), with_gangs(gates_of(version))) for version in VERSIONS)
    kinds = dict.fromkeys((*_READ, *(kind for each in every for kind in each.handle.served)))
    return [*_reading(kinds), _ANSWERS, *_ALONE]


def _reading(kinds: Iterable[Kind]) -> list[Document]:
    by_group = grouped((kind.group, kind.plural) for kind in kinds)
    return [
        {"apiGroups": [group], "resources": sorted(set(plurals)), "verbs": ["list", "watch"]}
        for group, plurals in sorted(by_group.items())
    ]

"""Every resource that the server serves, with its rules."""

from __future__ import annotations

from bayplan.api import kinds
from bayplan.api.kinds import KINDS, Kind
from bayplan.devcluster.apiserver import admission, pods
from bayplan.devcluster.apiserver.defaults.pods import default_pod
from bayplan.devcluster.apiserver.resources import Resource, boolean, path

RULES: tuple[Resource, ...] = (
    Resource(
        kinds.POD,
        default=default_pod,
        admit=admission.admit_pod,
        prepare=pods.prepare_pod,
        grace=pods.grace,
        generation=True,
        returns_deleted=True,
        fields={
            "spec.nodeName": path("spec", "nodeName"),
            "spec.restartPolicy": path("spec", "restartPolicy"),
            "spec.schedulerName": path("spec", "schedulerName"),
            "spec.serviceAccountName": path("spec", "serviceAccountName"),
            "spec.hostNetwork": boolean("spec", "hostNetwork"),
            "status.phase": path("status", "phase"),
            "status.podIP": path("status", "podIP"),
            "status.nominatedNodeName": path("status", "nominatedNodeName"),
        },
    ),
    Resource(
        kinds.NODE,
        admit=admission.admit_node,
        keeps_status=True,
        fields={"spec.unschedulable": boolean("spec", "unschedulable")},
    ),
    Resource(kinds.NAMESPACE, name_rule="label", fields={"status.phase": path("status", "phase")}, returns_deleted=True),
    Resource(kinds.PRIORITY_CLASS, generation=True, fields={"globalDefault": boolean("globalDefault")}),
)


def catalog() -> dict[tuple[str, str, str], Resource]:
    """All resources by group, version and plural: every kind of the table of kinds, with its rules if it has any."""
    served: dict[Kind, Resource] = {kind: Resource(kind) for kind in KINDS}
    served |= {resource.kind: resource for resource in RULES}
    return {(kind.group, kind.version, kind.plural): resource for kind, resource in served.items()}

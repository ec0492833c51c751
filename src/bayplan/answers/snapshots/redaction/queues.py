"""The fields that a redacted snapshot keeps of the objects of Kueue."""

from __future__ import annotations

from collections.abc import Mapping

from bayplan.answers.snapshots.redaction.names import Rule
from bayplan.answers.snapshots.redaction.pods import TEMPLATE
from bayplan.answers.snapshots.redaction.rules import (
    CONDITIONS,
    amounts,
    custom,
    each,
    fields,
    labels,
    mapped,
    name,
    resource,
    resource_name,
)

_QUOTAS = each(
    fields(
        coveredResources=each(resource_name),
        flavors=each(
            fields(
                name=name("resourceflavor"),
                resources=each(fields("nominalQuota borrowingLimit lendingLimit", name=resource_name)),
            )
        ),
    )
)

QUEUE_FIELDS: Mapping[tuple[str, str], Rule] = {
    ("kueue.x-k8s.io", "workloads"): custom(
        "workload",
        "Workload",
        spec=fields(
            "active priority",
            queueName=name("localqueue"),
            podSets=each(fields("count", name=name("podset"), template=TEMPLATE)),
        ),
        status=fields(
            conditions=CONDITIONS,
            admission=fields(
                clusterQueue=name("clusterqueue"),
                podSetAssignments=each(
                    fields(
                        "count",
                        name=name("podset"),
                        flavors=mapped(resource, name("resourceflavor")),
                        resourceUsage=amounts,
                    )
                ),
            ),
            admissionChecks=each(fields("state", name=name("admissioncheck"))),
        ),
    ),
    ("kueue.x-k8s.io", "localqueues"): custom(
        "localqueue",
        "LocalQueue",
        spec=fields("stopPolicy", clusterQueue=name("clusterqueue")),
    ),
    ("kueue.x-k8s.io", "clusterqueues"): custom(
        "clusterqueue",
        "ClusterQueue",
        spec=fields(
            "stopPolicy queueingStrategy",
            cohort=name("cohort"),
            cohortName=name("cohort"),
            resourceGroups=_QUOTAS,
            fairSharing=fields("weight"),
        ),
        status=fields(
            flavorsReservation=each(
                fields(name=name("resourceflavor"), resources=each(fields("total borrowed", name=resource_name)))
            ),
            conditions=CONDITIONS,
            fairSharing=fields("weightedShare"),
        ),
    ),
    ("kueue.x-k8s.io", "resourceflavors"): custom("resourceflavor", "ResourceFlavor", spec=fields(nodeLabels=labels)),
    ("kueue.x-k8s.io", "cohorts"): custom(
        "cohort",
        "Cohort",
        spec=fields(
            parent=name("cohort"),
            parentName=name("cohort"),
            resourceGroups=_QUOTAS,
            fairSharing=fields("weight"),
        ),
        status=fields(fairSharing=fields("weightedShare")),
    ),
    ("kueue.x-k8s.io", "admissionchecks"): custom(
        "admissioncheck", "AdmissionCheck", status=fields(conditions=CONDITIONS)
    ),
}
"""(group, plural) -> the rule for its objects"""

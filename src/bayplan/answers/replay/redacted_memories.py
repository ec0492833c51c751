"""Redacts what plugins put into checkpoints: names are replaced as in objects. Of other plugins, it is left out."""

from __future__ import annotations

from collections.abc import Mapping

from bayplan.answers.snapshots.redaction.kinds import FIELDS
from bayplan.answers.snapshots.redaction.names import Names, Rule
from bayplan.answers.snapshots.redaction.rules import amounts, by_name, constant, fields, keep, mapped, name
from bayplan.core.api.coscheduling import POD_GROUP_LABEL


def _group(key: str, names: Names) -> str:
    """The key of a group of Coscheduling: its namespace, and the value of the label that names it."""
    namespace, _, group = key.partition("/")
    return f"{names.new('namespace', namespace)}/{names.value(POD_GROUP_LABEL, group)}"


_TIMES = mapped(_group, keep)
MEMORIES: Mapping[str, Rule] = {
    "CapacityScheduling": by_name("uid", fields(namespace=name("namespace"), requested=amounts)),
    "Coscheduling": fields(
        failed=_TIMES, backed_off=_TIMES, enough=_TIMES, permitted=mapped(_group, by_name("uid", name("node")))
    ),
    "NodeResourceTopologyMatch": by_name(
        "node",
        fields(
            "foreign",
            topology=FIELDS["topology.node.k8s.io", "noderesourcetopologies"],
            reserved=by_name("uid", amounts),
            ran=constant([]),
        ),
    ),
}
"""By plugin. A redacted topology doesn't tell the zones of containers, so that no one asks which ones `ran`."""

"""The tables that `kubectl get` prints. Mirrors Kubernetes' pkg/printers/internalversion/printers.go.

Other packages use `columns`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from bayplan.core.api import kinds
from bayplan_devcluster.apiserver.event_conversion import to_core
from bayplan_devcluster.apiserver.schema import Object
from bayplan_devcluster.apiserver.tables.columns import Columns, columns_of
from bayplan_devcluster.apiserver.tables.pods import pod_conditions


def table(
    kind: kinds.Kind,
    custom: Columns | None,
    objects: Sequence[Object],
    metadata: Object,
    now: datetime,
    *,
    columns: bool = True,
    include: str = "Metadata",
) -> Object:
    """A Table of objects in the kind's version.

    `custom` has the columns if they are not those of the kind, and `include` is the object in each row: None, Metadata
    or Object.
    """
    shown = columns_of(kind.resource) if custom is None else custom
    rows = []
    for obj in objects:
        read = to_core(obj) if kind == kinds.EVENT else obj  # the columns are those of the stored version
        row: Object = {"cells": [column.cell(read, now) for column in shown]}
        if kind is kinds.POD and (conditions := pod_conditions(obj)):
            row["conditions"] = conditions
        if include != "None":
            row["object"] = _included(kind, obj, whole=include == "Object")
        rows.append(row)
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "columnDefinitions": [column.definition() for column in shown] if columns else [],
        "rows": rows,
    }


def _included(kind: kinds.Kind, obj: Object, *, whole: bool) -> Object:
    if whole:
        return {"kind": kind.kind, "apiVersion": kind.api_version, **obj}
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": obj["metadata"]}

"""The tables that `kubectl get` prints. Mirrors Kubernetes' pkg/printers/internalversion/printers.go.

The modules of this package define the columns and cells of each kind; other kinds have a name and an age.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from bayplan.api import kinds
from bayplan.devcluster.apiserver.schema import Object
from bayplan.devcluster.apiserver.tables import (
    cluster,
    core,
    definitions,
    networking,
    rbac,
    scheduling,
    storage,
    workloads,
)
from bayplan.devcluster.apiserver.tables.columns import AGE, NAME, Table, age
from bayplan.devcluster.apiserver.tables.nodes import NODE_COLUMNS, node_cells
from bayplan.devcluster.apiserver.tables.pods import POD_COLUMNS, pod_cells, pod_conditions

TABLES: dict[kinds.Kind, Table] = {
    kinds.POD: (POD_COLUMNS, pod_cells),
    kinds.NODE: (NODE_COLUMNS, node_cells),
    **core.TABLES,
    **rbac.TABLES,
    **workloads.TABLES,
    **storage.TABLES,
    **scheduling.TABLES,
    **networking.TABLES,
    **cluster.TABLES,
    **definitions.TABLES,
}


def _generic_cells(obj: Object, now: datetime) -> list[Any]:
    return [obj["metadata"]["name"], age(obj, now)]


GENERIC: Table = ((NAME, AGE), _generic_cells)


def table(
    kind: kinds.Kind,
    custom: Table | None,
    objects: Sequence[Object],
    metadata: Object,
    now: datetime,
    *,
    columns: bool = True,
    include: str = "Metadata",
) -> Object:
    """A Table of objects in the kind's version.

    `custom` is the table of a custom resource, and `include` the object in each row: None, Metadata or Object.
    """
    described, cells = custom or TABLES.get(kind, GENERIC)
    rows = []
    for obj in objects:
        row: Object = {"cells": cells(obj, now)}
        if kind is kinds.POD and (conditions := pod_conditions(obj)):
            row["conditions"] = conditions
        if include != "None":
            row["object"] = _included(kind, obj, whole=include == "Object")
        rows.append(row)
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "columnDefinitions": [column.definition() for column in described] if columns else [],
        "rows": rows,
    }


def _included(kind: kinds.Kind, obj: Object, *, whole: bool) -> Object:
    if whole:
        return {"kind": kind.kind, "apiVersion": kind.api_version, **obj}
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": obj["metadata"]}

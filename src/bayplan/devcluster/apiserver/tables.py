"""Objects as the tables that `kubectl get` prints. Mirrors Kubernetes' pkg/printers/internalversion/printers.go."""

from __future__ import annotations

from collections.abc import Sequence

from bayplan.devcluster.apiserver.registry import Registry
from bayplan.devcluster.apiserver.resources import Resource
from bayplan.devcluster.apiserver.schema import Object
from bayplan.devcluster.apiserver.store import Entry


def table(
    registry: Registry, resource: Resource, entries: Sequence[Entry], metadata: Object, *, columns: bool = True
) -> Object:
    """A Table of the entries."""
    rows = [
        {"cells": [entry.name], "object": {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": entry.load()["metadata"]}}
        for entry in entries
    ]
    return {"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata, "columnDefinitions": [{"name": "Name", "type": "string", "format": "name", "description": "", "priority": 0}] if columns else None, "rows": rows}

"""The rows of CustomResourceDefinitions."""

from __future__ import annotations

from datetime import datetime

from bayplan.api.kinds import CUSTOM_RESOURCE_DEFINITION, Kind
from bayplan.devcluster.apiserver.schema import Object
from bayplan.devcluster.apiserver.tables.columns import NAME, Column, Table


def _cells(definition: Object, _now: datetime) -> list[str]:
    return [definition["metadata"]["name"], definition["metadata"]["creationTimestamp"]]


TABLES: dict[Kind, Table] = {
    CUSTOM_RESOURCE_DEFINITION: ((NAME, Column("Created At", "meta_v1.ObjectMeta.creationTimestamp", "date")), _cells),
}

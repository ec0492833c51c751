"""The stored form and the rules of autoscaling/v1, whose autoscalers are stored as autoscaling/v2."""

from __future__ import annotations

from collections.abc import Iterable

from bayplan.api.field_errors import FieldError, invalid
from bayplan.api.kinds import HORIZONTAL_POD_AUTOSCALER
from bayplan.devcluster.apiserver.autoscaler_conversion import to_v2
from bayplan.devcluster.apiserver.defaults import set_defaults
from bayplan.devcluster.apiserver.kinds.stored import check_by_schema
from bayplan.devcluster.apiserver.scalars import Mismatch
from bayplan.devcluster.apiserver.schema import Object, normalize


def validate_v1(autoscaler: Object) -> Iterable[FieldError]:
    """Rules for an autoscaler of autoscaling/v1: those for the converted one."""
    try:
        return list(check_by_schema(HORIZONTAL_POD_AUTOSCALER.model, as_v2(autoscaler)))
    except Mismatch as error:
        annotations = autoscaler["metadata"].get("annotations")
        return [invalid("metadata.annotations", annotations, str(error))]


def as_v2(autoscaler: Object) -> Object:
    """Converts an autoscaler of autoscaling/v1 to the form that is stored. Raises Mismatch."""
    converted, _ = normalize(HORIZONTAL_POD_AUTOSCALER, to_v2(autoscaler))
    set_defaults(HORIZONTAL_POD_AUTOSCALER.model, converted)
    return converted

"""The catalog of built-in resources: the facts about each kind, and the controllers of some kinds.

To serve one more kind, add it to `bayplan.core.api.kinds`. If it isn't like most kinds, or if nothing here acts on it,
add a line to `resources.json`. If its rules need code, add a strategy.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files

import msgspec

from bayplan.core.api import kinds
from bayplan.core.api.kinds import KINDS, Kind
from bayplan_devcluster.apiserver.authorization.aggregation import aggregate
from bayplan_devcluster.apiserver.custom.definitions import finish_definition, follow_definition
from bayplan_devcluster.apiserver.event_conversion import from_core, to_core
from bayplan_devcluster.apiserver.kinds.stored import stored
from bayplan_devcluster.apiserver.kinds.strategies import strategy_of
from bayplan_devcluster.apiserver.schema import Object
from bayplan_devcluster.apiserver.storage.garbage_collector import Finalize
from bayplan_devcluster.apiserver.storage.object_schema import ConvertedSchema
from bayplan_devcluster.apiserver.storage.resource import Resource
from bayplan_devcluster.apiserver.storage.rest_storage import Controller
from bayplan_devcluster.apiserver.storage.selectable_fields import (
    SelectableFields,
    boolean_fields,
    read_path,
    text_fields,
)


@cache
def facts() -> Mapping[str, Object]:
    """The facts about the kinds that aren't like most, by resource: arguments of Resource, the fields that selectors
    may select by, also by the change that added them, and for kinds that are only stored what doesn't happen.
    """
    return msgspec.json.decode(files(__package__).joinpath("resources.json").read_bytes(), type=dict[str, Object])


def _resource(kind: Kind, features: frozenset[str] = frozenset()) -> Resource:
    if kind == kinds.EVENT:
        return _events()
    given = dict(facts().get(kind.resource, {}))
    why = given.pop("stored", "")
    strategy = stored(kind, why) if why else strategy_of(kind, features)
    since = [name for change, names in given.pop("fields_since", {}).items() if change in features for name in names]
    fields = SelectableFields(
        text_fields(*given.pop("fields", ()), *since)
        | boolean_fields(*given.pop("booleans", ()))
        | {name: read_path(*path.split(".")) for name, path in given.pop("other_fields", {}).items()},
        internal=frozenset(given.pop("internal", ())),
    )
    return Resource(kind, strategy, fields, **given)


def _events() -> Resource:
    """The events of events.k8s.io/v1, which are stored as core/v1."""
    core = _resource(kinds.CORE_EVENT)
    names = {name.replace("involvedObject", "regarding"): name for name in core.fields.readers if name != "source"}
    fields = SelectableFields(core.fields.readers, renamed={**names, "reportingController": "reportingComponent"})
    return Resource(
        kinds.EVENT,
        strategy_of(kinds.EVENT),
        fields,
        allow_create_on_update=True,
        storage_kind=kinds.CORE_EVENT,
        own_schema=ConvertedSchema(kinds.EVENT, read=from_core, write=to_core),
    )


CONTROLLERS: Mapping[str, Controller] = {
    kinds.CUSTOM_RESOURCE_DEFINITION.resource: follow_definition,
    kinds.CLUSTER_ROLE.resource: aggregate,
}
"""By collection: called after every write and removal."""

FINALIZE: Mapping[str, Finalize] = {kinds.CUSTOM_RESOURCE_DEFINITION.resource: finish_definition}
"""By collection: called while an object is being deleted."""


@cache
def catalog(others: tuple[Kind, ...] = (), features: frozenset[str] = frozenset()) -> tuple[Resource, ...]:
    """All built-in resources: every kind in the table of kinds, and these of those that not all versions serve.

    `features`: the feature gates that are on.
    """
    return tuple(_resource(kind, features) for kind in (*KINDS, *others))

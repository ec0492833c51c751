"""A served kind: plain facts about it, its schema and its strategy.

Mirrors the fields of Store in apiserver's pkg/registry/generic/registry.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from bayplan.core.api.kinds import Kind
from bayplan_devcluster.apiserver.schema import Object
from bayplan_devcluster.apiserver.storage.object_schema import ObjectSchema, TypedSchema
from bayplan_devcluster.apiserver.storage.selectable_fields import SelectableFields
from bayplan_devcluster.apiserver.storage.strategy import Strategy
from bayplan_devcluster.apiserver.tables.columns import Columns


@dataclass(frozen=True, slots=True)
class CustomFacts:
    """The settings of a CustomResourceDefinition for one version of its kind, except the schema."""

    definition: str
    """The definition's name."""
    list_kind: str
    """The kind of lists, "" for the kind of the objects followed by `List`."""
    table: Columns
    scale: Object | None = None
    """The paths of the scale subresource, None if there is none."""
    warning: str = ""
    """The warning in every response, "" for none."""


@dataclass(frozen=True, slots=True)
class Resource:
    """One kind as it is served; a kind without special rules is `Resource(kind)`."""

    kind: Kind
    strategy: Strategy = Strategy()  # noqa: RUF009 - it is immutable
    fields: SelectableFields = SelectableFields()  # noqa: RUF009 - it is immutable
    name_rule: str = "subdomain"
    """The rule for names: `subdomain`, `label`, `label1035` or `path`."""
    generation: bool = False
    """Whether `metadata.generation` counts the changes of everything but metadata and status."""
    keeps_status: bool = False
    """Whether a create keeps the status in the request's body."""
    server_writes_status: bool = False
    """Whether `ApiServer.load` ignores the status of documents, because the server itself writes it."""
    allow_unconditional_update: bool = True
    """Whether a PUT without a resource version is accepted."""
    allow_create_on_update: bool = False
    """Whether a PUT of a name that does not exist creates the object."""
    return_deleted_object: bool = False
    """Whether a delete returns the object instead of a Status."""
    orphan_dependents: bool = False
    """Whether a delete without a propagation policy keeps the dependents."""
    storage_kind: Kind | None = None
    """The kind that objects are stored as, if it is another one."""
    own_schema: ObjectSchema | None = None
    """The schema, if it is not the one of the kind's typed model."""
    custom: CustomFacts | None = None
    """The definition's facts, for a custom resource."""
    schema: ObjectSchema = field(init=False)
    collection: str = field(init=False)
    """The name of the collection that holds the objects."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "schema", self.own_schema or TypedSchema(self.kind))
        object.__setattr__(self, "collection", (self.storage_kind or self.kind).resource)

    def supports_field(self, name: str) -> bool:
        """Whether lists and watches may select by the field."""
        return self.kind.namespaced if name == "metadata.namespace" else self.fields.supports(name)

"""The table of served resources: for each kind, what the server does beyond storing it.

An entry names the kind and its rules; a kind without rules is served like any other. Mirrors the strategies and
storages of Kubernetes' pkg/registry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from bayplan.api.field_errors import FieldError
from bayplan.api.kinds import Kind
from bayplan.devcluster.apiserver.schema import Object
from bayplan.devcluster.apiserver.shapes import Shape, TypedShape

if TYPE_CHECKING:
    from bayplan.devcluster.apiserver.registry import Registry
    from bayplan.devcluster.apiserver.store import Entry
    from bayplan.devcluster.apiserver.subresources import Subresource
    from bayplan.devcluster.apiserver.tables.columns import Table


def _nothing(_obj: Object) -> None:
    """Defaults nothing."""


def _nothing_changed(_new: Object, _old: Object) -> None:
    """Prepares nothing."""


def _valid(_obj: Object) -> Iterable[FieldError]:
    return ()


def _valid_change(_new: Object, _old: Object) -> Iterable[FieldError]:
    return ()


def _admitted(_registry: Registry, _obj: Object) -> None:
    """Admits everything."""


@dataclass(frozen=True, slots=True)
class Resource:
    """One kind as it is served. Functions get the object as stored and may change it in place."""

    kind: Kind
    default: Callable[[Object], None] = _nothing
    """Fills in what the client left open, on every write."""
    admit: Callable[[Registry, Object], None] = _admitted
    """What admission adds to, or has against, a new object. Raises StatusError."""
    prepare: Callable[[Object], None] = _nothing
    """The last touch before validation of a new object."""
    prepare_update: Callable[[Object, Object], None] = _nothing_changed
    """(new, old): carries over what an update may not change silently."""
    prepare_status: Callable[[Object, Object], None] = _nothing_changed
    """(new, old): the same for an update of the status alone."""
    validate: Callable[[Object], Iterable[FieldError]] = _valid
    """What makes the object invalid, on every write but of the status alone."""
    validate_new: Callable[[Object], Iterable[FieldError]] = _valid
    """What else makes a new object invalid."""
    validate_update: Callable[[Object, Object], Iterable[FieldError]] = _valid_change
    """(new, old): what else makes a change invalid."""
    validate_status: Callable[[Object, Object], Iterable[FieldError]] = _valid_change
    """(new, old): what makes a change of the status invalid."""
    fields: Mapping[str, Callable[[Object], str]] = field(default_factory=dict)
    """Selectable fields besides metadata.name and metadata.namespace, read from the object as it is stored."""
    field_names: Mapping[str, str] = field(default_factory=dict)
    """What requests call these fields, and what they are called above, where that differs."""
    hidden_fields: frozenset[str] = frozenset()
    """Of these, the ones that are for the server itself."""
    name_rule: str = "subdomain"
    """What names may look like: `subdomain`, `label`, `label1035` or `path`."""
    keeps_status: bool = False
    """Whether a create may carry a status."""
    generation: bool = False
    """Whether `metadata.generation` counts changes of what is not status."""
    unconditional_update: bool = True
    """Whether a PUT without a resource version replaces whatever is there."""
    create_on_update: bool = False
    """Whether a PUT of a name that does not exist creates it."""
    returns_deleted: bool = False
    """Whether a delete answers with the object instead of a Status."""
    grace: Callable[[Object, int | None], int] | None = None
    """(object, seconds asked for) -> seconds until it may be gone, for kinds that are deleted gracefully."""
    orphans: bool = False
    """Whether dependents stay when a delete does not say."""
    storage: Kind | None = None
    """The kind that its objects are stored as, if that is another one."""
    from_storage: Callable[[Object], Object] | None = None
    to_storage: Callable[[Object], Object] | None = None
    typed: Shape | None = None
    """What its objects look like, if there is no typed model that says so."""
    columns: Table | None = None
    """Its tables, if they are not those of `tables`."""
    subresources: Mapping[str, Subresource] = field(default_factory=dict)
    """By name, besides `status`."""
    list_kind: str = ""
    """The kind of lists of it, if it is not that of the objects and `List`."""
    own_status: bool = False
    """Whether the status is the server's to write, so that documents which are loaded cannot bring one."""
    items_say_kind: bool = False
    """Whether each object in a list says kind and apiVersion."""
    warning: str = ""
    """What every answer warns of."""
    mark_deleted: Callable[[Registry, Object], None] = _admitted
    """What the first delete of an object writes into it, before anything waits for its removal."""
    finish: Callable[[Registry, Resource, Object], None] | None = None
    """Does some of what an object that is being deleted waits for, and removes it when that is done. Called again
    with every object that goes from the collection named like it.
    """
    follow: Callable[[Registry, Resource, Entry], None] | None = None
    """What else changes whenever an object is stored or removed."""
    shape: Shape = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", self.typed or TypedShape(self.kind))

    @property
    def stored_as(self) -> str:
        """The name of its collection."""
        return (self.storage or self.kind).resource

    def supports_field(self, name: str) -> bool:
        """Whether lists and watches may select by the field."""
        if name == "metadata.namespace":
            return self.kind.namespaced
        known = self.field_names or self.fields
        return name == "metadata.name" or (name in known and name not in self.hidden_fields)

    def read_fields(self, obj: Object) -> dict[str, str]:
        """What the object can be selected by."""
        metadata = obj["metadata"]
        found = {name: read(obj) for name, read in self.fields.items()}
        found["metadata.name"] = metadata["name"]
        found["metadata.namespace"] = metadata.get("namespace", "")
        return found


def path(*keys: str) -> Callable[[Object], str]:
    """Reads a text at a path of an object, "" where something is missing."""
    *parents, last = keys

    def read(obj: Object) -> str:
        for key in parents:
            obj = obj.get(key) or _EMPTY
        value = obj.get(last)
        return value if value.__class__ is str else _text(value)

    return read


_EMPTY: Object = {}


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def boolean(*keys: str) -> Callable[[Object], str]:
    """Reads a truth value at a path of an object, "false" where it is missing."""
    read = path(*keys)
    return lambda obj: read(obj) or "false"

"""How the server validates and prepares the objects of one kind when it stores them.

Mirrors RESTCreateStrategy, RESTUpdateStrategy and RESTDeleteStrategy of apiserver's pkg/registry/rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime

from bayplan.core.api.field_errors import FieldError
from bayplan_devcluster.apiserver.schema import Object


def _keep(*_: object) -> None:
    """Changes nothing."""


def _accept(*_: Object) -> Iterable[FieldError]:
    return ()


@dataclass(frozen=True, slots=True)
class Strategy:
    """The hooks of one kind; a hook that is left out does nothing.

    A hook sees the objects alone. It gets them normalized and as fresh copies, so hooks that prepare an object change
    it in place.
    """

    prepare_for_create: Callable[[Object], None] = _keep
    """Completes a new object after admission, before validation."""
    prepare_for_update: Callable[[Object, Object], None] = _keep
    """(new, old): restores the fields that an update must not change silently."""
    prepare_for_status_update: Callable[[Object, Object], None] = _keep
    """(new, old): the same for an update through the `status` subresource."""
    prepare_for_delete: Callable[[Object, datetime], None] = _keep
    """(object, now): changes an object with its first delete, before anything waits for its removal."""
    validate: Callable[[Object], Iterable[FieldError]] = _accept
    """Checks an object on every write, except of the status."""
    validate_create: Callable[[Object], Iterable[FieldError]] = _accept
    """Checks a new object, in addition to `validate`."""
    validate_update: Callable[[Object, Object], Iterable[FieldError]] = _accept
    """(new, old): checks a change, in addition to `validate`."""
    validate_status_update: Callable[[Object, Object], Iterable[FieldError]] = _accept
    """(new, old): checks a change of the status."""
    validate_binding: Callable[[Object], Iterable[FieldError]] = _accept
    """Checks the target of a Binding of an object."""
    warn: Callable[[Object], Iterable[str]] = lambda _: ()
    """Returns what a client should know about an object that it writes, for headers of the response."""
    grace_period: Callable[[Object, int | None], int | None] = _keep
    """(object, seconds in the request) -> seconds until a deleted object may be removed; None if the kind has no
    graceful deletion.
    """

"""Rules of the attributes that requests derive from those of devices.

Mirrors validateDeviceDerivedAttribute of pkg/apis/resource/validation/validation.go in Kubernetes 1.37, without the
limits of estimated costs.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from bayplan.core.api.field_errors import FieldError, invalid, too_long
from bayplan.core.devices.limits import MAX_EXPRESSION_LENGTH
from bayplan.foundations.lazy import on_use
from bayplan_devcluster.apiserver.schema import Object
from bayplan_devcluster.apiserver.validation.attributes import LISTS_GATE
from bayplan_devcluster.apiserver.validation.devices import full_name
from bayplan_devcluster.apiserver.validation.rules import At

with on_use():
    from bayplan.core.devices.cel import derivations, selectors


_UNUSED = "must be referenced by at least one matchAttribute or distinctAttribute constraint targeting this request"


def attribute(name: str, at: At) -> Iterator[FieldError]:
    """The name of an attribute that a constraint on its request compares."""
    yield from full_name(name, at.path)
    _, asking, request, claim = at.above[:4]
    names = {"", request["name"]} if asking is request.get("exactly") else _names_of(request, asking)
    for constraint in claim.get("constraints") or ():
        compared = constraint.get("matchAttribute", constraint.get("distinctAttribute"))
        if compared == name and names & {*(constraint.get("requests") or [""])}:
            return
    yield invalid(at.path, name, _UNUSED)


def _names_of(request: Object, alternative: Object) -> set[str]:
    return {"", request["name"], f"{request['name']}/{alternative['name']}"}


def expression(expression: str, at: At) -> Iterator[FieldError]:
    """A CEL expression that derives the value of an attribute."""
    if len(expression) > MAX_EXPRESSION_LENGTH:
        yield too_long(at.path, MAX_EXPRESSION_LENGTH)
    elif problem := _compile_error(expression, lists=LISTS_GATE in at.features):
        yield invalid(at.path, expression, problem)


@lru_cache(maxsize=256)
def _compile_error(expression: str, *, lists: bool) -> str:
    """The error of a new CEL expression, "" if it is valid. `lists` is that of Derivation."""
    try:
        derivations.Derivation(expression, lists=lists, stored=False)
    except selectors.CompileError as error:
        return str(error)
    return ""

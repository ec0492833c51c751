"""Recommendation: what one container of a workload should request; amounts are nano-units (`core.api.quantity`)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from bayplan.core.api import quantity
from bayplan.core.api.requests import CPU, MEMORY, amount_text

RESOURCES = (CPU, MEMORY)
"""What is recommended. Other resources stay as they are."""
_LEAST = {CPU: 1, MEMORY: 2**20 * quantity.NANO}
_MOST = {CPU: 10_000 * quantity.NANO, MEMORY: 2**50 * quantity.NANO}
_EXAMPLES = {CPU: "250m", MEMORY: "512Mi"}


class UnusableRecommendation(Exception):
    """A recommendation that can't be used. The message is one line that says why."""


@dataclass(frozen=True, slots=True)
class RecommendedWorkload:
    """The workload that a recommendation is for. `kind` as in `Deployment`. `where`: the place, for messages."""

    where: str
    namespace: str
    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class Recommendation:
    """What a container of a workload should request.

    `limits`: those that are recommended, too; None for one that should go. `scales_limits`: whether other limits keep
    their proportion to the request.
    """

    target: RecommendedWorkload
    container: str
    requests: Mapping[str, int]
    limits: Mapping[str, int | None] = field(default_factory=dict)
    scales_limits: bool = False


Read = Iterator[Recommendation | str]
"""The recommendations of a document, and one line for each that can't be used."""


def recommended(
    target: RecommendedWorkload, container: object, requests: object, limits: Mapping[str, int | None] | None = None
) -> Recommendation | str:
    """Return the recommendation for a container, or why it can't be used. `requests`: as a document has them."""
    where = target.where
    try:
        for what, value in (("namespace", target.namespace), ("kind", target.kind), ("name", target.name)):
            _check_name(where, what, value)
        amounts = amounts_of(requests, f"{where}: container {_check_name(where, 'container', container)}")
        if not amounts:
            return f"{where}: container {container}: there is no recommendation for cpu or memory"
        for resource, limit in (limits or {}).items():
            if limit is not None and limit < amounts.get(resource, 0):
                return (
                    f"{where}: container {container}: the limit of {resource} is {text_of(resource, limit)}, and less "
                    f"than the request of {text_of(resource, amounts[resource])}"
                )
    except UnusableRecommendation as error:
        return str(error)
    return Recommendation(target, str(container), amounts, limits or {})


def amounts_of(amounts: object, where: str) -> dict[str, int]:
    """Return the amounts of a mapping from resources. Raises UnusableRecommendation."""
    if amounts is None:
        return {}
    if not isinstance(amounts, Mapping):
        raise UnusableRecommendation(f"{where}: expected amounts of cpu and memory, not {amounts!r:.40}")
    found = {resource: amount_of(resource, amounts.get(resource), where) for resource in RESOURCES}
    return {resource: amount for resource, amount in found.items() if amount is not None}


def amount_of(resource: str, value: object, where: str) -> int | None:
    """Return a recommended amount in nano-units; None if there is none.

    `value`: a quantity as text, or a number of cores or bytes. Raises UnusableRecommendation for another one, and for
    an amount that no container needs.
    """
    if value is None or value in ("", "?") or (isinstance(value, float) and math.isnan(value)):
        return None
    try:
        nanos = quantity.parse(_quantity(value))
    except quantity.InvalidQuantity as error:
        raise UnusableRecommendation(f"{where}: {resource}: {error}") from None
    given, example = f"{resource} {value!s:.40}", _EXAMPLES[resource]
    if nanos <= 0:
        raise UnusableRecommendation(f"{where}: {given}: expected more than 0, as in {example}")
    if nanos > _MOST[resource]:
        most = text_of(resource, _MOST[resource])
        raise UnusableRecommendation(f"{where}: {given} is more than a node has: expected at most {most}")
    if nanos < _LEAST[resource]:
        least = text_of(resource, _LEAST[resource])
        raise UnusableRecommendation(f"{where}: {given} is too little: expected at least {least}, as in {example}")
    return nanos


def text_of(resource: str, nanos: int) -> str:
    """Return an amount as a quantity, cpu in whole thousandths and memory in whole bytes, rounded up."""
    amount = quantity.milli_value(nanos) if resource == CPU else quantity.value(nanos)
    return amount_text(resource, amount)


def _check_name(where: str, what: str, value: object) -> str:
    if not isinstance(value, str) or not value:
        raise UnusableRecommendation(f"{where}: {what} is missing")
    return value


def _quantity(value: object) -> str:
    """A number as the text of a quantity. Raises InvalidQuantity."""
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isinf(value):
        raise quantity.InvalidQuantity(value)
    return f"{value:.9f}" if isinstance(value, float) else str(value)

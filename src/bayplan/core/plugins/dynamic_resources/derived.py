"""Attributes that the requests of a claim derive from those of devices, for its constraints.

Mirrors lookupAttribute of structured/internal/experimental/allocator_experimental.go in 1.37.
"""

from __future__ import annotations

from collections.abc import Iterable

from bayplan.core.devices.cel.derivations import Attribute, Derivations
from bayplan.core.devices.cel.selectors import CompileError, RuntimeFailure
from bayplan.core.devices.requests import DeviceDemand
from bayplan.core.devices.slices import SliceDevice
from bayplan.core.plugins.dynamic_resources.constraints import Reading
from bayplan.core.plugins.dynamic_resources.solutions import AllocationError


class DerivedAttributes:
    """The attributes of devices as the constraints of one claim see them."""

    def __init__(self, derivations: Derivations, demands: Iterable[DeviceDemand]) -> None:
        self._derivations = derivations
        self._derived = {(each.base_name, each.alternative): each.derived for each in demands if each.derived}

    def reading(self, attribute: str) -> Reading | None:
        """Reads an attribute that some requests derive; None if none does.

        It raises AllocationError if an expression isn't valid, or fails for a device.
        """
        expressions = {which: each[attribute] for which, each in self._derived.items() if attribute in each}
        if not expressions:
            return None

        def read(request: str, sub_request: str, device: SliceDevice) -> Attribute | None:
            expression = expressions.get((request, sub_request))
            return device.attribute(attribute) if expression is None else self._evaluated(attribute, expression, device)

        return read

    def _evaluated(self, attribute: str, expression: str, device: SliceDevice) -> Attribute:
        try:
            return self._derivations.result(expression, device.facts)
        except CompileError as error:
            raise AllocationError(f"compile derived attribute {attribute} failed: {error}") from None
        except RuntimeFailure as error:
            raise AllocationError(
                f"evaluate derived attribute {attribute} on device {device.id} failed: {error}"
            ) from None

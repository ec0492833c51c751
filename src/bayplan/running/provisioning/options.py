"""How provisioning requests are answered. Imports no slow modules, so that help and completion are fast."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from bayplan.core.api.provisioning import BOOKING_SECONDS

CHECK_CAPACITY = "check-capacity.bayplan.dev"
"""The class that is answered by default."""


@dataclass(frozen=True, slots=True)
class ProvisioningOptions:
    """How requests are answered. `classes`: the names of the classes that are.

    `alone`: another scheduler places the pods, and this process only answers requests. `booking`: the seconds for which
    room is held.
    """

    classes: Collection[str] = (CHECK_CAPACITY,)
    alone: bool = False
    booking: float = BOOKING_SECONDS

"""The typed models of Kubernetes' kinds: those of lightkube, and of API versions that its release no longer has."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

_OURS = {"scheduling_v1alpha2": "bayplan.core.api.scheduling_v1alpha2"}


@cache
def model_named(name: str) -> type[Any] | None:
    """The msgspec type for a name such as `core_v1.Pod`; None if the release has no such type.

    It is imported at first use, because importing all API groups takes longer than a short command.
    """
    module, _, type_name = name.rpartition(".")
    found: type[Any] | None = getattr(import_module(_OURS.get(module, f"lightkube.models.{module}")), type_name, None)
    return found

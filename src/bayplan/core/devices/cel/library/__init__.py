"""The implementations of CEL's functions.

A function is called with arguments of its declared types; a method's receiver is the first argument. It raises CelError
on failure.

Other packages use `formatting`, `lists`, `operators`, `regexes`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bayplan.core.devices.cel.library import (
    conversions,
    formats,
    formatting,
    lists,
    network,
    operators,
    optionals,
    quantities,
    regexes,
    strings,
    times,
    urls,
)

IMPLEMENTATIONS: dict[str, Callable[..., Any]] = {
    name: function
    for module in (
        *(conversions, formats, formatting, lists, network, operators, optionals),
        *(quantities, regexes, strings, times, urls),
    )
    for name, function in module.FUNCTIONS.items()
}
"""The functions, by name; namespaced functions with their namespace."""

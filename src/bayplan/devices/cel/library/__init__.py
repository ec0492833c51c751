"""What the functions of CEL do, by their names.

A function takes values of types that it is declared for, of a method the receiver first. It gives values of Python or
of cel-python, and raises CelError where it fails.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bayplan.devices.cel.library import (
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
"""The functions, those of a namespace with its name."""

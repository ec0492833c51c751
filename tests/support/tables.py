"""Tables of named cases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest


def cases(names: str, table: Mapping[str, Any]) -> pytest.MarkDecorator:
    """Run a test for each case of a table: `name: values`.

    `names`: the arguments of the test, separated by commas. The values are a tuple, or the value itself of one argument.
    """
    arguments = [name.strip() for name in names.split(",")]
    rows = {name: (values,) if len(arguments) == 1 else values for name, values in table.items()}
    return pytest.mark.parametrize(arguments, [pytest.param(*values, id=name) for name, values in rows.items()])

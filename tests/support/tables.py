"""Tables of named cases."""

from collections.abc import Mapping
from typing import Any

import pytest


def cases(names: str, table: Mapping[str, Any]) -> pytest.MarkDecorator:
    """Run a test for each case of a table: `name: values`.

    `names`: the arguments of the test, separated by commas. The values are a tuple; of one argument, the value itself.
    """
    arguments = [name.strip() for name in names.split(",")]
    rows = [pytest.param(*((row,) if len(arguments) == 1 else row), id=name) for name, row in table.items()]
    return pytest.mark.parametrize(arguments, rows)

"""What the indexes of this package need of a store of objects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol


class Observable(Protocol):
    """A store that reports changes of its objects. `bayplan.core.cluster.ObjectStore` is one."""

    def listen(self, listener: Callable[[Any, Any], None]) -> None:
        """Call `listener(None, obj)` for every known object now, and `listener(before, after)` after every change.

        `before` is None for a new object, `after` for a deleted one.
        """

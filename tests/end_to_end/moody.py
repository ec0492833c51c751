"""A plugin that reads the clock, in a file of its own, as users have them."""

import time

from bayplan import filter_plugin


@filter_plugin(name="Moody")
def moody(pod, node):
    """Rejects by the clock."""
    return None if time.monotonic_ns() // 1_000_000 % 3 else "not in the mood"

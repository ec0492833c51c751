"""Selectors of devices that take time to evaluate: virtual time."""

from contextlib import contextmanager

from bayplan.core.devices.cel.selectors import Selector


@contextmanager
def slow_selectors(loop, seconds):
    """Evaluating a selector takes some seconds of the loop's virtual time."""
    result = Selector.result

    def slow(self, device, meter=None):
        loop.seconds += seconds
        return result(self, device, meter)

    Selector.result = slow
    try:
        yield
    finally:
        Selector.result = result

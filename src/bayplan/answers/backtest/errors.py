"""What can be wrong with a request to simulate a history."""

from __future__ import annotations


class BacktestError(Exception):
    """A request that can't be answered. The message is one line for the user."""

"""Giving way: an attempt that takes long stops, so that other pods have their turn, and is repeated later."""

from __future__ import annotations


class GiveWay(Exception):
    """Raised by `Handle.give_way` to stop an attempt. Only the scheduling loop handles it."""

"""Dumps the scheduler's state to its log on a signal."""

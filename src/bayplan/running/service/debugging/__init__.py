"""Dumps the scheduler's state to its log on a signal.

Other packages use `debugger`.
"""

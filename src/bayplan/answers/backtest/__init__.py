"""Replays histories with other schedulers, plugins and node pools, and compares the results.

Start at `comparison.py`; `stream.py` makes what happens of a history, `running.py` simulates it.
"""

"""Sweeps: one history, or several, simulated with many schedulers and node pools, side by side (`bayplan sweep`).

Start reading at `plan.py`, then `sweep.py`.
"""

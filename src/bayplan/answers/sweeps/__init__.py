"""Sweeps: one history, or several, simulated with many schedulers and node pools, side by side (`bayplan sweep`).

Start at `plan.py` (what a sweep's file varies), then `sweep.py`. `runs.py` has one run, `workers.py` those who simulate
(processes, or Ray), `results.py` the results on any filesystem, and `search.py` a search with a budget.

Other packages use `plan`, `plot`, `results`, `runs`, `sweep`, `workers`.
"""

"""Trimaran: scores nodes by their measured load. Mirrors pkg/trimaran of scheduler-plugins.

source (Prometheus, metrics-server, load-watcher)
   |  sources.py: every 30 seconds, outside of decisions
   v
Loads (loads.py) --- a feed, so that recordings and snapshots have what decisions rest on ---> columns
   |
   +-- target_load_packing.py, load_variation_risk_balancing.py, low_risk_over_commitment.py, peaks.py
"""

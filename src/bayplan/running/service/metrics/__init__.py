"""Metrics under kube-scheduler's names. The scheduler records them in `measuring.py` as it works; `snapshot.py` reads
others from its state at each scrape; `exposition.py` converts both to Prometheus' format.

Other packages use `exposition`, `measuring`, `process`, `resources`, `selection`, `snapshot`.
"""

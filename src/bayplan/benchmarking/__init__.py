"""What `bayplan perf` runs: workloads of Kubernetes' scheduler_perf, on the decision core or on a cluster.

`workloads.py` reads them, `workload_run.py` carries their operations out on a place (`place.py`): the core with its
ports in memory (`core.py`), or a cluster behind an API server with a scheduler as a process (`cluster.py`).

Other packages use `cluster_run`, `core`, `measurement`, `profiling`, `selection`, `templates`, `workload_run`,
`workloads`.
"""

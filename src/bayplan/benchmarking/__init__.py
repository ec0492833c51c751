"""What `bayplan perf` runs: workloads of Kubernetes' scheduler_perf, on the decision core or on a cluster."""

"""Kubernetes' own scheduler benchmark: reads its workloads, and runs them against the decision core alone."""

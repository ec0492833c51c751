"""A Kubernetes cluster in one process for laptops and tests: the embedded API server (which imports `api` alone), and
controllers and simulated kubelets (ordinary API clients that also run against a real kube-apiserver).
"""

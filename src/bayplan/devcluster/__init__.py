"""A Kubernetes cluster in one process, for laptops and tests: the embedded API server, with controllers and simulated
kubelets that are ordinary API clients and also run against a real kube-apiserver.
"""

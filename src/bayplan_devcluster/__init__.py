"""A Kubernetes cluster in one process, for laptops and tests.

It consists of the embedded API server, and of controllers and simulated kubelets, which are ordinary API clients and
also work with a real kube-apiserver.
"""

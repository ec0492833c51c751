"""Bayplan: a Kubernetes scheduler, and a framework to write schedulers in.

Users import from here; what is not re-exported here or in `bayplan.client` and `bayplan.testing` may change.
"""

"""Selectors of devices in CEL, as Kubernetes evaluates them."""

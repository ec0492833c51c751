"""Small Kubernetes objects for the tests of snapshots."""

from __future__ import annotations


def document(kind, name, api_version="v1", namespace="default", **fields):
    """An object; namespace "" for none."""
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields}

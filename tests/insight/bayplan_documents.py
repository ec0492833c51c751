"""Small Kubernetes objects for the tests of snapshots."""


def document(kind, name, api_version="v1", namespace="default", **fields):
    """An object; namespace "" for none."""
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields}


def node(name, cpu="4", **spec):
    room = {"cpu": cpu, "memory": "8Gi", "pods": "110"}
    found = document("Node", name, namespace="", spec=spec, status={"allocatable": room, "capacity": room})
    found["metadata"]["labels"] = {"kubernetes.io/hostname": name, "pool": name[0]}
    return found


def pod(name, node_name=None, cpu="1", owner=None, requests=None, **spec):
    requests = requests or {"cpu": cpu}
    limits = {resource: amount for resource, amount in requests.items() if "/" in resource}
    container = {"name": "c", "image": "i", "resources": {"requests": requests, "limits": limits}}
    found = document("Pod", name, spec={"containers": [container], **spec})
    if node_name:
        found["spec"]["nodeName"] = node_name
    if owner:
        kind, owner_name = owner
        reference = {"apiVersion": "apps/v1", "kind": kind, "name": owner_name, "uid": owner_name, "controller": True}
        found["metadata"]["ownerReferences"] = [reference]
    return found


def workload(kind, name, replicas, **spec):
    labels = {"app": name}
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    return document(
        kind,
        name,
        "apps/v1",
        spec={"replicas": replicas, "selector": {"matchLabels": labels}, "template": template, **spec},
    )

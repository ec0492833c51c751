"""Small manifests for questions about moving pods."""


def node(name, cpu="4", labels=None, **spec):
    room = {"cpu": cpu, "memory": "8Gi", "pods": "110"}
    labels = {"kubernetes.io/hostname": name, **(labels or {})}
    metadata = {"name": name, "labels": labels}
    status = {"allocatable": room, "capacity": room}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec, "status": status}


def pod(name, node="", cpu="1", owner="ReplicaSet", annotations=None, ready=True, **spec):
    """A running pod of a controller with the pod's name up to the last dash; owner "" for none."""
    app = name.rpartition("-")[0] or name
    references = [{"apiVersion": "apps/v1", "kind": owner, "name": app, "uid": app, "controller": True}]
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    metadata = {
        "name": name,
        "namespace": "default",
        "uid": name,
        "labels": {"app": app},
        "annotations": annotations or {},
        "ownerReferences": references if owner else [],
    }
    status = {"phase": "Running" if node else "Pending"}
    if node and ready:
        status["conditions"] = [{"type": "Ready", "status": "True"}]
    place = {"nodeName": node} if node else {}
    spec = {"containers": [container], **place, **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}


def budget(app, allowed, healthy=2, desired=1, **spec):
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": app, "namespace": "default"},
        "spec": {"minAvailable": desired, "selector": {"matchLabels": {"app": app}}, **spec},
        "status": {
            "disruptionsAllowed": allowed,
            "currentHealthy": healthy,
            "desiredHealthy": desired,
            "expectedPods": healthy,
        },
    }

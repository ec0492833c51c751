"""Claims, volumes and storage classes, as a user would write them."""

from typing import Any

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
DRIVER = "disk.example.com"

Document = dict[str, Any]


def storage_class(name: str, *, provisioner: str = DRIVER, late: bool = False, **fields: Any) -> Document:
    """A class; with `late`, its claims wait for their first consumer. `fields` are the class's."""
    mode = "WaitForFirstConsumer" if late else "Immediate"
    metadata = {"name": name, **fields.pop("metadata", {})}
    return {"metadata": metadata, "provisioner": provisioner, "volumeBindingMode": mode, **fields}


def local_class(name: str) -> Document:
    """The class of existing volumes with late binding."""
    return storage_class(name, provisioner="kubernetes.io/no-provisioner", late=True)


def default_class(name: str, **fields: Any) -> Document:
    annotations = {"storageclass.kubernetes.io/is-default-class": "true"}
    return storage_class(name, metadata={"annotations": annotations}, **fields)


def allowed(key: str, *values: str) -> Document:
    """The allowed topologies of a class."""
    return {"allowedTopologies": [{"matchLabelExpressions": [{"key": key, "values": list(values)}]}]}


def claim(name: str, of: str | None = None, size: str = "1Gi", mode: str = "ReadWriteOnce", **fields: Any) -> Document:
    """A claim of a class (None: without a class). `fields` are fields of the spec, except `metadata`."""
    metadata = {"name": name, "namespace": "default", **fields.pop("metadata", {})}
    spec = {"accessModes": [mode], "resources": {"requests": {"storage": size}}}
    return {"metadata": metadata, "spec": {**spec, **({} if of is None else {"storageClassName": of}), **fields}}


def volume(name: str, of: str = "", size: str = "1Gi", *modes: str, node: str = "", **fields: Any) -> Document:
    """A volume of a class, on a node if one is given. `fields` are fields of the spec, except `metadata`."""
    metadata = {"name": name, **fields.pop("metadata", {})}
    spec: Document = {"capacity": {"storage": size}, "accessModes": list(modes or ("ReadWriteOnce",))}
    if of:
        spec["storageClassName"] = of
    if not fields.keys() & {"hostPath", "nfs", "csi", "local"}:
        spec["local" if node else "hostPath"] = {"path": f"/data/{name}"}
    if node:
        expression = {"key": HOSTNAME, "operator": "In", "values": [node]}
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}
    return {"metadata": metadata, "spec": {**spec, **fields}}


def using(*claims: str) -> Document:
    """The part of a pod's spec that names these claims."""
    return {
        "volumes": [{"name": f"v{i}", "persistentVolumeClaim": {"claimName": name}} for i, name in enumerate(claims)]
    }


def ephemeral(name: str, of: str | None = None, **template: Any) -> Document:
    """The part of a pod's spec that has a generic ephemeral volume. `template` is the metadata of its claim."""
    made = {"spec": claim("", of)["spec"], **({"metadata": template} if template else {})}
    return {"volumes": [{"name": name, "ephemeral": {"volumeClaimTemplate": made}}]}

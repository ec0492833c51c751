"""Objects of small clusters whose pods need devices."""

from bayplan_documents import document

from bayplan.core.versions import gates_of, with_gangs

API = "resource.k8s.io/v1"
GATES = with_gangs(gates_of("1.37"))


def device_slice(name, taints):
    """The devices of a node. `taints`: the effect of the taint of each; "" for none."""
    devices = [
        {"name": f"g{number}", **({"taints": [taint(effect)]} if effect else {})}
        for number, effect in enumerate(taints)
    ]
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "d", "nodeName": name, "pool": pool, "devices": devices}
    return document("ResourceSlice", name, API, namespace="", spec=spec)


def taint(effect):
    return {"key": "off", "value": "yes", "effect": effect}


def device_class(name, *expressions):
    spec = {"selectors": [{"cel": {"expression": each}} for each in expressions]} if expressions else {}
    return document("DeviceClass", name, API, namespace="", spec=spec)

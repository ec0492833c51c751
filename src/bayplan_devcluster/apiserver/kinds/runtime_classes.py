"""Gives a new pod the overhead, the node selector and the tolerations of its RuntimeClass.

Mirrors Kubernetes' plugin/pkg/admission/runtimeclass.
"""

from __future__ import annotations

from bayplan.core.api.kinds import POD, RUNTIME_CLASS
from bayplan.core.api.resource_lists import read_amounts
from bayplan.core.api.status import StatusError, forbidden
from bayplan_devcluster.apiserver.schema import Object
from bayplan_devcluster.apiserver.storage.rest_storage import RestStorage


def admit_runtime_class(storage: RestStorage, pod: Object) -> None:
    """Completes the pod. Raises 403 for an unknown class, and for values that contradict it."""
    spec = pod["spec"]
    name = spec.get("runtimeClassName")
    runtime_class: Object = {}
    if name is not None:
        entry = storage.store.collection(RUNTIME_CLASS.resource).objects.get(name)
        if entry is None:
            raise _rejected(pod, f'pod rejected: RuntimeClass "{name}" not found')
        runtime_class = entry.load()
    overhead = runtime_class.get("overhead", {}).get("podFixed")
    if spec.get("overhead"):
        if overhead is None:
            raise _rejected(pod, "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead")
        if read_amounts(spec["overhead"]) != read_amounts(overhead):
            raise _rejected(pod, "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead")
    elif overhead:
        spec["overhead"] = dict(overhead)
    _set_scheduling(pod, runtime_class.get("scheduling") or {})


def _rejected(pod: Object, why: str) -> StatusError:
    return forbidden(POD, pod["metadata"].get("name", ""), why)


def _set_scheduling(pod: Object, scheduling: Object) -> None:
    spec = pod["spec"]
    selector = spec.get("nodeSelector", {})
    for key, value in scheduling.get("nodeSelector", {}).items():
        if selector.get(key, value) != value:
            here, there = f"runtimeClass.scheduling.nodeSelector[{key}]", f"pod.spec.nodeSelector[{key}]"
            raise _rejected(pod, f"conflict: {here} = {value}; {there} = {selector[key]}")
        spec["nodeSelector"] = selector = {**selector, key: value}
    tolerations = spec.get("tolerations", [])
    added = [one for one in scheduling.get("tolerations", ()) if one not in tolerations]
    if added:
        spec["tolerations"] = [*tolerations, *added]

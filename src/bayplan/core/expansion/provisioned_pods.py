"""The pods that a ProvisioningRequest asks room for: as its PodTemplates would be created, with defaults and priority.

No API server knows these pods. Their names have a `~`, which names of real pods can't have. What admission adds and
decisions rest on is added here: requests that are limits, the priority of the class, and the overhead of the runtime.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import msgspec
from lightkube.models.core_v1 import Pod

from bayplan.core.api.coscheduling import LIGHTWEIGHT_LABEL, MIN_AVAILABLE_LABEL, POD_GROUP_LABEL
from bayplan.core.api.defaults import set_defaults
from bayplan.core.api.kinds import POD
from bayplan.core.api.objects import Document, convert, encode
from bayplan.core.api.provisioning import API_VERSION, KIND, MARK, ProvisioningRequest

_LEFT_OUT = ("schedulingGates", "schedulingGroup", "nodeName")
_GROUP_LABELS = (POD_GROUP_LABEL, LIGHTWEIGHT_LABEL, MIN_AVAILABLE_LABEL)
"""With these, pods that don't exist would count as members of a gang."""
_SYSTEM_CLASSES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


class TemplateError(ValueError):
    """A PodTemplate that pods can't be made from. The message says why."""


@dataclass(frozen=True, slots=True)
class Classes:
    """What admission looks up, by name: PriorityClasses and RuntimeClasses."""

    priorities: Mapping[str, Any]
    runtimes: Mapping[str, Any]


def pod_of_template(request: ProvisioningRequest, template: Any, classes: Classes) -> Pod:
    """Return a pod that a request asks room for, but for its name and uid. Raises TemplateError."""
    return convert(Pod, _document(request, template, classes))


def pod_group_of_template(template: Any) -> str:
    """The name of the PodGroup that pods of a template would be in; "" if there is none."""
    spec = msgspec.json.decode(encode(template)).get("template", {}).get("spec") or {}
    return str((spec.get("schedulingGroup") or {}).get("podGroupName") or "")


def _document(request: ProvisioningRequest, template: Any, classes: Classes) -> Document:
    content = msgspec.json.decode(encode(template)).get("template") or {}
    metadata, spec = content.get("metadata") or {}, dict(content.get("spec") or {})
    if not spec.get("containers"):
        raise TemplateError("it has no containers")
    for name in _LEFT_OUT:
        spec.pop(name, None)
    _set_priority(spec, classes.priorities)
    _set_overhead(spec, classes.runtimes)
    labels = {name: value for name, value in (metadata.get("labels") or {}).items() if name not in _GROUP_LABELS}
    owner = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "name": request.name,
        "uid": request.uid,
        "controller": True,
    }
    created = None if request.created is None else request.created.isoformat()
    document: Document = deepcopy(
        {
            "apiVersion": "v1",
            "kind": POD.kind,
            "metadata": {
                "name": f"{request.name}{MARK}",
                "namespace": request.namespace,
                "labels": labels,
                "annotations": metadata.get("annotations") or {},
                "ownerReferences": [owner],
                **({} if created is None else {"creationTimestamp": created}),
            },
            "spec": spec,
        }
    )
    set_defaults(POD.model, document)
    return document


def _set_priority(spec: Document, known: Mapping[str, Any]) -> None:
    name = spec.get("priorityClassName") or ""
    if name in _SYSTEM_CLASSES and name not in known:
        spec["priority"] = _SYSTEM_CLASSES[name]
        return
    found = known.get(name) if name else _default_class(known)
    if name and found is None:
        raise TemplateError(f"no PriorityClass with name {name} was found")
    if found is not None:
        spec["priorityClassName"], spec["priority"] = found.metadata.name, found.value
        spec.setdefault("preemptionPolicy", found.preemptionPolicy or "PreemptLowerPriority")


def _default_class(known: Mapping[str, Any]) -> Any:
    return min((each for each in known.values() if each.globalDefault), key=lambda each: each.value, default=None)


def _set_overhead(spec: Document, known: Mapping[str, Any]) -> None:
    name = spec.get("runtimeClassName") or ""
    found = known.get(name)
    if name and found is None:
        raise TemplateError(f"no RuntimeClass with name {name} was found")
    if found is not None and found.overhead is not None and found.overhead.podFixed:
        spec.setdefault("overhead", dict(found.overhead.podFixed))
    scheduling = None if found is None else found.scheduling
    if scheduling is not None and scheduling.nodeSelector:
        spec["nodeSelector"] = {**(spec.get("nodeSelector") or {}), **scheduling.nodeSelector}
    if scheduling is not None and scheduling.tolerations:
        more = msgspec.json.decode(encode(scheduling.tolerations))
        spec["tolerations"] = [*(spec.get("tolerations") or ()), *more]

"""Rules of containers that concern several fields. Mirrors Kubernetes' pkg/apis/core/validation/validation.go."""

from __future__ import annotations

import re
from collections.abc import Iterator

from bayplan.core.api.field_errors import FieldError, duplicate, invalid, join, not_found, not_supported, required
from bayplan.core.api.labels import label_key_errors
from bayplan_devcluster.apiserver.schema import Object
from bayplan_devcluster.apiserver.validation.rules import At, problems

PROPAGATIONS = ("Bidirectional", "HostToContainer", "None")
RECURSIVE = ("Disabled", "Enabled", "IfPossible")
SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
POD_FIELDS = (
    "metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName",
    "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs",
)  # fmt: skip
"""The fields of a pod that an environment variable may have."""
POD_MAPS = ("metadata.annotations", "metadata.labels")
"""Maps of a pod: an environment variable may have one of their entries."""
_OTHER_POD_FIELDS = (*POD_MAPS, "spec.restartPolicy", "spec.schedulerName", "status.phase")
_SUBSCRIPTED = re.compile(r"(.*)\['(.*)'\]", re.DOTALL)
_VARIABLE_RULE = "a valid environment variable name must consist only of printable ASCII characters other than '='"


def distinct_name(name: str, at: At) -> Iterator[FieldError]:
    """No other container of the pod has the name."""
    earlier, spec = at.before, at.above[1]
    if at.items is spec.get("initContainers"):
        earlier = [*(spec.get("containers") or ()), *earlier]
    if any(other.get("name", "") == name for other in earlier):
        yield duplicate(at.path, name)


def host_ports(spec: Object, at: At) -> Iterator[FieldError]:
    """The host ports of all containers of a pod."""
    host_network, where = bool(spec.get("hostNetwork")), join(at.path, "containers")
    seen: set[str] = set()
    for index, container in enumerate(spec.get("containers") or ()):
        for position, port in enumerate(container.get("ports", ())):
            place, host_port = f"{where}[{index}].ports[{position}].hostPort", port.get("hostPort", 0)
            if not host_port:
                continue
            if host_network and host_port != port.get("containerPort"):
                detail = "must match `containerPort` when `hostNetwork` is true"
                yield invalid(place, host_port, detail)
            text = f"{port['protocol']}/{port.get('hostIP', '')}/{host_port}"
            if text in seen:
                yield duplicate(place, text)
            seen.add(text)


def variable_name(name: str, at: At) -> Iterator[FieldError]:
    """The name of an environment variable."""
    if not (name.isascii() and name.isprintable()) or "=" in name:
        yield invalid(at.path, name, _VARIABLE_RULE)


def variable_source(source: Object, at: At) -> Iterator[FieldError]:
    """The source of an environment variable is of one type, and the variable has no value."""
    sources = [each for each in SOURCES if each in source]
    if not sources:
        *others, last = (f"`{each}`" for each in SOURCES)
        yield invalid(at.path, "", f"must specify one of: {', '.join(others)} or {last}")
    elif at.above[0].get("value"):
        yield invalid(at.path, "", "may not be specified when `value` is not empty")
    elif len(sources) > 1:
        yield invalid(at.path, "", "may not have more than one field specified at a time")


def field_reference(reference: Object, at: At) -> Iterator[FieldError]:
    """A reference to a field of the pod."""
    where = at.path
    version, path = reference.get("apiVersion", ""), reference.get("fieldPath", "")
    subscripted = _SUBSCRIPTED.fullmatch(path)
    if not version:
        yield required(f"{where}.apiVersion")
    elif not path:
        yield required(f"{where}.fieldPath")
    elif version != "v1":
        yield invalid(f"{where}.fieldPath", path, f"error converting fieldPath: unsupported pod version: {version}")
    elif subscripted is not None:
        name = subscripted[2].lower() if subscripted[1] == "metadata.annotations" else subscripted[2]
        if subscripted[1] not in POD_MAPS:
            problem = f"error converting fieldPath: field label does not support subscript: {path}"
            yield invalid(f"{where}.fieldPath", path, problem)
        else:
            yield from problems(where, name, label_key_errors(name))
    elif path not in POD_FIELDS and path not in _OTHER_POD_FIELDS:
        yield invalid(f"{where}.fieldPath", path, f"error converting fieldPath: field label not supported: {path}")
    elif path not in POD_FIELDS:
        yield not_supported(f"{where}.fieldPath", path, POD_FIELDS)


def mounts(container: Object, at: At) -> Iterator[FieldError]:
    """The volumes that a container mounts exist in the pod."""
    where, volumes = at.path, {volume.get("name", "") for volume in at.above[0].get("volumes", ())}
    for field, path in (("volumeMounts", "mountPath"), ("volumeDevices", "devicePath")):
        paths: set[str] = set()
        for index, mount in enumerate(container.get(field, ())):
            place, name, target = f"{where}.{field}[{index}]", mount.get("name", ""), mount.get(path, "")
            if not name:
                yield required(f"{place}.name")
            if name not in volumes:
                yield not_found(f"{place}.name", name)
            if not target:
                yield required(f"{place}.{path}")
            if target in paths:
                yield invalid(f"{place}.{path}", target, "must be unique")
            paths.add(target)
            propagation, recursive = mount.get("mountPropagation", "None"), mount.get("recursiveReadOnly", "Disabled")
            if propagation not in PROPAGATIONS:
                yield not_supported(f"{where}.{field}.mountPropagation", propagation, PROPAGATIONS)
            if recursive not in RECURSIVE:
                yield not_supported(f"{where}.{field}.recursiveReadOnly", recursive, RECURSIVE)


def privileges(context: Object, at: At) -> Iterator[FieldError]:
    """A container that must not escalate its privileges doesn't have them all."""
    if context.get("allowPrivilegeEscalation") is False:
        prefix = "cannot set `allowPrivilegeEscalation` to false and"
        if context.get("privileged"):
            yield invalid(at.path, context, f"{prefix} `privileged` to true")
        if "CAP_SYS_ADMIN" in context.get("capabilities", {}).get("add", ()):
            yield invalid(at.path, context, f"{prefix} `capabilities.Add` CAP_SYS_ADMIN")


def local_profile(profile: Object, at: At) -> Iterator[FieldError]:
    """A seccomp profile has a path if it is on the node, and only then."""
    local, path = profile.get("type", "") == "Localhost", profile.get("localhostProfile")
    if local and path is None:
        yield required(f"{at.path}.localhostProfile", "must be set when seccomp type is Localhost")
    elif not local and path is not None:
        yield invalid(f"{at.path}.localhostProfile", profile, "can only be set when seccomp type is Localhost")

"""Rules for containers, except for their probes. Mirrors Kubernetes' pkg/apis/core/validation/validation.go."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from bayplan.api.field_errors import FieldError, duplicate, invalid, not_found, not_supported, required
from bayplan.api.labels import label_key_errors
from bayplan.devcluster.apiserver.schema import Object
from bayplan.devcluster.apiserver.validation.checks import one_of, problems
from bayplan.devcluster.apiserver.validation.meta import name_errors
from bayplan.devcluster.apiserver.validation.ports import validate_port_name, validate_port_number
from bayplan.devcluster.apiserver.validation.resources import validate_resources

PULL_POLICIES = ("Always", "IfNotPresent", "Never")
RESTART_POLICIES = ("Always", "Never", "OnFailure")
PROPAGATIONS = ("Bidirectional", "HostToContainer", "None")
RECURSIVE = ("Disabled", "Enabled", "IfPossible")
PROTOCOLS = ("SCTP", "TCP", "UDP")
MESSAGE_POLICIES = ("File", "FallbackToLogsOnError")
SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
POD_FIELDS = (
    "metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName",
    "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs",
)  # fmt: skip
"""The fields of a pod that an environment variable may have."""
POD_MAPS = ("metadata.annotations", "metadata.labels")
"""The same for fields of which it may have one entry."""
_OTHER_POD_FIELDS = (*POD_MAPS, "spec.restartPolicy", "spec.schedulerName", "status.phase")
_SUBSCRIPTED = re.compile(r"(.*)\['(.*)'\]", re.DOTALL)
_VARIABLE_RULE = "a valid environment variable name must consist only of printable ASCII characters other than '='"
_HIGHEST_ID = 2**31 - 1
_SECCOMP_TYPES = ("Localhost", "RuntimeDefault", "Unconfined")


def validate_container(container: Object, where: str, volumes: Sequence[str], claims: set[str]) -> Iterator[FieldError]:
    """Rules for one container. `volumes` and `claims`: the names of the pod's volumes and resource claims."""
    name = container.get("name", "")
    if not name:
        yield required(f"{where}.name")
    yield from problems(f"{where}.name", name, name_errors(name, "label") if name else ())
    if not container.get("image"):
        yield required(f"{where}.image")
    policy = container["terminationMessagePolicy"]
    yield from one_of(f"{where}.terminationMessagePolicy", policy, MESSAGE_POLICIES)
    yield from _ports(container.get("ports", ()), f"{where}.ports")
    yield from _environment(container.get("env", ()), f"{where}.env")
    yield from _mounts(container, volumes, where)
    yield from one_of(f"{where}.imagePullPolicy", container["imagePullPolicy"], PULL_POLICIES)
    yield from validate_resources(container["resources"], claims, f"{where}.resources")
    yield from _security(container.get("securityContext", {}), f"{where}.securityContext")
    yield from one_of(f"{where}.restartPolicy", container.get("restartPolicy", "Always"), RESTART_POLICIES)


def _ports(ports: Sequence[Object], where: str) -> Iterator[FieldError]:
    names: set[str] = set()
    for index, port in enumerate(ports):
        at, name = f"{where}[{index}]", port.get("name", "")
        if name:
            yield from validate_port_name(name, f"{at}.name")
            if name in names:
                yield duplicate(f"{at}.name", name)
            names.add(name)
        if not port.get("containerPort"):
            yield required(f"{at}.containerPort")
        for field in ("containerPort", "hostPort"):
            if port.get(field):
                yield from validate_port_number(port[field], f"{at}.{field}")
        yield from one_of(f"{at}.protocol", port["protocol"], PROTOCOLS)


def validate_host_ports(containers: Sequence[Object], where: str, *, host_network: bool) -> Iterator[FieldError]:
    """Rules for the host ports of all containers of a pod."""
    seen: set[str] = set()
    for index, container in enumerate(containers):
        for position, port in enumerate(container.get("ports", ())):
            at, host_port = f"{where}[{index}].ports[{position}].hostPort", port.get("hostPort", 0)
            if not host_port:
                continue
            if host_network and host_port != port.get("containerPort"):
                detail = "must match `containerPort` when `hostNetwork` is true"
                yield invalid(at, host_port, detail)
            text = f"{port['protocol']}/{port.get('hostIP', '')}/{host_port}"
            if text in seen:
                yield duplicate(at, text)
            seen.add(text)


def _environment(variables: Sequence[Object], where: str) -> Iterator[FieldError]:
    for index, variable in enumerate(variables):
        at, name = f"{where}[{index}]", variable.get("name", "")
        if not name:
            yield required(f"{at}.name")
        elif not (name.isascii() and name.isprintable()) or "=" in name:
            yield invalid(f"{at}.name", name, _VARIABLE_RULE)
        if "valueFrom" not in variable:
            continue
        if (reference := variable["valueFrom"].get("fieldRef")) is not None:
            yield from _field_reference(reference, f"{at}.valueFrom.fieldRef")
        sources = [source for source in SOURCES if source in variable["valueFrom"]]
        if not sources:
            *others, last = (f"`{source}`" for source in SOURCES)
            yield invalid(f"{at}.valueFrom", "", f"must specify one of: {', '.join(others)} or {last}")
        elif variable.get("value"):
            yield invalid(f"{at}.valueFrom", "", "may not be specified when `value` is not empty")
        elif len(sources) > 1:
            yield invalid(f"{at}.valueFrom", "", "may not have more than one field specified at a time")


def _field_reference(reference: Object, where: str) -> Iterator[FieldError]:
    """Rules for a reference to a field of the pod."""
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


def _mounts(container: Object, volumes: Sequence[str], where: str) -> Iterator[FieldError]:
    for field, path in (("volumeMounts", "mountPath"), ("volumeDevices", "devicePath")):
        paths: set[str] = set()
        for index, mount in enumerate(container.get(field, ())):
            at, name, target = f"{where}.{field}[{index}]", mount.get("name", ""), mount.get(path, "")
            if not name:
                yield required(f"{at}.name")
            if name not in volumes:
                yield not_found(f"{at}.name", name)
            if not target:
                yield required(f"{at}.{path}")
            if target in paths:
                yield invalid(f"{at}.{path}", target, "must be unique")
            paths.add(target)
            propagation, recursive = mount.get("mountPropagation", "None"), mount.get("recursiveReadOnly", "Disabled")
            yield from one_of(f"{where}.{field}.mountPropagation", propagation, PROPAGATIONS)
            yield from one_of(f"{where}.{field}.recursiveReadOnly", recursive, RECURSIVE)


def _security(context: Object, where: str) -> Iterator[FieldError]:
    yield from _ids(context, ("runAsUser", "runAsGroup"), where)
    yield from one_of(f"{where}.procMount", context.get("procMount", "Default"), ("Default", "Unmasked"))
    yield from _seccomp(context.get("seccompProfile"), f"{where}.seccompProfile")
    if context.get("allowPrivilegeEscalation") is False:
        prefix = "cannot set `allowPrivilegeEscalation` to false and"
        if context.get("privileged"):
            yield invalid(where, context, f"{prefix} `privileged` to true")
        if "CAP_SYS_ADMIN" in context.get("capabilities", {}).get("add", ()):
            yield invalid(where, context, f"{prefix} `capabilities.Add` CAP_SYS_ADMIN")


def _ids(context: Object, fields: Sequence[str], where: str) -> Iterator[FieldError]:
    for field in fields:
        if field in context and not 0 <= context[field] <= _HIGHEST_ID:
            yield invalid(f"{where}.{field}", context[field], f"must be between 0 and {_HIGHEST_ID}, inclusive")


def _seccomp(profile: Object | None, where: str) -> Iterator[FieldError]:
    if profile is None:
        return
    kind, path = profile.get("type", ""), profile.get("localhostProfile")
    yield from one_of(f"{where}.type", kind, _SECCOMP_TYPES)
    if kind == "Localhost" and path is None:
        yield required(f"{where}.localhostProfile", "must be set when seccomp type is Localhost")
    elif kind != "Localhost" and path is not None:
        yield invalid(f"{where}.localhostProfile", profile, "can only be set when seccomp type is Localhost")


def validate_pod_security(context: Object, where: str) -> Iterator[FieldError]:
    """Rules for the security context of a pod."""
    yield from _ids(context, ("fsGroup", "runAsUser", "runAsGroup"), where)
    for index, group in enumerate(context.get("supplementalGroups", ())):
        yield from _ids({f"supplementalGroups[{index}]": group}, (f"supplementalGroups[{index}]",), where)
    for field, supported in (
        ("fsGroupChangePolicy", ("Always", "OnRootMismatch")),
        ("supplementalGroupsPolicy", ("Merge", "Strict")),
        ("seLinuxChangePolicy", ("Recursive",)),
    ):
        if context.get(field, supported[0]) not in supported:
            yield not_supported(f"{where}.{field}", context[field], supported)
    yield from _seccomp(context.get("seccompProfile"), f"{where}.seccompProfile")

"""Rules for the probes and the lifecycle hooks of containers.

Mirrors Kubernetes' pkg/apis/core/validation/validation.go.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from bayplan.api.field_errors import FieldError, forbidden, invalid, required
from bayplan.devcluster.apiserver.schema import Object
from bayplan.devcluster.apiserver.validation.checks import one_of
from bayplan.devcluster.apiserver.validation.ports import validate_port_name, validate_port_number
from bayplan.devcluster.apiserver.validation.selectors import validate_not_negative

PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")
_COUNTS = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")
_HEADER = r"[-A-Za-z0-9]+"
_HEADER_RULE = (
    "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for "
    f"validation is '{_HEADER}')"
)


def validate_probes(container: Object, grace: int | None, where: str, *, init: bool) -> Iterator[FieldError]:
    """Rules for the lifecycle and the probes of a container.

    `grace`: the pod's grace period. `init`: whether the container is an init container.
    """
    if init and container.get("restartPolicy") != "Always":
        for field in ("lifecycle", *PROBES):
            if field in container:
                detail = "may not be set for init containers without restartPolicy=Always"
                yield forbidden(f"{where}.{field}", detail)
        return
    lifecycle = container.get("lifecycle", {})
    for field in ("postStart", "preStop"):
        if field in lifecycle:
            yield from _handler(lifecycle[field], grace, f"{where}.lifecycle.{field}")
    for field in PROBES:
        if field in container:
            yield from _probe(container[field], grace, f"{where}.{field}", readiness=field == "readinessProbe")


def _probe(probe: Object, grace: int | None, where: str, *, readiness: bool) -> Iterator[FieldError]:
    yield from _handler(probe, grace, where)
    for field in _COUNTS:
        yield from validate_not_negative(probe.get(field), f"{where}.{field}")
    seconds = probe.get("terminationGracePeriodSeconds")
    if seconds is not None and seconds <= 0:
        yield invalid(f"{where}.terminationGracePeriodSeconds", seconds, "must be greater than 0")
    if readiness and seconds is not None:
        detail = "must not be set for readinessProbes"
        yield invalid(f"{where}.terminationGracePeriodSeconds", seconds, detail)
    elif not readiness and probe["successThreshold"] != 1:
        yield invalid(f"{where}.successThreshold", probe["successThreshold"], "must be 1")


def _handler(handler: Object, grace: int | None, where: str) -> Iterator[FieldError]:
    kinds = [kind for kind in HANDLERS if kind in handler]
    if not kinds:
        yield required(where, "must specify a handler type")
        return
    for kind in kinds[1:]:
        yield forbidden(f"{where}.{kind}", "may not specify more than 1 handler type")
    action, at = handler[kinds[0]], f"{where}.{kinds[0]}"
    match kinds[0]:
        case "exec":
            if not action.get("command"):
                yield required(f"{at}.command")
        case "httpGet":
            yield from _http_get(action, at)
        case "sleep":
            if grace is not None and not 0 <= action["seconds"] <= grace:
                detail = f"must be non-negative and less than terminationGracePeriodSeconds ({grace})"
                yield invalid(at, action["seconds"], detail)
        case _:
            yield from _port(action.get("port", 0), f"{at}.port")


def _http_get(action: Object, where: str) -> Iterator[FieldError]:
    yield from _port(action.get("port", 0), f"{where}.port")
    yield from one_of(f"{where}.scheme", action["scheme"], ("HTTP", "HTTPS"))
    for header in action.get("httpHeaders", ()):
        if not re.fullmatch(_HEADER, header.get("name", "")):
            yield invalid(f"{where}.httpHeaders", header.get("name", ""), _HEADER_RULE)


def _port(port: Any, where: str) -> Iterator[FieldError]:
    if isinstance(port, int):
        yield from validate_port_number(port, where)
    else:
        yield from validate_port_name(port, where)

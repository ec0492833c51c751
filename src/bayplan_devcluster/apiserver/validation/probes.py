"""Rules for the probes and the lifecycle hooks of containers.

Mirrors Kubernetes' pkg/apis/core/validation/validation.go.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from bayplan.core.api.field_errors import FieldError, forbidden, invalid, required
from bayplan_devcluster.apiserver.schema import Object
from bayplan_devcluster.apiserver.validation.rules import At, check, port_or_name

PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")
_HEADER = r"[-A-Za-z0-9]+"
_HEADER_RULE = (
    "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for "
    f"validation is '{_HEADER}')"
)


def probes(container: Object, at: At) -> Iterator[FieldError]:
    """The lifecycle and the probes of a container. Init containers that end have none."""
    spec = at.above[0]
    if at.items is spec.get("initContainers") and container.get("restartPolicy") != "Always":
        for field in ("lifecycle", *PROBES):
            if field in container:
                detail = "may not be set for init containers without restartPolicy=Always"
                yield forbidden(f"{at.path}.{field}", detail)
        return
    lifecycle = container.get("lifecycle", {})
    for field in ("postStart", "preStop"):
        if field in lifecycle:
            place = At(f"{at.path}.lifecycle.{field}", above=(container, spec))
            yield from handler(lifecycle[field], place)
    for field in PROBES:
        if field in container:
            place = At(f"{at.path}.{field}", above=(container, spec))
            yield from check("core_v1.Probe", container[field], place)
            yield from _successes(container[field], place.path, readiness=field == "readinessProbe")


def _successes(probe: Object, where: str, *, readiness: bool) -> Iterator[FieldError]:
    seconds = probe.get("terminationGracePeriodSeconds")
    if readiness and seconds is not None:
        detail = "must not be set for readinessProbes"
        yield invalid(f"{where}.terminationGracePeriodSeconds", seconds, detail)
    elif not readiness and probe["successThreshold"] != 1:
        yield invalid(f"{where}.successThreshold", probe["successThreshold"], "must be 1")


def handler(handler: Object, at: At) -> Iterator[FieldError]:
    """The action of a probe or a lifecycle hook: one, with what it needs."""
    kinds = [kind for kind in HANDLERS if kind in handler]
    if not kinds:
        yield required(at.path, "must specify a handler type")
        return
    for kind in kinds[1:]:
        yield forbidden(f"{at.path}.{kind}", "may not specify more than 1 handler type")
    action, place = handler[kinds[0]], At(f"{at.path}.{kinds[0]}")
    grace = at.above[1].get("terminationGracePeriodSeconds")
    match kinds[0]:
        case "exec":
            if not action.get("command"):
                yield required(f"{place.path}.command")
        case "httpGet":
            yield from check("core_v1.HTTPGetAction", action, place)
        case "sleep":
            if grace is not None and not 0 <= action["seconds"] <= grace:
                detail = f"must be non-negative and less than terminationGracePeriodSeconds ({grace})"
                yield invalid(place.path, action["seconds"], detail)
        case _:
            yield from port_or_name(action.get("port", 0), At(f"{place.path}.port"))


def header(header: Object, at: At) -> Iterator[FieldError]:
    """A header of an HTTP request."""
    if not re.fullmatch(_HEADER, header.get("name", "")):
        yield invalid(at.path, header.get("name", ""), _HEADER_RULE)

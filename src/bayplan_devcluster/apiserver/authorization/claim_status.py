"""Permissions for parts of a ResourceClaim's status, in addition to that for `resourceclaims/status`: a scheduler needs
`resourceclaims/binding` for allocations and reservations, and a driver needs `resourceclaims/driver` for the status of
its own devices. The server has no subresources of these names.

Mirrors AuthorizedForBinding and AuthorizedForDeviceStatus in pkg/registry/resource/utils.go of Kubernetes.
"""

from __future__ import annotations

from collections.abc import Iterator

from bayplan.core.api import field_errors
from bayplan.core.api.field_errors import FieldError
from bayplan.core.api.kinds import RESOURCE_CLAIM
from bayplan.core.api.status import StatusError, invalid
from bayplan_devcluster.apiserver.authorization.access import Access
from bayplan_devcluster.apiserver.authorization.attributes import Attributes, forbidden_request
from bayplan_devcluster.apiserver.authorization.users import User, service_account_of
from bayplan_devcluster.apiserver.http.request_info import RequestInfo
from bayplan_devcluster.apiserver.schema import Object
from bayplan_devcluster.apiserver.storage.resource import Resource

ASSOCIATED_NODE, ARBITRARY_NODE = "associated-node:", "arbitrary-node:"
"""Prefixes of the verbs of drivers: a driver on the node of the claim may be restricted to claims of that node."""
_NODE_NAME = "authentication.kubernetes.io/node-name"


def check_claim_status(
    access: Access, user: User, info: RequestInfo, resource: Resource, new: Object, old: Object
) -> None:
    """Raises 422 if an update of a claim's status changes fields that the user has no permission for."""
    if access.rbac is None or info.subresource != "status" or resource.kind.resource != RESOURCE_CLAIM.resource:
        return
    before, after = old.get("status") or {}, new.get("status") or {}
    errors = [*_binding_errors(access, user, info, before, after), *_driver_errors(access, user, info, before, after)]
    if errors:
        raise invalid(resource.kind, info.name, errors)


def _binding_errors(
    access: Access, user: User, info: RequestInfo, before: Object, after: Object
) -> Iterator[FieldError]:
    if all((after.get(field) or None) == (before.get(field) or None) for field in ("allocation", "reservedFor")):
        return
    try:
        access.check(user, Attributes(info.verb, info.group, info.resource, "binding"))
    except StatusError as refused:
        needed = f'resource="{info.resource}/binding", verb="{info.verb}" permission'
        why = f"changing status.allocation or status.reservedFor requires {needed}: {refused.message}"
        yield field_errors.forbidden("status.allocation", why)


def _driver_errors(
    access: Access, user: User, info: RequestInfo, before: Object, after: Object
) -> Iterator[FieldError]:
    """Removing an allocation removes the status of its devices, which needs no permission."""
    if not after.get("allocation"):
        return
    node = _node_of(after["allocation"])
    on_node = service_account_of(user.name) is not None and list(user.extra.get(_NODE_NAME, ())) == [node]
    verbs = [prefix + info.verb for prefix in (*([ASSOCIATED_NODE] if on_node else []), ARBITRARY_NODE)]
    for driver in sorted(_changed_drivers(before, after)):
        attributes = [Attributes(verb, info.group, info.resource, "driver", info.namespace, driver) for verb in verbs]
        verdicts = [access.authorize(user, each) for each in attributes]
        if not any(verdict.allowed for verdict in verdicts):
            refused = forbidden_request(user, attributes[0], verdicts[0].reason)
            needed = f'resource="{info.resource}/driver", verb="[{" ".join(verbs)}]" permission'
            yield field_errors.forbidden(
                "status.devices", f"changing status.devices requires {needed}: {refused.message}"
            )


def _changed_drivers(before: Object, after: Object) -> set[str]:
    """The drivers of the devices whose status was changed, added or removed."""
    old, new = ({_device(each): each for each in status.get("devices") or ()} for status in (before, after))
    return {key[0] for key in old.keys() | new.keys() if old.get(key) != new.get(key)}


def _device(status: Object) -> tuple[str, ...]:
    return tuple(status.get(field) or "" for field in ("driver", "pool", "device", "shareID"))


def _node_of(allocation: Object) -> str:
    """The only node that an allocation is available on, "" if there may be several."""
    match (allocation.get("nodeSelector") or {}).get("nodeSelectorTerms"):
        case [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}], **others}]:
            return "" if others.get("matchExpressions") else str(name)
        case _:
            return ""

"""Which kinds a client may not list or watch, and the RBAC objects that would allow it.

The API server is asked (SelfSubjectAccessReview), so that a user sees all that is missing at once.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from bayplan.core.api.kinds import Kind
from bayplan.running.client.client import Client
from bayplan.running.client.errors import ApiError, ConfigError, TransportError

VERBS = ("list", "watch")
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"

Missing = Mapping[Kind, tuple[str, ...]]
"""The verbs that are denied, by kind."""


async def missing_permissions(client: Client, kinds: Iterable[Kind]) -> Missing:
    """Ask the API server which kinds this client may not list or watch. Empty if it doesn't reply."""
    asked = [(kind, verb) for kind in kinds for verb in VERBS]
    try:
        allowed = await asyncio.gather(*(_is_allowed(client, kind, verb) for kind, verb in asked))
    except (ApiError, TransportError, ConfigError, msgspec.MsgspecError):
        return {}
    missing: dict[Kind, tuple[str, ...]] = {}
    for (kind, verb), granted in zip(asked, allowed, strict=True):
        if not granted:
            missing[kind] = (*missing.get(kind, ()), verb)
    return missing


def denied_by(errors: Mapping[Kind, ApiError]) -> Missing:
    """The permissions that the messages of denied requests name; both verbs where a message names none."""
    found = {kind: re.search(r"cannot (list|watch) resource", error.message) for kind, error in errors.items()}
    return {kind: (match[1],) if match else VERBS for kind, match in found.items()}


def grant(missing: Missing, user: str) -> Iterator[dict[str, Any]]:
    """The ClusterRole that allows what is missing, and its binding to a user or a service account."""
    name = re.sub(r"[^\w.:-]", "-", user.rpartition(":")[2]) + ":missing-permissions"
    resources: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for kind, verbs in missing.items():
        resources.setdefault((kind.group, verbs), []).append(kind.plural)
    rules = [
        {"apiGroups": [group], "resources": sorted(plurals), "verbs": list(verbs)}
        for (group, verbs), plurals in sorted(resources.items())
    ]
    group = "rbac.authorization.k8s.io"
    subject = {"kind": "User", "name": user, "apiGroup": group}
    if (account := re.fullmatch(r"system:serviceaccount:([^:]+):([^:]+)", user)) is not None:
        subject = {"kind": "ServiceAccount", "namespace": account[1], "name": account[2]}
    head = {"apiVersion": f"{group}/v1", "kind": "ClusterRole", "metadata": {"name": name}}
    yield {**head, "rules": rules}
    reference = {"apiGroup": group, "kind": "ClusterRole", "name": name}
    yield {**head, "kind": "ClusterRoleBinding", "roleRef": reference, "subjects": [subject]}


async def _is_allowed(client: Client, kind: Kind, verb: str) -> bool:
    attributes = {"group": kind.group, "version": kind.version, "resource": kind.plural, "verb": verb}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    reply = await client.request("POST", REVIEWS, body=msgspec.json.encode(review))
    return msgspec.json.decode(reply, type=_Review).status.allowed


class _Status(msgspec.Struct):
    allowed: bool


class _Review(msgspec.Struct):
    status: _Status

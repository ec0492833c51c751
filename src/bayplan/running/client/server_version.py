"""Which version of Kubernetes an API server has."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import msgspec

from bayplan.core.versions import version_text
from bayplan.running.client.client import Client
from bayplan.running.client.errors import ApiError, TransportError


async def server_version(client: Client) -> str:
    """Ask an API server for its version, such as v1.36.2-eks-abc; "" if it doesn't answer, or not with a version."""
    info: Any = None
    with suppress(ApiError, TransportError, msgspec.DecodeError):
        info = msgspec.json.decode(await client.request("GET", "/version"))
    return version_text(info)

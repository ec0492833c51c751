"""Which version of a kind a server has, for those that follow a cluster of any Kubernetes version."""

from __future__ import annotations

from bayplan.api.kinds import Kind
from bayplan.client import ApiError, Client, ConfigError, TransportError
from bayplan.insight.sources.older_versions import OLDER


async def served_version(client: Client, kind: Kind) -> Kind:
    """The newest version of a kind that the server has, or the kind itself if it has none or can't be asked."""
    versions = (kind, *OLDER.get(kind, ()))
    for version in versions[1:] and versions:
        try:
            async for _ in client.pages(version, limit=1, decode=bytes):
                return version
        except ApiError as error:
            if error.status != 404:
                break
        except (TransportError, ConfigError):
            break  # the watch reports it
    return kind

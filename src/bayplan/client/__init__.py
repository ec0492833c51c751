"""A Kubernetes API client: transports, credentials, typed verbs and reflectors. Usable without the rest of Bayplan."""

from typing import TYPE_CHECKING

from bayplan.lazy import lazily

if TYPE_CHECKING:
    from bayplan.client.access import ClusterAccess
    from bayplan.client.answers import Page, WatchEvent
    from bayplan.client.backoff import Backoff
    from bayplan.client.client import Client, PatchType
    from bayplan.client.connection import connect
    from bayplan.client.errors import ApiError, ConfigError, TransportError
    from bayplan.client.http import HttpClient
    from bayplan.client.kubeconfig import load_kubeconfig
    from bayplan.client.reflector import Handler, Reflector
    from bayplan.client.store import Store
    from bayplan.client.transport import Request, Response, Transport

__all__ = [
    "ApiError",
    "Backoff",
    "Client",
    "ClusterAccess",
    "ConfigError",
    "Handler",
    "HttpClient",
    "Page",
    "PatchType",
    "Reflector",
    "Request",
    "Response",
    "Store",
    "Transport",
    "TransportError",
    "WatchEvent",
    "connect",
    "load_kubeconfig",
]

_HOMES = {
    "access": ("ClusterAccess",),
    "answers": ("Page", "WatchEvent"),
    "backoff": ("Backoff",),
    "client": ("Client", "PatchType"),
    "connection": ("connect",),
    "errors": ("ApiError", "ConfigError", "TransportError"),
    "http": ("HttpClient",),
    "kubeconfig": ("load_kubeconfig",),
    "reflector": ("Handler", "Reflector"),
    "store": ("Store",),
    "transport": ("Request", "Response", "Transport"),
}
__getattr__ = lazily(__name__, {name: home for home, names in _HOMES.items() for name in names})
"""aiohttp and the kubeconfig reader take longer than a short command."""

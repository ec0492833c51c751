"""A Kubernetes API client: transport, credentials, typed verbs and reflectors. Public, and usable on its own."""

from typing import TYPE_CHECKING

from bayplan.api import kinds
from bayplan.lazy import lazily

if TYPE_CHECKING:
    from bayplan.api.kinds import Kind, kind_of
    from bayplan.client.access import ClusterAccess
    from bayplan.client.answers import Page, WatchEvent
    from bayplan.client.backoff import Backoff
    from bayplan.client.client import Client, PatchType
    from bayplan.client.connection import connect
    from bayplan.client.errors import ApiError, ConfigError, TransportError
    from bayplan.client.http import HttpClient
    from bayplan.client.kubeconfig import load_kubeconfig
    from bayplan.client.list_watch import ListWatch, Sink
    from bayplan.client.reflector import Handler, Reflector

__all__ = [
    "ApiError",
    "Backoff",
    "Client",
    "ClusterAccess",
    "ConfigError",
    "Handler",
    "HttpClient",
    "Kind",
    "ListWatch",
    "Page",
    "PatchType",
    "Reflector",
    "Sink",
    "TransportError",
    "WatchEvent",
    "connect",
    "kind_of",
    "kinds",
    "load_kubeconfig",
]

__getattr__, __dir__ = lazily(__name__)
"""aiohttp and the kubeconfig reader take longer to import than a short command takes to run."""

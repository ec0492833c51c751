"""A Kubernetes API client: transport, credentials, typed verbs and reflectors. Public, and usable on its own."""

from typing import TYPE_CHECKING

from bayplan.core.api import kinds
from bayplan.foundations.lazy import lazily

if TYPE_CHECKING:
    from bayplan.core.api.kinds import Kind, kind_of
    from bayplan.running.client.access import ClusterAccess
    from bayplan.running.client.answers import Page, WatchEvent
    from bayplan.running.client.backoff import Backoff
    from bayplan.running.client.client import Client, PatchType
    from bayplan.running.client.connection import connect
    from bayplan.running.client.errors import ApiError, ConfigError, TransportError
    from bayplan.running.client.http import HttpClient
    from bayplan.running.client.kubeconfig import load_kubeconfig
    from bayplan.running.client.list_watch import ListWatch, Reports, Sink
    from bayplan.running.client.pace import Pace
    from bayplan.running.client.reflector import Handler, Reflector

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
    "Pace",
    "Page",
    "PatchType",
    "Reflector",
    "Reports",
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

"""The parts of the server that carry out requests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from bayplan_devcluster.apiserver.authorization.access import Access
from bayplan_devcluster.apiserver.endpoints.request import Request
from bayplan_devcluster.apiserver.schema import Object
from bayplan_devcluster.apiserver.storage.resource import Resource
from bayplan_devcluster.apiserver.storage.rest_storage import RestStorage
from bayplan_devcluster.apiserver.tables.columns import Columns


@dataclass(frozen=True, slots=True)
class Backend:
    """The objects of one server, and the access control for them."""

    storage: RestStorage
    access: Access


Verb = Callable[[Backend, Resource, Request], Object]
"""Carries out a request for a subresource, and returns the object in the response. Raises StatusError."""


@dataclass(frozen=True, slots=True)
class Subresource:
    """A subresource's verbs, and its kind in discovery. `api_version` is "" for the version of the resource."""

    verbs: Mapping[str, Verb]
    kind: str
    api_version: str = ""
    table: Columns | None = None
    """The columns of its objects, if they are not those of the resource."""

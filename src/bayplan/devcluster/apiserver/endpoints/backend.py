"""The parts of the server that carry out requests."""

from __future__ import annotations

from dataclasses import dataclass

from bayplan.devcluster.apiserver.authorization.access import Access
from bayplan.devcluster.apiserver.storage.rest_storage import RestStorage


@dataclass(frozen=True, slots=True)
class Backend:
    """The objects of one server, and the access control for them."""

    storage: RestStorage
    access: Access

"""What requests are carried out on."""

from __future__ import annotations

from dataclasses import dataclass

from bayplan.devcluster.apiserver.authorization.access import Access
from bayplan.devcluster.apiserver.storage.rest_storage import RestStorage


@dataclass(frozen=True, slots=True)
class Backend:
    """The objects of one server, and who may do what with them."""

    storage: RestStorage
    access: Access

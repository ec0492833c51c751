"""The embedded API server: storage, verbs, watches, admission and discovery, faithful to kube-apiserver 1.36 and 1.37.

A request goes through `http`, `authorization` and `endpoints` to `storage`, which applies the strategies of `kinds`.
All state is in memory. Of the core, the package imports only `api`, `devices` and `versions`, so it cannot share the
mistakes of its clients.

Other packages use `endpoints`, `http`, `storage`.
"""

from typing import TYPE_CHECKING

from bayplan.foundations.lazy import lazily

if TYPE_CHECKING:
    from bayplan_devcluster.apiserver.authorization.users import ADMIN, User
    from bayplan_devcluster.apiserver.faults import Fault, Faults
    from bayplan_devcluster.apiserver.http.address import Address
    from bayplan_devcluster.apiserver.http.messages import ConnectionDropped, HttpRequest, HttpResponse
    from bayplan_devcluster.apiserver.http.tls import Tls
    from bayplan_devcluster.apiserver.server import ApiServer

__all__ = [
    "ADMIN",
    "Address",
    "ApiServer",
    "ConnectionDropped",
    "Fault",
    "Faults",
    "HttpRequest",
    "HttpResponse",
    "Tls",
    "User",
]

__getattr__, __dir__ = lazily(__name__)
"""Questions about clusters use small parts of the package."""

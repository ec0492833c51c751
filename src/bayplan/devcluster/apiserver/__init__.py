"""The embedded API server: storage, verbs, watch, admission and discovery, faithful to kube-apiserver 1.36.

Imports `api` alone, so that it cannot share the mistakes of its clients. State lives in memory.
"""

from bayplan.devcluster.apiserver.authorization.users import ADMIN, User
from bayplan.devcluster.apiserver.clock import Clock, SystemClock
from bayplan.devcluster.apiserver.faults import Fault, Faults
from bayplan.devcluster.apiserver.http.messages import ConnectionDropped, HttpRequest, HttpResponse
from bayplan.devcluster.apiserver.http.tls import Tls
from bayplan.devcluster.apiserver.server import ApiServer

__all__ = [
    "ADMIN",
    "ApiServer",
    "Clock",
    "ConnectionDropped",
    "Fault",
    "Faults",
    "HttpRequest",
    "HttpResponse",
    "SystemClock",
    "Tls",
    "User",
]

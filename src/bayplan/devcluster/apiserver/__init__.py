"""The embedded API server: storage, verbs, watch, admission and discovery, faithful to kube-apiserver 1.36.

Imports `api` alone, so that it cannot share the mistakes of its clients. State lives in memory.
"""

from bayplan.devcluster.apiserver.authorization.users import ADMIN, User
from bayplan.devcluster.apiserver.clock import Clock, SystemClock
from bayplan.devcluster.apiserver.faults import Fault, Faults
from bayplan.devcluster.apiserver.server import ApiServer
from bayplan.devcluster.apiserver.tls import Tls

__all__ = ["ADMIN", "ApiServer", "Clock", "Fault", "Faults", "SystemClock", "Tls", "User"]

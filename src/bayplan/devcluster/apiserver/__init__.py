"""The embedded API server: storage, verbs, watch, admission and discovery, faithful to kube-apiserver 1.36.

Imports only `api` and `clock`, so that it cannot share its clients' mistakes. State lives in memory.
"""

from bayplan.devcluster.apiserver.authorization.users import ADMIN, User
from bayplan.devcluster.apiserver.faults import Fault, Faults
from bayplan.devcluster.apiserver.server import ApiServer
from bayplan.devcluster.apiserver.tls import Tls

__all__ = ["ADMIN", "ApiServer", "Fault", "Faults", "Tls", "User"]

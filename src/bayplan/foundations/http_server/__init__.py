"""The HTTP server behind all ports: aiohttp, with limits on connections, times and bodies.

Start reading at `server.py`. It imports no other package of Bayplan.
"""

from typing import TYPE_CHECKING

from bayplan.foundations.lazy import lazily

if TYPE_CHECKING:
    from bayplan.foundations.http_server.bodies import BodyError
    from bayplan.foundations.http_server.connections import SERVER
    from bayplan.foundations.http_server.hosts import HostNames
    from bayplan.foundations.http_server.limits import Limits
    from bayplan.foundations.http_server.metrics import metrics_served
    from bayplan.foundations.http_server.refusals import Refusals, quoted
    from bayplan.foundations.http_server.server import HttpServer, bind

__all__ = ["SERVER", "BodyError", "HostNames", "HttpServer", "Limits", "Refusals", "bind", "metrics_served", "quoted"]

__getattr__, __dir__ = lazily(__name__)

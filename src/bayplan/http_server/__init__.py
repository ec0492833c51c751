"""The HTTP server behind all ports: aiohttp, with limits on what clients can use.

Start reading at `server.py`.
"""

from bayplan.http_server.bodies import BodyError
from bayplan.http_server.connections import SERVER
from bayplan.http_server.hosts import HostNames
from bayplan.http_server.limits import Limits
from bayplan.http_server.refusals import Refusals, quoted
from bayplan.http_server.server import HttpServer, bind

__all__ = ["SERVER", "BodyError", "HostNames", "HttpServer", "Limits", "Refusals", "bind", "quoted"]

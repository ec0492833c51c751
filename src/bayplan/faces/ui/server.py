"""Serves the page: the web server, the source and the worker thread, until the caller stops it.

The event loop has the web server and the watches; only the worker thread touches the World.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from bayplan.answers.insight.insight import Insight
from bayplan.faces.asking.asking import Asking
from bayplan.faces.asking.running import host_of, running
from bayplan.faces.asking.sources import Source
from bayplan.faces.asking.worker import LONGEST
from bayplan.faces.ui.app import Application
from bayplan.faces.ui.guard import PARAMETER
from bayplan.faces.ui.moments import MomentSources
from bayplan.faces.ui.routes import ROUTES
from bayplan.faces.ui.shadow_file import ShadowFile
from bayplan.foundations.http_server import Limits, bind


@asynccontextmanager
async def serving(
    source: Source,
    insight: Insight,
    *,
    address: str = "127.0.0.1",
    port: int = 0,
    token: str = "",
    limits: Limits = Limits(),  # noqa: B008 - immutable
    longest: float = LONGEST,
    moments: MomentSources | None = None,
    shadow: ShadowFile | None = None,
) -> AsyncIterator[str]:
    """Serve the page of a source in the context, and follow the source. Yields the URL, with the token.

    `insight`: has the scheduler's configuration; only the page uses it from now on. `port`: 0 for a free one. `token`:
    by default a new one. `longest`: the most seconds of a question. `moments`: those of a history or a recording, which
    the page shows; they are closed at the end. `shadow`: the file of a shadow to show. Raises OSError if the
    address can't be used.
    """
    token = token or secrets.token_urlsafe(24)
    listeners = await bind(address, port)
    port = listeners[0].getsockname()[1]
    asking = Asking(source, insight, longest)
    # Cookies are shared by all ports of a host, so that each server needs a name of its own.
    page = Application(
        asking, ROUTES, token, address, cookie=f"bayplan-{port}", limits=limits, moments=moments, shadow=shadow
    )
    try:
        async with running(asking, page.http, listeners):
            yield f"http://{host_of(address)}:{port}/?{PARAMETER}={token}"
    finally:
        if moments is not None:
            moments.close()

"""Requests of plugins to the API server that fail: they are no bugs of the plugin.

Such a failure is told in the server's words, without a traceback, and may leave a write whose outcome is unknown.
"""

from __future__ import annotations

from bayplan.core.framework.status import PluginError, failed_in
from bayplan.running.client.errors import ApiError, ConfigError, TransportError


def is_request(error: BaseException) -> bool:
    """Return whether a plugin failed only because its request to the API server did."""
    return isinstance(error, PluginError) and isinstance(error.__cause__, ApiError | TransportError | ConfigError)


def may_have_succeeded(error: PluginError) -> bool:
    """Return whether the request may have had its effect nevertheless: its response is lost, or a repetition's."""
    cause = error.__cause__
    return isinstance(cause, TransportError) or (isinstance(cause, ApiError) and cause.status != 404)


def problem_of(error: Exception) -> str:
    """Return what failed, in upstream's words: of a request, only what the server says about it."""
    cause = error.__cause__
    if not isinstance(error, PluginError) or not is_request(error):
        return str(error)
    said = cause.message if isinstance(cause, ApiError) else ""
    return failed_in(error.plugin, error.point, said or str(cause))

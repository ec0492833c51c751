"""The option of commands that serve HTTP which says what Host headers to accept."""

from __future__ import annotations

import click

from bayplan.faces.cli.shared_options import Checked
from bayplan.foundations.lazy import on_use

with on_use():
    from bayplan.foundations import http_server


def _host_patterns(value: str) -> str:
    """Regular expressions, separated by commas."""
    http_server.HostNames("", value)
    return value


accept_hosts_option = click.option(
    "--accept-hosts",
    type=Checked("patterns", _host_patterns),
    help="Regular expressions for the names in Host headers to accept besides the address, separated by commas, as in "
    "kubectl proxy. Default: on a loopback address only localhost and loopback addresses, otherwise all.",
)

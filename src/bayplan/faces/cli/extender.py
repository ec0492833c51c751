"""`bayplan extender`: serves plugins to another scheduler over HTTP."""

from __future__ import annotations

from typing import Any

import click

from bayplan.faces.cli.hosts_option import accept_hosts_option
from bayplan.faces.cli.run_logging import DEBUG_LEVEL, INFO_LEVEL, configure_logging
from bayplan.faces.cli.shared_options import YAML_FILE, Checked, plugin_option
from bayplan.foundations.lazy import on_use
from bayplan.running.extender.paths import VERBS

with on_use():
    from bayplan.faces.cli import extender_serving


def _path(value: str) -> tuple[str, str]:
    """The path of a verb, as in filter=/predicates."""
    verb, _, path = value.partition("=")
    if verb not in VERBS or not path.strip("/"):
        raise ValueError(f"{value!r} is not VERB=PATH with one of the verbs {', '.join(VERBS)}")
    return verb, f"/{path.lstrip('/')}"


@click.command()
@plugin_option("Your own plugins. May be repeated.")
@click.option(
    "--config",
    type=YAML_FILE,
    help="A KubeSchedulerConfiguration with the plugins to serve, their weights and arguments. Default: all plugins of "
    "--plugin. In-tree plugins are served only if the configuration enables them by name.",
)
@click.option(
    "--kubeconfig",
    type=click.Path(),
    help="Path to a kubeconfig. With it, the extender watches nodes and pods itself, supports nodeCacheCapable, and "
    "can bind pods.",
)
@click.option("--context", help="Context of the kubeconfig. Default: the current context.")
@click.option(
    "--watch",
    is_flag=True,
    help="Like --kubeconfig, with KUBECONFIG, ~/.kube/config, or the service account of the pod.",
)
@click.option(
    "--host", default="127.0.0.1", show_default=True, help="Address to serve on. Use 0.0.0.0 behind a Service."
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8888,
    show_default=True,
    help="Port to serve on; 0 means a free one.",
)
@click.option(
    "--path",
    "paths",
    multiple=True,
    type=Checked("path", _path),
    metavar="VERB=PATH",
    help=f"The path of a verb ({', '.join(VERBS)}), if it isn't /VERB. May be repeated.",
)
@click.option("--tls-cert-file", type=click.Path(), help="Serve HTTPS with this certificate.")
@click.option("--tls-private-key-file", type=click.Path(), help="The private key of the certificate.")
@click.option("--client-ca-file", type=click.Path(), help="Require client certificates from this CA.")
@accept_hosts_option
@click.option("-v", "--verbose", "verbosity", count=True, help="Log the result of each request; -vv logs everything.")
def extender(plugins: tuple[str, ...], config: str | None, verbosity: int, **others: Any) -> None:
    """Serve plugins to another scheduler, such as the stock kube-scheduler, as an HTTP extender.

    Prints the part to add to that scheduler's configuration. SIGTERM or Ctrl-C finishes open requests, then exits. A
    second one exits at once.
    """
    if not plugins and config is None:
        raise click.UsageError("--plugin or --config is required")
    configure_logging({0: 0, 1: INFO_LEVEL}.get(verbosity, DEBUG_LEVEL))

    extender_serving.serve(plugins, config, extender_serving.ExtenderOptions(**others))

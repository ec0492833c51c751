"""`bayplan extender`: plugins for a scheduler that is not Bayplan, over HTTP."""

from __future__ import annotations

import click

from bayplan.cli.run_logging import DEBUG_LEVEL, INFO_LEVEL, configure_logging
from bayplan.cli.run_options import PYTHON_FILE, YAML_FILE
from bayplan.extender.paths import VERBS


class _Path(click.ParamType[tuple[str, str]]):
    """Where a verb is served, as in filter=/predicates."""

    name = "path"

    def convert(
        self, value: str | tuple[str, str], param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value
        verb, _, path = value.partition("=")
        if verb not in VERBS or not path.strip("/"):
            self.fail(f"{value!r} is not VERB=PATH with one of the verbs {', '.join(VERBS)}", param, ctx)
        return verb, f"/{path.lstrip('/')}"


@click.command()
@click.option(
    "--plugin",
    "plugins",
    multiple=True,
    metavar="FILE|MODULE[:NAME]",
    type=PYTHON_FILE,
    help="A policy of your own; may be repeated.",
)
@click.option(
    "--config",
    type=YAML_FILE,
    help="A KubeSchedulerConfiguration: its profiles say which plugins are asked, with which weights and arguments. "
    "Default: all of --plugin. In-tree plugins are asked only where it enables them by name.",
)
@click.option(
    "--kubeconfig",
    type=click.Path(),
    help="Path to a kubeconfig. With it, the extender watches nodes and pods itself, takes the names of nodes for an "
    "answer (nodeCacheCapable), and can bind.",
)
@click.option("--context", help="Context of the kubeconfig. Default: its current one.")
@click.option(
    "--watch",
    is_flag=True,
    help="As --kubeconfig, with KUBECONFIG, ~/.kube/config, or the pod's service account.",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to serve on; 0.0.0.0 behind a Service.")
@click.option("--port", type=click.IntRange(0, 65535), default=8888, show_default=True, help="Port; 0 is a free one.")
@click.option(
    "--path",
    "paths",
    multiple=True,
    type=_Path(),
    metavar="VERB=PATH",
    help=f"Serve {', '.join(VERBS)} elsewhere than at /VERB; may be repeated.",
)
@click.option("--tls-cert-file", type=click.Path(), help="Serve HTTPS with this certificate.")
@click.option("--tls-private-key-file", type=click.Path(), help="The certificate's key.")
@click.option("--client-ca-file", type=click.Path(), help="Answer only clients with a certificate of this authority.")
@click.option(
    "-v", "--verbose", "verbosity", count=True, help="Say what becomes of every request; -vv says everything."
)
def extender(
    plugins: tuple[str, ...],
    config: str | None,
    kubeconfig: str | None,
    context: str | None,
    watch: bool,
    host: str,
    port: int,
    paths: tuple[tuple[str, str], ...],
    tls_cert_file: str | None,
    tls_private_key_file: str | None,
    client_ca_file: str | None,
    verbosity: int,
) -> None:
    """Lend plugins to another scheduler, the stock kube-scheduler above all, which asks for them over HTTP.

    It prints what to put into that scheduler's configuration. SIGTERM or Ctrl-C ends it when open requests are
    answered; a second one ends it at once.
    """
    if not plugins and config is None:
        raise click.UsageError("give a --plugin, or a --config")
    configure_logging({0: 0, 1: INFO_LEVEL}.get(verbosity, DEBUG_LEVEL))
    from bayplan.cli.extender_serving import Connection, Files, serve

    files = Files(tls_cert_file, tls_private_key_file, client_ca_file)
    serve(plugins, config, Connection(kubeconfig, context, watch), host, port, dict(paths), files)

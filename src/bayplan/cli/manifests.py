"""`bayplan manifests`: the objects that run Bayplan in a cluster, for kubectl apply."""

from __future__ import annotations

import re
from pathlib import Path

import click

from bayplan.cli.run_options import PYTHON_FILE, YAML_FILE

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


class _Name(click.ParamType[str]):
    """A name that objects and label values may have."""

    name = "name"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if not _LABEL.fullmatch(value):
            self.fail(
                f"{value!r}: expected at most 63 of a-z, 0-9 and '-', with a letter or digit at both ends", param, ctx
            )
        return value


class _Image(click.ParamType[str]):
    """An image reference."""

    name = "image"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if not value or re.search(r"[\s\"'\\]", value):
            self.fail(f"{value!r} is no image, as in registry.example/bayplan:0.1.0", param, ctx)
        return value


@click.command()
@click.option("--image", required=True, type=_Image(), help="The image, as in registry.example/bayplan:0.1.0.")
@click.option(
    "--name", default="bayplan-scheduler", show_default=True, type=_Name(), help="What all the objects are called."
)
@click.option("--namespace", default="kube-system", show_default=True, type=_Name(), help="Where they are to be.")
@click.option(
    "--scheduler-name", help="Schedule the pods whose spec.schedulerName is this. Default: --name, or as --config says."
)
@click.option("--config", type=YAML_FILE, metavar="FILE", help="A KubeSchedulerConfiguration; else one is made.")
@click.option(
    "--plugin",
    "plugins",
    multiple=True,
    metavar="FILE|MODULE[:NAME]",
    type=PYTHON_FILE,
    help="A policy of your own, whose file is deployed too, or a module that the image has; may be repeated.",
)
@click.option("--replicas", type=click.IntRange(1), default=2, show_default=True, help="How many; one of them decides.")
def manifests(
    image: str,
    name: str,
    namespace: str,
    scheduler_name: str | None,
    config: str | None,
    plugins: tuple[str, ...],
    replicas: int,
) -> None:
    """Print the objects that run Bayplan in a cluster: account, rights, configuration and Deployment.

    As one stream of YAML: `bayplan manifests --image IMAGE | kubectl apply -f -`.
    """
    from bayplan.cli.manifests_documents import Deployed, documents
    from bayplan.cli.manifests_files import UnusableFile, collect
    from bayplan.cli.manifests_text import stream
    from bayplan.config import ConfigurationError, PluginLoadError

    try:
        found = collect(
            Path(config) if config is not None else None,
            plugins,
            name=name,
            namespace=namespace,
            scheduler_name=scheduler_name,
            replicas=replicas,
        )
    except (UnusableFile, PluginLoadError) as error:
        click.echo(f"bayplan manifests: {error}", err=True)
        raise SystemExit(2) from None
    except ConfigurationError as error:
        click.echo(str(error), err=True)
        raise SystemExit(2) from None
    for warning in found.warnings:
        click.echo(warning, err=True)
    deployed = Deployed(
        image=image,
        name=name,
        namespace=namespace,
        replicas=replicas,
        lease=found.lease,
        files=found.files,
        arguments=tuple(found.arguments),
        pod_groups=found.pod_groups,
    )
    made_by = f"Made by bayplan manifests --image {image}"
    click.echo(stream(documents(deployed), made_by), nl=False)

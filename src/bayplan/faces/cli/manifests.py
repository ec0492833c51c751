"""`bayplan manifests`: prints the objects that run Bayplan in a cluster, for kubectl apply."""

from __future__ import annotations

import re
from pathlib import Path

import click

from bayplan.faces.cli.shared_options import YAML_FILE, Checked, plugin_option
from bayplan.foundations.lazy import on_use

with on_use():
    from bayplan.answers.snapshots import rights
    from bayplan.core.config import errors
    from bayplan.faces.cli import (
        manifests_documents,
        manifests_files,
        manifests_provisioning,
        manifests_recorder,
        manifests_shadow,
        manifests_text,
    )


_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


def _name(value: str) -> str:
    """A valid name for objects and label values."""
    if not _LABEL.fullmatch(value):
        rule = "expected at most 63 of a-z, 0-9 and '-', starting and ending with a letter or digit"
        raise ValueError(f"{value!r}: {rule}")
    return value


def _image(value: str) -> str:
    """An image reference."""
    if not value or re.search(r"[\s\"'\\]", value):
        raise ValueError(f"{value!r} is not an image such as registry.example/bayplan:0.2.0")
    return value


_NAME = Checked("name", _name)


def _print_insight(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    """Print the role for reading a cluster instead of the objects of a scheduler."""
    if not wanted:
        return

    header = f"Grant it with: kubectl create clusterrolebinding {rights.ROLE} --clusterrole {rights.ROLE} --user NAME"
    click.echo(
        manifests_text.stream(
            [("The rights to read a cluster, for `bayplan explain` and the like.", rights.cluster_role())], header
        ),
        nl=False,
    )
    ctx.exit()


@click.command()
@click.option(
    "--insight",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_insight,
    help="Print instead the read-only ClusterRole that `bayplan explain` and the like need.",
)
@click.option(
    "--shadow",
    is_flag=True,
    help="Print instead the objects that run `bayplan shadow`, which only reads: list and watch.",
)
@click.option(
    "--recorder",
    is_flag=True,
    help="Print instead the objects that run `bayplan record`, which only reads. Its image needs pyarrow.",
)
@click.option(
    "--provisioning-requests",
    is_flag=True,
    help="Let the scheduler also answer ProvisioningRequests: its flag, and the permissions.",
)
@click.option(
    "--provision",
    is_flag=True,
    help="Print instead the objects that run `bayplan provision`, which answers them beside another scheduler.",
)
@click.option(
    "--image", required=True, type=Checked("image", _image), help="The image, such as registry.example/bayplan:0.2.0."
)
@click.option(
    "--name",
    type=_NAME,
    help="Name of the objects. Default: bayplan-scheduler, bayplan-shadow, bayplan-recorder or bayplan-provision.",
)
@click.option("--namespace", default="kube-system", show_default=True, type=_NAME, help="Namespace of the objects.")
@click.option(
    "--scheduler-name", help="Schedule pods with this spec.schedulerName. Default: that of --config, or --name."
)
@click.option(
    "--config",
    type=YAML_FILE,
    metavar="FILE",
    help="A KubeSchedulerConfiguration. Default: one with the default plugins and --plugin.",
)
@plugin_option("Your own plugins: a file, which is deployed too, or a module in the image. May be repeated.")
@click.option(
    "--replicas",
    type=click.IntRange(1),
    default=2,
    show_default=True,
    help="Number of replicas. One of them is the leader.",
)
def manifests(
    image: str,
    name: str | None,
    namespace: str,
    scheduler_name: str | None,
    config: str | None,
    plugins: tuple[str, ...],
    replicas: int,
    **wanted: bool,
) -> None:
    """Print the objects that run Bayplan in a cluster: service account, permissions, configuration and Deployment.

    The output is a stream of YAML documents: `bayplan manifests --image IMAGE | kubectl apply -f -`.
    """
    if sum(wanted.values()) > 1:
        raise click.UsageError("--shadow, --recorder, --provision and --provisioning-requests exclude each other")
    shadow, provision = wanted["shadow"], wanted["provision"]
    if wanted["recorder"]:
        if scheduler_name or config or plugins:
            raise click.UsageError("--recorder takes only --image, --name and --namespace: it runs no scheduler")
        _print_recorder(image, name or manifests_recorder.RECORDER, namespace)
        return
    usual = manifests_provisioning.PROVISION if provision else "bayplan-scheduler"
    name = name or (manifests_shadow.SHADOW if shadow else usual)
    if provision and scheduler_name is None and config is None:
        scheduler_name = "default-scheduler"
    path = Path(config) if config is not None else None
    try:
        if shadow:
            found, kinds = manifests_shadow.collect_shadow(
                path, plugins, [] if scheduler_name is None else [scheduler_name]
            )
        else:
            found = manifests_files.collect(
                path, plugins, name=name, namespace=namespace, scheduler_name=scheduler_name, replicas=replicas
            )
    except (manifests_files.UnusableFile, errors.PluginLoadError) as error:
        click.echo(f"bayplan manifests: {error}", err=True)
        raise SystemExit(2) from None
    except errors.ConfigurationError as error:
        click.echo(str(error), err=True)
        raise SystemExit(2) from None
    for warning in found.warnings:
        click.echo(warning, err=True)
    if provision and found.lease is not None:
        found.lease = (found.lease[0], name)
        found.arguments.append(f"--leader-elect-resource-name={name}")
    deployed = manifests_documents.Deployed(
        image=image,
        name=name,
        namespace=namespace,
        replicas=replicas,
        lease=found.lease,
        files=found.files,
        arguments=(*found.arguments, *(["--provisioning-requests"] if wanted["provisioning_requests"] else ())),
        rules=found.rules if not provision else (),
        definitions=found.definitions if not provision else (),
        provisioning=manifests_provisioning.rules(found.configuration, alone=provision)
        if provision or wanted["provisioning_requests"]
        else (),
        alone=provision,
    )
    what = "--shadow " if shadow else "--provision " if provision else ""
    more = "--provisioning-requests " if wanted["provisioning_requests"] else ""
    header = f"Generated by: bayplan manifests {what}{more}--image {image}"
    objects = manifests_shadow.shadow_documents(deployed, kinds) if shadow else manifests_documents.documents(deployed)
    click.echo(manifests_text.stream(objects, header), nl=False)


def _print_recorder(image: str, name: str, namespace: str) -> None:
    deployed = manifests_documents.Deployed(image=image, name=name, namespace=namespace, lease=None)
    header = f"Generated by: bayplan manifests --recorder --image {image}"
    click.echo(manifests_text.stream(manifests_recorder.recorder_documents(deployed), header), nl=False)

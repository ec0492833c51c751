"""The options about provisioning requests, of `bayplan run` and `bayplan provision`."""

from __future__ import annotations

import click

from bayplan.core.api.names import name_errors
from bayplan.faces.cli.shared_options import Checked
from bayplan.running.provisioning.options import CHECK_CAPACITY, ProvisioningOptions


def _class_name(value: str) -> str:
    """A valid provisioningClassName."""
    if name_errors(value, "subdomain"):
        raise ValueError(f"{value!r} is not the name of a class such as {CHECK_CAPACITY}")
    return value


provisioning_class_option = click.option(
    "--provisioning-class",
    "provisioning_classes",
    multiple=True,
    type=Checked("class", _class_name),
    metavar="NAME",
    help=f"Answer requests with this provisioningClassName. May be repeated. Default: {CHECK_CAPACITY}.",
)


def provisioning_of(classes: tuple[str, ...], *, alone: bool = False) -> ProvisioningOptions:
    """How requests are answered. `alone`: see ProvisioningOptions."""
    return ProvisioningOptions(classes or (CHECK_CAPACITY,), alone=alone)

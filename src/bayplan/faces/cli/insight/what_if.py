"""`bayplan what-if`: which pods change after changes of the cluster or the scheduler."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from bayplan.faces.cli.insight.answering import answer, yes_option
from bayplan.faces.cli.insight.cluster_options import AskedCluster, Command, comparing_options
from bayplan.faces.cli.insight.fit import documents_in
from bayplan.faces.cli.shared_options import FilesOfKind
from bayplan.foundations.lazy import on_use

with on_use():
    from bayplan import insight


def _many(name: str, field: str, metavar: str, text: str, **others: Any) -> Callable[[Command], Command]:
    return click.option(name, field, multiple=True, metavar=metavar, help=text, **others)


@click.command("what-if")
@_many("--remove-node", "remove_nodes", "NODE", "Remove a node; the controllers of its pods create them again.")
@_many("--add-nodes", "add_nodes", "[Nx]like:NODE", "Add nodes like another one, as in 3xlike:node-a.")
@_many("--uncordon", "uncordon", "NODE", "Uncordon a node.")
@_many("--cordon", "cordon", "NODE", "Cordon a node.")
@_many("--label", "labels", "NODE KEY=VALUE", "Label a node, as in node-a disk=ssd; disk- removes the label.", nargs=2)
@_many(
    "--taint",
    "taints",
    "NODE KEY=VALUE:EFFECT",
    "Taint a node, as in node-a gpu=yes:NoSchedule; gpu:NoSchedule- or gpu- removes the taint.",
    nargs=2,
)
@_many("--delete-pod", "delete_pods", "POD", "Delete a pod; its controller creates it again.")
@_many("--scale", "scale", "TYPE/NAME=N", "Scale a workload, as in deployment/web=40.")
@_many(
    "-f",
    "files",
    "PATH",
    "Add the objects of a manifest in YAML or JSON, of a folder of these, or - for standard input.",
    type=FilesOfKind("path", ""),
)
@yes_option
@click.option(
    "--replace-all",
    is_flag=True,
    help="Place all pods anew, but for those of DaemonSets, static pods and pods of other schedulers.",
)
@comparing_options(
    "The scheduler's configuration after the change. Given twice, the first one is the present one; by default, that "
    "has the default plugins."
)
def what_if(
    asked: AskedCluster, files: tuple[str, ...], *, yes: bool, replace_all: bool, **changes: tuple[Any, ...]
) -> None:
    """Show which pods would be placed, pending or on other nodes, and the utilization, after changes of the cluster.

    All options may be repeated and combined. Changes are made in the order of this list. NODE is a name, or a label
    selector such as pool=web. Both sides are compared after their pending pods have been attempted.
    """
    if not (files or asked.other or replace_all or any(changes.values())):
        raise click.UsageError("expected at least one change, such as --remove-node node-a")
    documents = list(documents_in(asked, files)) if files else []
    namespace = asked.in_namespace if changes["scale"] or changes["delete_pods"] else "default"
    found = insight.Changes(**changes, objects=documents, replace_all=replace_all, namespace=namespace)
    answer(asked, lambda insight, _, shown: insight.what_if(found, *(asked.other or ()), shown=shown), yes=yes)

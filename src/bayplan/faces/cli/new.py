"""`bayplan new`: creates a project for a scheduler with your own plugins."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from bayplan.faces.cli.new_project import Project, UnusableDirectory, UnusableName


@click.command()
@click.argument("name")
@click.option("--directory", type=click.Path(path_type=Path), help="The directory of the project. Default: ./NAME.")
@click.option(
    "--force", is_flag=True, help="Write into a directory that is not empty. Files with the same name are replaced."
)
def new(name: str, directory: Path | None, force: bool) -> None:
    """Create a project: plugins with tests, a configuration, an image and manifests.

    NAME is the name of the scheduler, which pods set as their schedulerName, such as my-scheduler.
    """
    try:
        project = Project(name)
        target = directory or Path(name)
        project.write(target, force=force)
    except (UnusableName, UnusableDirectory) as error:
        click.echo(f"bayplan new: {error}", err=True)
        raise SystemExit(2) from None
    click.echo(f"Created {project.name} in {target}:\n")
    described = project.described()
    width = max(map(len, described))
    for path, text in described.items():
        click.echo(f"  {path:{width}}  {text}")
    click.echo("\nNext steps:\n")
    for line in _next_steps(project, target):
        click.echo(f"  {line}")


def _next_steps(project: Project, target: Path) -> list[str]:
    plugins = f"src/{project.module}/plugins.py"
    return [
        f"cd {shlex.quote(str(target))}",
        "python3 -m venv .venv && . .venv/bin/activate",
        project.install,
        "python -m pytest",
        "bayplan cluster --port 8001 --kubeconfig dev.yaml               # leave it running; in another terminal:",
        f"bayplan run --kubeconfig dev.yaml --config scheduler.yaml --plugin {plugins} -v",
        "kubectl --kubeconfig dev.yaml apply -f pods.yaml",
    ]

"""`make image`: builds an image and says its digest, and its size over the base."""

from __future__ import annotations

from pathlib import Path

import click
from tools.commit import ROOT, Commit, read_commit
from tools.images.archive import Image, read_image
from tools.images.builders import Builder, Request, find_builder
from tools.problems import Problem, output

LIBRARIES = ("runtime", "history")
"""Which libraries an image may have: `history` is for `bayplan record`."""
FOLDER = "opt/bayplan"
"""What the first layer over the base has"""


def archive_of(folder: Path, version: str, libraries: str) -> Path:
    """Return where the archive of an image is."""
    kind = "" if libraries == "runtime" else f"-{libraries}"
    return folder / f"bayplan{kind}-{version}.oci.tar"


def build_image(builder: Builder, request: Request, commit: Commit) -> Image:
    """Build an image, and print what became of it."""
    builder.build(request, commit)
    image = read_image(request.archive)
    over = image.size_over(FOLDER) / 1e6
    click.echo(f"{request.name}: {image.digest}, {over:.1f} MB over its base")
    return image


@click.command("build")
@click.option(
    "--builder", metavar="COMMAND", help="docker, podman or buildah, with options. Default: the first that works."
)
@click.option("--registry", default="registry.example", show_default=True, help="Where the image belongs.")
@click.option("--tag", help="Default: the version.")
@click.option("--base", help="An image with Python 3.11.2 or newer. Default: that of the Dockerfile.")
@click.option("--libraries", type=click.Choice(LIBRARIES), default="runtime", show_default=True)
@click.option("--folder", type=click.Path(path_type=Path), default=ROOT / "dist", help="Where the archive is written.")
@click.option("--push", is_flag=True, help="Then push the image to the registry, with the rights that the builder has.")
def build(
    *, builder: str | None, registry: str, tag: str | None, base: str | None, libraries: str, folder: Path, push: bool
) -> None:
    """Build an image of the commit, and save it as an archive."""
    commit = read_commit()
    found = find_builder(builder)
    if found is None:
        raise Problem("needs docker (with its daemon), podman or buildah on the PATH: none of them works here")
    kind = "" if libraries == "runtime" else f"-{libraries}"
    name = f"{registry}/bayplan:{tag or commit.version}{kind}"
    archive = archive_of(folder, commit.version, libraries)
    build_image(found, Request(name, base or None, libraries, archive), commit)
    click.echo(f"saved in {archive}")
    if push:
        output([*found.command, "push", name])
        click.echo(f"pushed {name}")

"""`make release`: writes everything that is handed out, in one folder, or nothing."""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import click
from tools.commit import ROOT, Commit, check_release, read_commit
from tools.images.archive import read_image
from tools.images.builders import Builder, Request, find_builder
from tools.images.building import LIBRARIES, archive_of, build_image
from tools.problems import Problem
from tools.releases.bills import bill_of_image, bill_of_wheel
from tools.releases.binary import COMMAND, PLUGIN, build_binary, download
from tools.releases.chart import check_chart, pack_chart
from tools.releases.distributions import build_twice
from tools.releases.folder import ENVELOPE, KREW, NOTES, STATEMENT, Release, digest_of
from tools.releases.krew import manifest, pack_plugin
from tools.releases.notes import notes_of
from tools.releases.provenance import load_key, sign, statement


@dataclass(frozen=True)
class Places:
    """Where a release comes from and where it will be, which nothing in the tree knows."""

    url: str
    source: str
    home: str
    builder: str
    key: Path | None


@click.command("make")
@click.option("--folder", type=click.Path(path_type=Path), help="Where it is written. Default: dist/release-TAG.")
@click.option("--url", default="https://releases.example/bayplan", show_default=True, help="Where its files will be.")
@click.option("--source", default="git+https://git.example/bayplan.git", show_default=True, help="Where the commit is.")
@click.option("--home", default="https://bayplan.example", show_default=True, help="The page of the project.")
@click.option("--builder-id", default="urn:bayplan:builder:unnamed", show_default=True, help="Who builds it, as a URI.")
@click.option(
    "--key", type=click.Path(path_type=Path), help="A private key in PEM, to sign the provenance. Default: none."
)
@click.option("--images/--no-images", default=True, help="Build images, too, if a program for that is there.")
@click.option("--builder", metavar="COMMAND", help="docker, podman or buildah, with options.")
@click.option("--base", help="The base of the images. Default: that of the Dockerfile.")
@click.option("--python", "pythons", multiple=True, help="A Python that the binary runs with. Default: this one.")
def make(
    *,
    folder: Path | None,
    url: str,
    source: str,
    home: str,
    builder_id: str,
    key: Path | None,
    images: bool,
    builder: str | None,
    base: str | None,
    pythons: tuple[str, ...],
) -> None:
    """Make a release of the commit, which has to have the tag of its version."""
    commit = read_commit()
    tag = check_release(commit)
    notes = notes_of(commit.version, ROOT / "CHANGELOG.md")
    check_chart(ROOT / "deploy" / "chart" / "bayplan", commit.version)
    target = folder or ROOT / "dist" / f"release-{tag}"
    if target.exists():
        raise Problem(f"{target} is already there: remove it, or name another folder")
    if key is not None:
        load_key(key, private=True)
    found = find_builder(builder) if images else None
    places = Places(f"{url.rstrip('/')}/{tag}", source, home, builder_id, key)
    target.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=target.parent, prefix=".release-") as temporary:
        release = Release(Path(temporary) / "release", commit.version)
        build_twice(commit, release.folder)
        (release.folder / NOTES).write_text(notes)
        shutil.copy(ROOT / "requirements" / "runtime.txt", release.requirements)
        pack_chart(ROOT / "deploy" / "chart" / "bayplan", release.chart, commit.seconds)
        _add_binaries(release, commit, pythons or (sys.executable,), places)
        if found is None:
            click.echo("no image: docker (with its daemon), podman and buildah aren't there, or --no-images says so")
        else:
            _add_images(release, commit, found, base)
        _add_bills(release, commit)
        _add_provenance(release, commit, tag, places)
        release.write_sums()
        release.folder.rename(target)
    for path in sorted(target.iterdir()):
        click.echo(f"{path.stat().st_size / 1e6:8.2f} MB  {path.name}")
    click.echo(f"{target} is complete. Check it with: make release-check DIR={target}")


def _add_binaries(release: Release, commit: Commit, pythons: tuple[str, ...], places: Places) -> None:
    with TemporaryDirectory() as temporary:
        libraries = Path(temporary) / "libraries"
        libraries.mkdir()
        download(pythons, release.requirements, libraries)
        build_binary(pythons, libraries, release.wheel, COMMAND, release.binary, commit.seconds)
        plugin = Path(temporary) / PLUGIN
        build_binary(pythons, libraries, release.wheel, PLUGIN, plugin, commit.seconds)
        pack_plugin(plugin, ROOT / "LICENSE", release.plugin, commit.seconds)
    text = manifest(release.version, [release.plugin], places.url, places.home)
    (release.folder / KREW).write_text(text)


def _add_images(release: Release, commit: Commit, builder: Builder, base: str | None) -> None:
    for libraries in LIBRARIES:
        archive = archive_of(release.folder, release.version, libraries)
        name = f"localhost/{archive.name.removesuffix('.oci.tar')}"
        build_image(builder, Request(name, base or None, libraries, archive), commit)


def _add_bills(release: Release, commit: Commit) -> None:
    requirements = release.requirements.read_text()
    wheel = release.wheel
    bill = bill_of_wheel(wheel, digest_of(wheel), requirements, release.version, commit.seconds)
    release.bill(wheel).write_text(bill)
    for archive in release.images:
        bill = bill_of_image(read_image(archive), archive.name, release.version, commit.seconds)
        release.bill(archive).write_text(bill)


def _add_provenance(release: Release, commit: Commit, tag: str, places: Places) -> None:
    subjects = [(path.name, digest_of(path)) for path in release.artifacts()]
    locked = {f"requirements/{name}.txt": digest_of(ROOT / "requirements" / f"{name}.txt") for name in ("dev", "build")}
    text = statement(commit, tag, subjects, source=places.source, builder=places.builder, digests=locked)
    (release.folder / STATEMENT).write_text(text)
    if places.key is not None:
        (release.folder / ENVELOPE).write_text(sign(text, places.key))

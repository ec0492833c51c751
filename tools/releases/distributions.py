"""The wheel and the source archive, built of exactly what is committed, twice, with the same bytes.

The two builds differ in their folder, and in the rights that new files get there.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import click
from tools.archives import unpack
from tools.commit import Commit, read_commit
from tools.problems import Problem, output


def build_twice(commit: Commit, folder: Path) -> list[Path]:
    """Build into a folder, and again elsewhere. Return the files, which have the same bytes both times."""
    built = build(commit, folder, mask=0o022)
    with TemporaryDirectory() as temporary:
        again = {path.name: path for path in build(commit, Path(temporary), mask=0o077)}
        if again.keys() != {path.name for path in built}:
            raise Problem(f"two builds of one commit have other files: {', '.join(again)}")
        for path in built:
            if path.read_bytes() != again[path.name].read_bytes():
                raise Problem(f"two builds of one commit have other bytes in {path.name}")
    return built


def build(commit: Commit, folder: Path, mask: int) -> list[Path]:
    """Build the wheel and the source archive of a commit, and return them."""
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix="bayplan-") as temporary:
        sources = Path(temporary) / "sources"
        export(commit, sources)
        return build_sources(sources, folder, commit.seconds, mask)


def build_sources(sources: Path, folder: Path, seconds: int, mask: int = 0o022) -> list[Path]:
    """Build a folder of sources, and return the source archive and the wheel."""
    before = set(folder.iterdir())
    done = subprocess.run(  # noqa: S603 - what `make dist` runs
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(sources)],
        env={**os.environ, "SOURCE_DATE_EPOCH": str(seconds)},
        umask=mask,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise Problem(f"the wheel can't be built: {(done.stderr or done.stdout).strip().splitlines()[-1]}")
    return sorted(set(folder.iterdir()) - before)


def export(commit: Commit, folder: Path) -> None:
    """Write the files of a commit to a new folder."""
    folder.mkdir()
    archive = folder.with_suffix(".tar")
    output(["git", "archive", "--output", str(archive), commit.id], cwd=commit.root)
    unpack(archive, folder)
    archive.unlink()


@click.command("dist-twice")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False), required=False)
def dist_twice(folder: Path | None) -> None:
    """Build the wheel and the source archive of the commit twice, and compare them."""
    with TemporaryDirectory() as temporary:
        for path in build_twice(read_commit(), folder or Path(temporary)):
            click.echo(f"{path.name}: {path.stat().st_size / 1e6:.1f} MB, the same bytes twice")

"""`bayplan` as one file, which runs with the Python of the machine: made with pex, of the locked libraries.

The first call lays the libraries out in a cache (PEX_ROOT). Later calls start as fast as an installed command. An
executable with a Python of its own (PyInstaller) unpacks 140 MB at each start, which takes a second.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import click
from tools.commit import ROOT, Commit, read_commit
from tools.problems import Problem
from tools.releases.distributions import build
from tools.releases.folder import Release

COMMAND, PLUGIN = "bayplan", "kubectl-bayplan"
"""The entry points: the command, and the plugin of kubectl, which says `kubectl bayplan` in its help"""


def download(pythons: Sequence[str], requirements: Path, folder: Path) -> None:
    """Download the locked libraries for each Python."""
    for python in pythons:
        options = ["--quiet", "--no-deps", "--require-hashes", "--only-binary", ":all:", "--dest", str(folder)]
        _run(
            [
                python,
                "-m",
                "pip",
                "--disable-pip-version-check",
                "download",
                *options,
                "--requirement",
                str(requirements),
            ]
        )


def build_binary(pythons: Sequence[str], libraries: Path, wheel: Path, entry: str, target: Path, seconds: int) -> None:
    """Write one file that runs an entry point of a wheel with each of these Pythons."""
    with TemporaryDirectory() as temporary:
        found = Path(temporary) / "wheels"
        found.mkdir()
        for path in (*libraries.iterdir(), wheel):
            (found / path.name).symlink_to(path.resolve())
        chosen = [argument for python in pythons for argument in ("--python", python)]
        options = ["--pre-resolved-dists", str(found), "--no-pypi", "--sh-boot", "--script", entry]
        # Two libraries share the folder `lightkube`: as links, one of them would be lost.
        options += ["--venv", "prepend", "--venv-site-packages-copies"]
        command = [sys.executable, "-m", "pex", "bayplan", *chosen, *options, "--output-file", str(target)]
        _run(command, SOURCE_DATE_EPOCH=str(seconds), PEX_ROOT=f"{temporary}/pex")


def _run(command: list[str], **environment: str) -> None:
    done = subprocess.run(  # noqa: S603 - pip and pex
        command, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        said = [line for line in done.stderr.strip().splitlines() if line and not line.startswith("WARNING")]
        raise Problem(f"the binary can't be built: {(said or ['no reason is given'])[-1]}")


@click.command("binary")
@click.option(
    "--python", "pythons", multiple=True, help="A Python that the file runs with. Default: this one. May be repeated."
)
@click.option(
    "--folder", type=click.Path(path_type=Path, file_okay=False), default=ROOT / "dist", help="Where it is written."
)
def binary(pythons: tuple[str, ...], folder: Path) -> None:
    """Write `bayplan` of the commit as one file."""
    commit = read_commit()
    target = make_binary(commit, pythons or (sys.executable,), folder)
    click.echo(f"{target}: {target.stat().st_size / 1e6:.1f} MB")


def make_binary(commit: Commit, pythons: Sequence[str], folder: Path) -> Path:
    """Build the wheel of a commit, and the file that runs it."""
    folder.mkdir(parents=True, exist_ok=True)
    target = Release(folder, commit.version).binary
    with TemporaryDirectory() as temporary:
        libraries = Path(temporary) / "libraries"
        libraries.mkdir()
        download(pythons, commit.root / "requirements" / "runtime.txt", libraries)
        (wheel,) = (path for path in build(commit, Path(temporary) / "dist", 0o022) if path.suffix == ".whl")
        build_binary(pythons, libraries, wheel, COMMAND, target, commit.seconds)
    return target

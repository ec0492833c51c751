"""A base image without a registry: Debian by debootstrap, with its Python, as root."""

from __future__ import annotations

import subprocess
from pathlib import Path

import click
from tools.images.builders import Builder
from tools.problems import Problem, output

PACKAGES = ("ca-certificates", "python3", "python3-venv")


def make_base(builder: Builder, name: str, folder: Path, mirror: str | None) -> None:
    """Make an image of Debian with Python. A folder that an earlier call has filled is used again."""
    suite = _codename()
    root = folder / suite
    if not (root / "usr" / "bin" / "python3").exists():
        click.echo(f"Making a base of Debian {suite} ...")
        command = ["debootstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}", suite, str(root)]
        output([*command, mirror or _mirror(suite)])
    container = output([*builder.command, "from", "scratch"]).strip()
    try:
        output([*builder.command, "add", "--quiet", container, str(root), "/"])
        path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        output([*builder.command, "config", "--env", path, "--cmd", "/bin/sh", container])
        output([*builder.command, "commit", "--quiet", "--timestamp", "0", container, name])
    finally:
        subprocess.run([*builder.command, "rm", container], capture_output=True, check=False)  # noqa: S603


def _codename() -> str:
    for line in Path("/etc/os-release").read_text(encoding="utf-8").splitlines():
        key, _, value = line.partition("=")
        if key == "VERSION_CODENAME":
            return value.strip('"')
    raise Problem("/etc/os-release has no VERSION_CODENAME: only Debian's are known")


def _mirror(suite: str) -> str:
    """Return where this machine gets its packages."""
    known = output(["apt-get", "indextargets", "--format", "$(CODENAME) $(REPO_URI)"])
    for line in known.splitlines():
        codename, _, place = line.partition(" ")
        if codename == suite:
            return place
    raise Problem(f"apt-get knows no place with Debian {suite}: name one with --mirror")

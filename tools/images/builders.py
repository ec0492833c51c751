"""docker, podman and buildah: what they are told to build an image, and to save it as an archive.

All of them get the time of the commit, so that two builds have one digest. Networks with certificates of their own are
passed on as pip knows them: PIP_CERT.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tools.commit import Commit
from tools.images.archive import REVISION
from tools.problems import Problem

NAMES = ("docker", "podman", "buildah")
_ISOLATED = {"BUILDAH_ISOLATION": "chroot"}
"""How buildah runs the steps of the Dockerfile, unless the user says it: this works within containers, too"""
_NO_BASE = re.compile(r"creating build container|pull access denied|failed to resolve source metadata")
"""What builders say if they can't have an image that the Dockerfile begins with"""
_USAGE = ("Usage:", "Run '", "See '")
"""How lines begin that say how a program is called, after what is wrong"""
_SAID = re.compile(r"(?:#\d+ )?(?:[\d.]+ )?bayplan: (.+)")
"""What a line of the Dockerfile says is wrong with the base; docker puts a step and a time before it"""


@dataclass(frozen=True)
class Request:
    """An image to build."""

    name: str
    base: str | None
    libraries: str
    archive: Path
    cached: bool = True
    """May results of earlier builds be used?"""


@dataclass(frozen=True)
class Builder:
    """A program that builds images, with its options."""

    program: str
    command: tuple[str, ...]

    def commands(self, request: Request, commit: Commit) -> list[list[str]]:
        """Return the commands that build an image, name it and save it as an archive of the OCI layout."""
        build = {"docker": ["buildx", "build"]}.get(self.program, ["build"])
        options = [
            *("--file", "deploy/Dockerfile", "--tag", request.name),
            *("--build-arg", f"SOURCE_DATE_EPOCH={commit.seconds}", "--build-arg", f"LIBRARIES={request.libraries}"),
            *("--label", f"org.opencontainers.image.version={commit.version}"),
            *("--label", f"{REVISION}={commit.revision}"),
        ]
        if request.base:
            options += ["--build-arg", f"BASE={request.base}"]
        if certificates := os.environ.get("PIP_CERT"):
            options += ["--secret", f"id=certificates,src={certificates}"]
        if not request.cached:
            options += ["--no-cache"]
        begin = [*self.command, *build, *options]
        save = {
            "docker": [*self.command, "load", "--input", str(request.archive)],
            "podman": [*self.command, "save", "--format=oci-archive", "--output", str(request.archive), request.name],
            "buildah": [*self.command, "push", request.name, f"oci-archive:{request.archive}"],
        }[self.program]
        if self.program == "docker":
            to = f"type=docker,dest={request.archive},rewrite-timestamp=true"
            return [[*begin, "--provenance=false", "--output", to, "."], save]
        layers = ["--layers"] if request.cached else []
        return [[*begin, *layers, "--pull=false", "--timestamp", str(commit.seconds), "."], save]

    def build(self, request: Request, commit: Commit) -> None:
        """Build, name and save an image; what is in the archive's place goes only when it is complete."""
        request.archive.parent.mkdir(parents=True, exist_ok=True)
        request.archive.unlink(missing_ok=True)
        environment = {**_ISOLATED, **os.environ, "SOURCE_DATE_EPOCH": str(commit.seconds)}
        for command in self.commands(request, commit):
            done = subprocess.run(  # noqa: S603 - the builder that the user names
                command, cwd=commit.root, env=environment, capture_output=True, text=True, check=False
            )
            if done.returncode:
                request.archive.unlink(missing_ok=True)
                raise Problem(f"{request.name} can't be built: {_reason(done.stdout + done.stderr)}")


def find_builder(chosen: str | None = None) -> Builder | None:
    """Return the builder that the user names, with options, or the first one that is there and works."""
    if chosen:
        command = shlex.split(chosen)
        program = Path(command[0]).name
        if program not in NAMES:
            raise Problem(f"BUILDER is {program!r}, but has to be docker, podman or buildah, with options")
        if shutil.which(command[0]) is None:
            raise Problem(f"BUILDER is {program!r}, which isn't on the PATH")
        return Builder(program, tuple(command))
    return next((Builder(name, (name,)) for name in NAMES if _works(name)), None)


def _works(name: str) -> bool:
    """Tell whether a program is there. A docker without its daemon isn't."""
    if shutil.which(name) is None:
        return False
    return subprocess.run([name, "info"], capture_output=True, check=False).returncode == 0  # noqa: S603


def _reason(printed: str) -> str:
    stripped = map(str.strip, printed.splitlines())
    lines = [line for line in stripped if line and not line.startswith(_USAGE)]
    said = [found[1] for found in map(_SAID.fullmatch, lines) if found]
    errors = [line for line in lines if "error" in line.lower()]
    if not said and errors and _NO_BASE.search(errors[-1]):
        return f"{errors[-1].removeprefix('Error: ')}: name a base image that is there with BASE"
    return (said[:1] or errors or lines or ["the builder says nothing"])[-1]

"""Runs an image as a kubelet runs the container of a manifest: user, read-only root, no capabilities, volumes.

docker and podman have options for all of that. buildah runs no services: its mounted image gets the same from the
kernel, by unshare, mount, chroot and setpriv, which needs root.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from tools.images.builders import Builder
from tools.problems import Problem, output

LIMIT = 120
"""How many seconds a container has for what takes a second on a machine with nothing else to do"""
LINKS = 8
"""How many links a part of a path may have"""


@dataclass(frozen=True)
class Container:
    """What is run, as a manifest says it."""

    image: str
    arguments: Sequence[str]
    user: int
    environment: Mapping[str, str] = field(default_factory=dict)
    mounts: Mapping[str, Path] = field(default_factory=dict)
    """path in the container -> folder; those that the user owns are writable there"""
    memory: Sequence[str] = ()
    """paths of empty filesystems in memory"""

    @classmethod
    def of(cls, pod: Mapping[str, Any], image: str, arguments: Sequence[str], **more: Any) -> Container:
        """Return the only container of a pod's spec, with more arguments. It has to be restricted in every way."""
        (container,) = pod["containers"]
        expected = {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        if container["securityContext"] != expected or not pod["securityContext"]["runAsNonRoot"]:
            raise Problem(f"the manifest of {container['name']} isn't restricted: {container['securityContext']}")
        return cls(image, [*container["args"], *arguments], pod["securityContext"]["runAsUser"], **more)


class Running:
    """A container that runs, with its log in a file."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path, release: Callable[[], None]) -> None:
        """Begin to count the time."""
        self.process = process
        self.log = log
        self._release = release
        self.began = time.monotonic()

    def until(self, reached: Callable[[], bool], what: str) -> float:
        """Wait, and return how many seconds after its start it got there."""
        while not reached():
            if self.process.poll() is not None:
                raise Problem(f"the container ended before {what}: {self.last_line()}")
            if time.monotonic() - self.began > LIMIT:
                raise Problem(
                    f"after {LIMIT} s the container isn't there yet: {what}; its last line: {self.last_line()}"
                )
            time.sleep(0.01)
        return time.monotonic() - self.began

    def cpu_seconds(self) -> float:
        """Return how much CPU it has used so far. With docker and podman, that of the program that waits for it."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def last_line(self) -> str:
        """Return the last line of its log."""
        return (self.log.read_text(encoding="utf-8", errors="replace").strip() or "no output").splitlines()[-1]

    def terminate(self) -> float:
        """Send SIGTERM as a kubelet does, and return how many seconds the end took. Its status has to be 0."""
        began = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(LIMIT)
        if status:
            raise Problem(f"the container ended with status {status} after SIGTERM: {self.last_line()}")
        return time.monotonic() - began

    def close(self) -> None:
        """End it, whatever it does."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self._release()


def start(builder: Builder, container: Container, log: Path) -> Running:
    """Start a container on the network of this machine."""
    if builder.program != "buildah":
        return Running(_process(_by_options(builder, container), log), log, lambda: None)
    name = output([*builder.command, "from", "--pull=never", container.image]).strip()

    def release() -> None:
        subprocess.run([*builder.command, "rm", name], capture_output=True, check=False)  # noqa: S603

    try:
        return Running(_process(_by_kernel(builder, name, container), log), log, release)
    except Problem:
        release()
        raise


def _process(command: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
    with log.open("wb") as file:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=file)  # noqa: S603


def _by_options(builder: Builder, container: Container) -> list[str]:
    options = ["--rm", "--network=host", "--read-only", f"--user={container.user}:{container.user}"]
    options += ["--cap-drop=ALL", "--security-opt=no-new-privileges"]
    options += [f"--env={name}={value}" for name, value in container.environment.items()]
    options += [f"--tmpfs={path}" for path in container.memory]
    options += [
        f"--volume={folder}:{path}{'' if _writable(folder, container) else ':ro'}"
        for path, folder in container.mounts.items()
    ]
    return [*builder.command, "run", *options, container.image, *container.arguments]


def _by_kernel(builder: Builder, name: str, container: Container) -> list[str]:
    root = Path(output([*builder.command, "mount", name]).strip())
    configuration = json.loads(output([*builder.command, "inspect", name]))["OCIv1"]["config"]
    steps = [f"mount --bind {root} {root}"]
    for path, folder in container.mounts.items():
        place = inside(root, path)
        place.mkdir(parents=True, exist_ok=True)
        steps.append(f"mount --bind {shlex.quote(str(folder))} {place}")
        if not _writable(folder, container):
            steps.append(f"mount -o remount,bind,ro {place}")
    for path in container.memory:
        place = inside(root, path)
        place.mkdir(parents=True, exist_ok=True)
        steps.append(f"mount -t tmpfs -o size=4m,mode=1777 tmpfs {place}")
    given = [*configuration["Env"], *(f"{name}={value}" for name, value in container.environment.items())]
    rights = f"--reuid={container.user} --regid={container.user} --clear-groups --no-new-privs"
    rights += " --inh-caps=-all --bounding-set=-all"
    program = f"setpriv {rights} {shlex.join([*configuration['Entrypoint'], *container.arguments])}"
    steps += [
        f"mount -t proc proc {root}/proc",
        f"mount --rbind /dev {root}/dev",
        f"mount -o remount,bind,ro {root}",
        f"exec env -i {shlex.join(given)} chroot {root} {program}",
    ]
    return ["unshare", "--mount", "--propagation=private", "sh", "-ec", "\n".join(steps)]


def inside(root: Path, path: str) -> Path:
    """Return where a path of an image is. Its links, such as /var/run, lead to places in the image."""
    place = root
    for part in PurePosixPath(path).relative_to("/").parts:
        place /= part
        for _ in range(LINKS):
            if not place.is_symlink():
                break
            target = place.readlink()
            place = root / target.relative_to("/") if target.is_absolute() else place.parent / target
        if place.is_symlink() or ".." in place.parts:
            raise Problem(f"the image has no folder {path}: {place} is a link")
    return place


def _writable(folder: Path, container: Container) -> bool:
    return folder.stat().st_uid == container.user

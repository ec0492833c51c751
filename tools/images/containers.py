"""Runs an image as a kubelet runs the container of a manifest: user, read-only root, no capabilities, volumes.

docker and podman have options for all of that. buildah runs no services: its mounted image gets the same from the
kernel, by unshare, mount, chroot and setpriv, which needs root.
"""

from __future__ import annotations

import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tools.images.builders import Builder
from tools.problems import Problem, output

LIMIT = 120
"""How many seconds a container has for what takes a second on a machine with nothing else to do"""


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
    release: Callable[[], None] = lambda: None  # noqa: E731 - docker and podman remove it themselves
    if builder.program == "buildah":
        name = output([*builder.command, "from", "--pull=never", container.image]).strip()

        def release() -> None:
            subprocess.run([*builder.command, "rm", name], capture_output=True, check=False)  # noqa: S603

        command = _by_kernel(builder, name, container)
    else:
        command = _by_options(builder, container)
    with log.open("wb") as file:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=file)  # noqa: S603
    return Running(process, log, release)


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
    form = "{{range .OCIv1.Config.Env}}{{println .}}{{end}}"
    environment = output([*builder.command, "inspect", "--format", form, name]).split("\n")
    (entry,) = output(
        [*builder.command, "inspect", "--format", '{{join .OCIv1.Config.Entrypoint " "}}', name]
    ).splitlines()
    steps = [f"mount --bind {root} {root}"]
    for path, folder in container.mounts.items():
        place = root / path.lstrip("/")
        place.mkdir(parents=True, exist_ok=True)
        steps.append(f"mount --bind {shlex.quote(str(folder))} {place}")
        if not _writable(folder, container):
            steps.append(f"mount -o remount,bind,ro {place}")
    for path in container.memory:
        (root / path.lstrip("/")).mkdir(parents=True, exist_ok=True)
        steps.append(f"mount -t tmpfs -o size=4m,mode=1777 tmpfs {root}{path}")
    given = [*filter(None, environment), *(f"{name}={value}" for name, value in container.environment.items())]
    rights = f"--reuid={container.user} --regid={container.user} --clear-groups --no-new-privs"
    program = (
        f"setpriv {rights} --inh-caps=-all --bounding-set=-all {shlex.join([*entry.split(), *container.arguments])}"
    )
    steps += [
        f"mount -t proc proc {root}/proc",
        f"mount --rbind /dev {root}/dev",
        f"mount -o remount,bind,ro {root}",
        f"exec env -i {shlex.join(given)} chroot {root} {program}",
    ]
    return ["unshare", "--mount", "--propagation=private", "sh", "-ec", "\n".join(steps)]


def _writable(folder: Path, container: Container) -> bool:
    return folder.stat().st_uid == container.user

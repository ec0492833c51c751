"""Embedded clusters that run in the background: start one, find out whether one runs, and stop it.

The cluster's kubeconfig is its handle. Its process holds a lock on the file while it runs, so a crashed cluster is told
from a running one, and the file has the number of the process.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from bayplan.faces.cli.kubectl_context import ContextError, kubectl_file, restore_context

EXTENSION = "bayplan.dev/cluster"
STOP_SECONDS = 20.0
"""How long a cluster may take to stop before it is killed."""
_POLL = 0.05


class UnusableClusterError(Exception):
    """A cluster can't be started or stopped as requested. The message is one line."""


def default_kubeconfig() -> Path:
    """The kubeconfig of a cluster in the background, unless another one is given."""
    return Path(os.environ.get("HOME", "~")).expanduser() / ".kube" / "bayplan.yaml"


def log_of(kubeconfig: Path) -> Path:
    """The file that a cluster in the background logs to."""
    return kubeconfig.with_name(f"{kubeconfig.name}.log")


def marked(kubeconfig: str, *, context_in: Path | None) -> str:
    """A kubeconfig with the number of this process, and the file in which its context is the current one."""
    config = yaml.safe_load(kubeconfig)
    about = {"pid": os.getpid()} | ({"contextIn": str(context_in)} if context_in else {})
    config["extensions"] = [{"name": EXTENSION, "extension": about}]
    text: str = yaml.safe_dump(config, sort_keys=False)
    return text


@contextmanager
def held(kubeconfig: Path) -> Iterator[None]:
    """Hold the lock on a kubeconfig, as the process of its cluster does."""
    with kubeconfig.open(encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield


def is_running(kubeconfig: Path) -> bool:
    """Whether the cluster of a kubeconfig runs."""
    try:
        with held(kubeconfig):
            return False
    except FileNotFoundError:
        return False
    except OSError as error:
        if error.errno in {errno.EWOULDBLOCK, errno.EACCES}:
            return True
        raise


def check_not_running(kubeconfig: Path) -> None:
    """Raise UnusableError if a cluster with this kubeconfig runs."""
    if is_running(kubeconfig):
        config = _config(kubeconfig)
        raise UnusableClusterError(
            f"the cluster of {kubeconfig} runs already at {_server(config)} (process {_about(config).get('pid')}): "
            f"stop it with `{stop_command(kubeconfig)}`, or pass another --kubeconfig"
        )


def stop_command(kubeconfig: Path) -> str:
    """The command that stops the cluster of a kubeconfig."""
    named = "" if kubeconfig == default_kubeconfig() else f" --kubeconfig {shlex.quote(str(kubeconfig))}"
    return f"bayplan cluster --stop{named}"


def start(arguments: Sequence[str], kubeconfig: Path) -> str:
    """Run `bayplan cluster` in the background, and wait until it is ready. Returns what it announces.

    `arguments`: those of the command, which include the kubeconfig. Raises UnusableError with the reason if the cluster
    ends before it is ready.
    """
    check_not_running(kubeconfig)
    log = log_of(kubeconfig)
    reading, writing = os.pipe()
    command = [sys.executable, "-m", "bayplan", "cluster", *arguments, "--ready-fd", str(writing)]
    try:
        if kubeconfig == default_kubeconfig():
            log.parent.mkdir(exist_ok=True)
        with log.open("w", encoding="utf-8") as output:
            process = subprocess.Popen(  # noqa: S603 - this program again
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=(writing,),
                start_new_session=True,  # so that Ctrl-C in this terminal doesn't reach it
            )
    except OSError as error:
        os.close(reading)
        raise UnusableClusterError(f"cannot write {error.filename or log}: {error.strerror}") from None
    finally:
        os.close(writing)
    with os.fdopen(reading, encoding="utf-8") as pipe:
        announced = _first_words(pipe, process)
    if announced:
        return announced
    process.wait()
    raise UnusableClusterError(_last_words(log, process.returncode))


def _first_words(pipe: Any, process: subprocess.Popen[bytes]) -> str:
    """What a cluster announces when it is ready; "" if it ends first. Ctrl-C ends it."""
    try:
        return str(pipe.read())
    except KeyboardInterrupt:
        process.terminate()
        process.wait()
        raise


def _last_words(log: Path, status: int) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    if lines and lines[-1].startswith("bayplan cluster: "):
        log.unlink(missing_ok=True)
        return lines[-1].removeprefix("bayplan cluster: ")
    how = f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
    return f"the cluster {how} before it was ready: see {log}"


def stop(kubeconfig: Path) -> str:
    """Stop the cluster of a kubeconfig. Returns a line that says so. Raises UnusableError if none runs."""
    if not kubeconfig.exists():
        raise UnusableClusterError(f"no cluster runs: there is no {kubeconfig}")
    config, log = _config(kubeconfig), log_of(kubeconfig)
    about = _about(config)
    if not about:
        raise UnusableClusterError(f"{kubeconfig} is not the kubeconfig of an embedded cluster")
    if not is_running(kubeconfig):
        _restore(about, config)
        kubeconfig.unlink(missing_ok=True)
        see = f": see {log}" if log.exists() else ""
        return f"The cluster of {kubeconfig} has ended already{see}"
    try:
        os.kill(about["pid"], signal.SIGTERM)
        deadline = time.monotonic() + STOP_SECONDS
        while is_running(kubeconfig):
            if time.monotonic() > deadline:
                os.kill(about["pid"], signal.SIGKILL)
                deadline += STOP_SECONDS
            time.sleep(_POLL)
    except OSError as error:
        raise UnusableClusterError(f"cannot stop process {about['pid']} of {kubeconfig}: {error.strerror}") from None
    _restore(about, config)  # in case it was killed
    kubeconfig.unlink(missing_ok=True)
    log.unlink(missing_ok=True)
    return f"Stopped the cluster of {kubeconfig}"


def current_kubeconfig() -> Path:
    """The kubeconfig of the cluster to stop if none is given: that in KUBECONFIG, or the default one."""
    listed = kubectl_file()
    return listed if listed.exists() and _about(_config(listed)) else default_kubeconfig()


def _restore(about: dict[str, Any], config: dict[str, Any]) -> None:
    if about.get("contextIn"):
        try:
            restore_context(Path(about["contextIn"]), str(config.get("current-context")))
        except ContextError as error:
            raise UnusableClusterError(str(error)) from None


def _config(kubeconfig: Path) -> dict[str, Any]:
    try:
        config = yaml.safe_load(kubeconfig.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise UnusableClusterError(f"{kubeconfig} cannot be read: {' '.join(str(error).split())}") from None
    return config if isinstance(config, dict) else {}


def _about(config: dict[str, Any]) -> dict[str, Any]:
    """What `marked` has added; empty for another kubeconfig."""
    for each in config.get("extensions") or ():
        if isinstance(each, dict) and each.get("name") == EXTENSION:
            about = each.get("extension")
            return about if isinstance(about, dict) and isinstance(about.get("pid"), int) else {}
    return {}


def _server(config: dict[str, Any]) -> str:
    clusters: list[dict[str, Any]] = config.get("clusters") or [{}]
    return str((clusters[0].get("cluster") or {}).get("server", "?"))

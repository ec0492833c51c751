"""Makes a cluster kubectl's current context for a while, and restores the previous one.

The context and what it replaced are in kubectl's own kubeconfig, so that a later call can restore it after a crash.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from bayplan.foundations.file_replacement import replace_text

_EXTENSION = "bayplan.dev/context"
_LISTS = ("clusters", "contexts", "users")


class ContextError(Exception):
    """kubectl's kubeconfig can't be changed. The message is one line."""


def kubectl_file(environ: Mapping[str, str] = os.environ) -> Path:
    """The kubeconfig whose current context kubectl changes: the first one that exists.

    Mirrors PathOptions.GetDefaultFilename (client-go/tools/clientcmd/config.go).
    """
    listed = [Path(name).expanduser() for name in environ.get("KUBECONFIG", "").split(os.pathsep) if name]
    if listed:
        return next((path for path in listed if path.exists()), listed[-1])
    return Path(environ.get("HOME", "~")).expanduser() / ".kube" / "config"


def set_context(file: Path, kubeconfig: Mapping[str, Any]) -> None:
    """Add the cluster, user and context of a kubeconfig to `file`, and make its context the current one.

    Raises ContextError.
    """
    config, name = _read(file), kubeconfig["current-context"]
    _remove(config, name)  # what a crash left
    added = {"name": _EXTENSION, "extension": {"previous": config.get("current-context") or ""}}
    for section in _LISTS:
        entries = [dict(each) for each in kubeconfig[section]]
        if section == "contexts":
            entries = [entry | {"context": entry["context"] | {"extensions": [added]}} for entry in entries]
        config[section] = [*(config.get(section) or ()), *entries]
    config["current-context"] = name
    _write(file, {"apiVersion": "v1", "kind": "Config"} | config)


def restore_context(file: Path, name: str) -> None:
    """Remove what `set_context` added to `file`. Make the previous context the current one, unless another one is.

    Raises ContextError.
    """
    config = _read(file)
    if not _remove(config, name):
        return
    if any(config.get(section) for section in _LISTS):
        _write(file, config)
    else:
        file.unlink(missing_ok=True)


def _remove(config: dict[str, Any], name: str) -> bool:
    """Remove the entries of a context that `set_context` added. Returns whether there were any."""
    own = [each for each in config.get("contexts") or () if each.get("name") == name]
    previous = next((found for each in own if (found := _previous(each)) is not None), None)
    if previous is None:
        if own:
            raise ContextError(f"the kubeconfig has a context {name!r} already that isn't of an embedded cluster")
        return False
    for section in _LISTS:
        config[section] = [each for each in config.get(section) or () if each.get("name") != name]
    if config.get("current-context") == name:
        config["current-context"] = previous
    return True


def _previous(context: Mapping[str, Any]) -> str | None:
    for extension in (context.get("context") or {}).get("extensions") or ():
        if extension.get("name") == _EXTENSION:
            return str((extension.get("extension") or {}).get("previous") or "")
    return None


def _read(file: Path) -> dict[str, Any]:
    try:
        found = yaml.safe_load(file.read_text(encoding="utf-8")) if file.exists() else {}
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ContextError(f"{file}: cannot read the kubeconfig: {' '.join(str(error).split())}") from None
    if not isinstance(found, dict | None):
        raise ContextError(f"{file}: expected a kubeconfig")
    config = found or {}
    for section in _LISTS:
        entries = config.get(section) or []
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            raise ContextError(f"{file}: {section}: expected a list of mappings")
    return config


def _write(file: Path, config: Mapping[str, Any]) -> None:
    """Replace the file as a whole, with the permissions that it has, or the owner's only."""
    target = file.resolve()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        replace_text(target, yaml.safe_dump(dict(config), sort_keys=False), private=not target.exists())
    except OSError as error:
        raise ContextError(f"{file}: cannot write the kubeconfig: {error.strerror}") from None

"""Packages that import a public name on first use, so that commands start quickly."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from importlib.util import find_spec, module_from_spec
from pathlib import Path
from threading import RLock
from typing import Any


def lazily(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` for the module of `package`, whose public names are in its `__all__`.

    A name is imported on first use, from where the source imports it `if TYPE_CHECKING`.
    """

    @cache
    def homes() -> dict[str, str]:
        source = ast.parse(Path(sys.modules[package].__file__ or "").read_bytes())
        imports = [node for node in ast.walk(source) if isinstance(node, ast.ImportFrom)]
        return {alias.name: node.module or "" for node in imports for alias in node.names}

    def get(name: str) -> Any:
        module = sys.modules[package]
        if name not in module.__all__:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(homes()[name]), name)
        setattr(module, name, value)
        return value

    return get, lambda: sorted(sys.modules[package].__all__)


def import_lazily(package: str) -> None:
    """Let modules of a package be imported without what its `__init__` imports, which runs when a name is asked for.

    Does nothing if the package is imported already, or isn't installed.
    """
    spec = None if package in sys.modules else find_spec(package)
    if spec is None or spec.loader is None:
        return
    loader, module, lock = spec.loader, module_from_spec(spec), RLock()
    begun = False

    def get(name: str) -> Any:
        nonlocal begun
        unknown = AttributeError(f"module {package!r} has no attribute {name!r}")
        if name.startswith("__") and name != "__all__":
            raise unknown
        if _is_importing_from(package) and find_spec(f"{package}.{name}") is not None:
            return import_module(f"{package}.{name}")  # `__init__` would import the module that asks for it
        with lock:
            if vars(module).get("__getattr__") is get:
                if begun:  # the package asks for a name that it doesn't have yet
                    raise unknown
                begun = True
                try:
                    loader.exec_module(module)
                finally:
                    begun = False
                if vars(module)["__getattr__"] is get:
                    del vars(module)["__getattr__"]
        return getattr(module, name)

    vars(module)["__getattr__"] = get
    sys.modules[package] = module


def _is_importing_from(package: str) -> bool:
    """Whether a module of a package has begun to run, but not ended."""
    specs = [module.__spec__ for name, module in list(sys.modules.items()) if name.startswith(f"{package}.")]
    return any(getattr(spec, "_initializing", False) for spec in specs)

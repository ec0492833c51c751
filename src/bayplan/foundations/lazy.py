"""Imports that run when something of them is used, so that commands start quickly. All laziness is here.

`lazily` is for packages that export names, `on_use` for what uses modules, `import_named` for what a list names,
`library` for what an extra installs, and `import_lazily` for other libraries.

The first question mostly waits for imports: a test lists what must not be imported for it, and the benchmark
`first_question` measures the commands.
"""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import find_spec, module_from_spec
from pathlib import Path
from threading import RLock, get_ident
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from importlib.abc import Loader  # which takes as long to import as the rest of this module


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
        value = import_named(f"{homes()[name]}:{name}")
        setattr(module, name, value)
        return value

    return get, lambda: sorted(sys.modules[package].__all__)


@contextmanager
def on_use() -> Iterator[None]:
    """Modules of Bayplan that are imported here run when something of them is used. Packages run at once.

    with on_use():
        from bayplan.answers.replay import wanted
    """
    finder = _FinderOnUse()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


class _FinderOnUse:
    """Finds modules of Bayplan for one thread."""

    def __init__(self) -> None:
        self._thread = get_ident()

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if not name.startswith(("bayplan.", "bayplan_devcluster.")) or get_ident() != self._thread:
            return None
        place = f"{path[0]}/{name.rpartition('.')[2]}.py" if path else ""
        if os.path.isfile(place):  # noqa: PTH113 - quick, as the usual finders are not
            loader = _LoaderOnUse(SourceFileLoader(name, place), self)
            spec = ModuleSpec(name, cast("Loader", loader), origin=place)
            spec.has_location = True
            return spec
        found = PathFinder.find_spec(name, path, target)
        if found is not None and found.loader is not None:
            found.loader = cast("Loader", _LoaderOnUse(found.loader, self))
        return found


class _LoaderOnUse:
    """Runs a module when something of it is used, and a package at once, with its own imports as always."""

    def __init__(self, loader: Loader, finder: _FinderOnUse) -> None:
        self._loader = loader
        self._finder = finder

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        assert module.__spec__ is not None
        module.__loader__ = module.__spec__.loader = self._loader
        if "__path__" not in vars(module):
            _run_on_use(module, self._loader)
            return
        sys.meta_path.remove(self._finder)
        try:
            self._loader.exec_module(module)
        finally:
            sys.meta_path.insert(0, self._finder)


def library(name: str, *others: str) -> Any:
    """An optional library, which is imported now, and other modules with it. Raises ImportError if one is missing."""
    found = import_module(name)
    for other in others:
        import_module(other)
    return found


def import_named(place: str) -> Any:
    """What `module:name` names, of which the module is imported now."""
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


def import_lazily(package: str) -> None:
    """Let modules of a package be imported without what its `__init__` imports, which runs when a name is asked for.

    Does nothing if the package is imported already, or isn't installed.
    """
    spec = None if package in sys.modules else find_spec(package)
    if spec is None or spec.loader is None:
        return
    module = module_from_spec(spec)
    _run_on_use(module, spec.loader)
    sys.modules[package] = module


def _run_on_use(module: ModuleType, loader: Loader) -> None:
    vars(module)["__on_use__"] = _Run(loader)
    module.__class__ = _ModuleOnUse


class _Run:
    """The run of a module, which one thread does, once."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader
        self._lock = RLock()
        self._begun = False

    def ensure(self, module: ModuleType) -> None:
        with self._lock:
            if self._begun:  # by this thread, which asks for a name while the module runs, or it is done
                return
            self._begun = True
            try:
                self._loader.exec_module(module)
            except BaseException:
                self._begun = False
                raise
            module.__class__ = ModuleType


class _ModuleOnUse(ModuleType):
    """A module until it has run. Other threads wait while it runs, as for any import."""

    def __getattribute__(self, name: str) -> Any:
        get = super().__getattribute__
        if name.startswith("__") and name != "__all__":
            return get(name)
        own = get("__dict__")
        if "__path__" in own and _is_importing_from(own["__name__"]):  # `__init__` would import the module that asks
            submodule = f"{own['__name__']}.{name}"
            if name in own:
                return get(name)
            if find_spec(submodule) is not None:
                return import_module(submodule)
        own["__on_use__"].ensure(self)
        return get(name)


def run_now(module: ModuleType) -> None:
    """Run a module that was to run on use, unless it has run."""
    if not has_run(module):
        vars(module)["__on_use__"].ensure(module)


def has_run(module: ModuleType) -> bool:
    """Whether a module has run: whether nothing waits for a use of it."""
    return type(module) is not _ModuleOnUse


def _is_importing_from(package: str) -> bool:
    """Whether a module of a package has begun to run, but not ended."""
    specs = [module.__spec__ for name, module in list(sys.modules.items()) if name.startswith(f"{package}.")]
    return any(getattr(spec, "_initializing", False) for spec in specs)

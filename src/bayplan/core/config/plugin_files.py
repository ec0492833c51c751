"""Loads the user's plugins from a Python file, an importable module, or an installed distribution.

A distribution provides plugins as entry points of the group ENTRY_POINTS, with the names of the plugins.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Iterable
from importlib.machinery import SOURCE_SUFFIXES, SourceFileLoader
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from traceback import extract_tb
from types import CodeType, ModuleType

from bayplan.core.config.errors import PluginLoadError
from bayplan.core.config.profiles import ExtraPlugin
from bayplan.core.config.shipped_plugins import ENTRY_POINTS
from bayplan.core.framework.checks import check_plugin
from bayplan.core.framework.functions import FunctionPlugin, InvalidPlugin
from bayplan.core.framework.interface import Plugin
from bayplan.foundations.failures import described, drop_callers

_EXPECTED = "a function with @filter_plugin or @score_plugin, or a subclass of Plugin with a name"


def load_plugins(references: Iterable[str]) -> list[ExtraPlugin]:
    """Load plugins. A reference is `FILE.py` or `module`, either with `:name` for a single plugin, or the name of an
    installed plugin.

    Raises PluginLoadError, whose message says which reference failed, where and why.
    """
    return [plugin for reference in references for plugin in _load(reference)]


def file_of(reference: str) -> Path | None:
    """The file that a reference names, found without importing anything; None if there is none."""
    entry = installed_plugins().get(reference)
    place, _ = _split(reference) if entry is None else (entry.module, "")
    if entry is None and (place.endswith(".py") or "/" in place):
        return Path(place)
    return _file_of_module(place)


def _file_of_module(name: str) -> Path | None:
    """The file of a module. The finders are asked about each package on the way, which `find_spec` would import."""
    path, found = None, None
    parts = name.split(".")
    if not all(part.isidentifier() for part in parts):
        return None
    for count in range(1, len(parts) + 1):
        specs = (finder.find_spec(".".join(parts[:count]), path) for finder in sys.meta_path)
        found = next((spec for spec in specs if spec is not None), None)
        if found is None or (count < len(parts) and found.submodule_search_locations is None):
            return None
        path = None if found.submodule_search_locations is None else list(found.submodule_search_locations)
    return Path(found.origin) if found is not None and found.has_location and found.origin else None


def installed_plugins() -> dict[str, EntryPoint]:
    """The entry points of installed plugins by name. Imports none of them."""
    return {entry.name: entry for entry in entry_points(group=ENTRY_POINTS)}


def load_installed(entry: EntryPoint) -> ExtraPlugin:
    """The plugin of an entry point. Raises PluginLoadError."""
    place = f"{entry.dist.name if entry.dist else ENTRY_POINTS}: {entry.value}"
    try:
        plugin = entry.load()
    except BaseException as error:
        raise _explain(place, error) from error
    if not isinstance(plugin, FunctionPlugin) and not _is_plugin_class(plugin):
        raise PluginLoadError(f"{place}: is not a plugin: expected {_EXPECTED}")
    if plugin.name != entry.name:
        raise PluginLoadError(
            f"{place}: the plugin's name is {plugin.name!r}, but its entry point is {entry.name!r}: use the same name"
        )
    return _checked(plugin, place)


def _load(reference: str) -> list[ExtraPlugin]:
    entry = installed_plugins().get(reference)
    if entry is not None:
        return [load_installed(entry)]
    place, name = _split(reference)
    module = _import_file(Path(place)) if place.endswith(".py") or "/" in place else _import_module(place)
    try:
        return _chosen(module, place, name)
    except PluginLoadError:
        raise
    except BaseException as error:  # of a value that raises when it is looked at
        raise _explain(place, error) from error


def _chosen(module: ModuleType, place: str, name: str) -> list[ExtraPlugin]:
    """The plugins of a module, or the one with this name. Raises PluginLoadError, and what values of the module do."""
    found = _plugins_in(module)
    if not found:
        raise PluginLoadError(f"{place}: has no plugin: expected {_EXPECTED}")
    plugins = [plugin for attribute, plugin in found if name in {"", attribute, plugin.name}]
    if not plugins:
        there = ", ".join(plugin.name for _, plugin in found)
        raise PluginLoadError(f"{place}: has no plugin {name!r}; it has {there}")
    return [_checked(plugin, place) for plugin in plugins]


def _checked(plugin: ExtraPlugin, place: str) -> ExtraPlugin:
    try:
        check_plugin(plugin)
    except InvalidPlugin as error:
        raise PluginLoadError(f"{place}: {error}") from None
    return plugin


def _split(reference: str) -> tuple[str, str]:
    place, colon, name = reference.rpartition(":")
    return (place, name) if colon and name.isidentifier() else (reference, "")


def _import_file(path: Path) -> ModuleType:
    """A file as a module with a unique name, so that it doesn't hide or replace another module."""
    if not path.is_file() or path.suffix not in SOURCE_SUFFIXES:
        raise _no_file(path)
    private = f"_bayplan_plugin_{path.stem}_{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:8]}"
    spec = importlib.util.spec_from_file_location(private, path, loader=_SourceLoader(private, str(path)))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[private] = module  # dataclasses and msgspec look their modules up there
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        del sys.modules[private]
        raise _explain(str(path), error) from error
    return module


class _SourceLoader(SourceFileLoader):
    """Compiles the source that is read, and no compiled file that may lie beside it."""

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


def _no_file(path: Path) -> PluginLoadError:
    """The error about a path that isn't that of a Python file."""
    if not path.is_dir():
        return PluginLoadError(f"{path}: {'is not a Python file' if path.exists() else 'no such file'}")
    files = sorted(each.name for each in path.glob("*.py"))
    example = f": expected a Python file, such as {path / files[0]}" if files else ", and has no Python file"
    return PluginLoadError(f"{path}: is a directory{example}")


def _import_module(name: str) -> ModuleType:
    if not all(part.isidentifier() for part in name.split(".")):
        raise (
            _no_file(Path(name))
            if name and Path(name).exists()
            else PluginLoadError(f"{name!r} is no file and no module")
        )
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise PluginLoadError(
                f"{name}: no such module; for a file, add its extension, as in ./policy.py{_installed()}"
            ) from None
        raise _explain(name, error) from error
    except BaseException as error:
        raise _explain(name, error) from error


def _installed() -> str:
    names = sorted(installed_plugins())
    return f"; installed plugins are {', '.join(names)}" if names else ""


def _explain(place: str, error: BaseException) -> PluginLoadError:
    if isinstance(error, SyntaxError):
        return PluginLoadError(f"{place}: {f'line {error.lineno}: ' if error.lineno else ''}{error.msg}")
    known = isinstance(error, InvalidPlugin)
    if not known:
        PluginLoadError.of(f"{place} cannot be imported", error)  # logs it
    frames = extract_tb(error.__traceback__) if drop_callers(error) else []
    lines = [frame.lineno for frame in frames if frame.filename == frames[0].filename]
    if frames and frames[0].filename == place:
        return PluginLoadError(f"{place}: line {lines[-1]}: {error if known else described(error)}")
    line = f" ({frames[0].filename}:{lines[-1]})" if lines else ""
    return PluginLoadError(f"{place}: {described(error)}{line}")


def _plugins_in(module: ModuleType) -> list[tuple[str, ExtraPlugin]]:
    """The plugins that the module itself defines, with their attributes, in the order of the file."""
    return [
        (attribute, value)
        for attribute, value in vars(module).items()
        if (isinstance(value, FunctionPlugin) and value.function.__module__ == module.__name__)
        or (_is_plugin_class(value) and value.__module__ == module.__name__)
    ]


def _is_plugin_class(value: object) -> bool:
    return (
        isinstance(value, type)
        and issubclass(value, Plugin)
        and not inspect.isabstract(value)
        and isinstance(getattr(value, "name", None), str)
    )

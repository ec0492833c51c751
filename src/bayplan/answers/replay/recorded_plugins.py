"""The plugins of recordings: the user names them on the command line, and a recording only says which ones it had.

A recording may come from anyone, so nothing that it names is ever imported. What the user names is compared with what
was recorded by its hash, before it is loaded.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bayplan.core.config import ExtraPlugin, load_plugins
from bayplan.core.config.plugin_files import file_of
from bayplan.running.recording.entries import RecordedPlugin
from bayplan.running.recording.files import Recording
from bayplan.running.recording.frames import RecordingError

_LONGEST = 200
_DIGITS = 16
"""How much of a hash messages show."""


@dataclass(slots=True)
class NamedPlugins:
    """What the user names with `--plugin` beside recordings: plugins that were recorded, and others.

    `references`: as in `load_plugins`. Those that were recorded are found by the hashes of their files.
    """

    references: Sequence[str] = ()
    _digests: dict[str, str] = field(default_factory=dict)
    _loaded: dict[str, list[ExtraPlugin]] = field(default_factory=dict)

    def lacks(self, recording: Recording) -> bool:
        """Whether a plugin was recorded that the user doesn't name."""
        return any(self._match(each) is None for each in recording.manifest.setting.plugins)

    def recorded(self, recording: Recording) -> list[ExtraPlugin]:
        """Load the plugins that a run was recorded with.

        Raises RecordingError if one isn't named, or if the file isn't the one that was recorded, and PluginLoadError.
        """
        found: dict[str, ExtraPlugin] = {}
        self._check(recording)
        for each in recording.manifest.setting.plugins:
            reference = self._match(each)
            if reference is None:
                raise RecordingError(
                    f"{recording.source} was recorded with plugin {_described(each)}: name your own copy of it with "
                    "--plugin; what a recording names is never loaded"
                )
            plugins = {plugin.name: plugin for plugin in self._load(reference)}
            missing = [name for name in each.names if name not in plugins]
            if missing:
                raise RecordingError(f"{reference} has no plugin {_shown(missing[0])}, which {recording.source} has")
            found |= {name: plugin for name, plugin in plugins.items() if not each.names or name in each.names}
        return list(found.values())

    def others(self, runs: Sequence[Recording]) -> list[str]:
        """What the user names besides the plugins of runs: the plugins of another policy.

        Raises RecordingError if one is named like a plugin that was recorded, and isn't that one.
        """
        for run in runs:
            self._check(run)
        known = [each for run in runs for each in run.manifest.setting.plugins]
        return [each for each in self.references if not any(self._is(each, other) for other in known)]

    def unverified(self, recording: Recording) -> list[str]:
        """The plugins of a run that have no hash to compare, one line each."""
        return [
            f"plugin {_described(each)} was recorded without a hash: it may have changed"
            for each in recording.manifest.setting.plugins
            if not each.sha256
        ]

    def _check(self, recording: Recording) -> None:
        """Raise RecordingError if a file that is named like a recorded one, which nothing else is, differs from it."""
        for each in recording.manifest.setting.plugins:
            if self._match(each) is not None:
                continue
            for reference in self.references:
                if reference == each.reference or _file_name(reference) == _file_name(each.reference):
                    digest = self._digest(reference)
                    if not digest:
                        self._load(reference)  # says why it can't be read
                    raise RecordingError(
                        f"{recording.source} has plugin {_described(each)}, and {reference} has sha256 "
                        f"{digest[:_DIGITS] or 'unknown'}: name the file as it was when it was recorded"
                    )

    def _match(self, recorded: RecordedPlugin) -> str | None:
        """The reference to a recorded plugin; None if the user doesn't name it."""
        return next((each for each in self.references if self._is(each, recorded)), None)

    def _is(self, reference: str, recorded: RecordedPlugin) -> bool:
        if recorded.sha256:
            return self._digest(reference) == recorded.sha256
        return reference == recorded.reference

    def _digest(self, reference: str) -> str:
        if reference not in self._digests:
            self._digests[reference] = digest_of(reference)
        return self._digests[reference]

    def _load(self, reference: str) -> list[ExtraPlugin]:
        if reference not in self._loaded:
            self._loaded[reference] = load_plugins([reference])
        return self._loaded[reference]


def beside(recorded: Sequence[ExtraPlugin], others: Sequence[ExtraPlugin]) -> list[ExtraPlugin]:
    """Other plugins, with those recorded ones that have none of their names."""
    names = {each.name for each in others}
    return [*others, *(each for each in recorded if each.name not in names)]


def recorded_plugins(references: Sequence[str], plugins: Sequence[ExtraPlugin]) -> tuple[RecordedPlugin, ...]:
    """What is recorded about plugins. `references`: as in `--plugin`, of the `plugins`; others are installed ones."""
    recorded = []
    for reference in references:
        names = tuple(plugin.name for plugin in load_plugins([reference]))
        recorded.append(RecordedPlugin(_resolved(reference), names, digest_of(reference)))
    named = {name for each in recorded for name in each.names}
    recorded += [
        RecordedPlugin(plugin.name, (plugin.name,), digest_of(plugin.name))
        for plugin in plugins
        if plugin.name not in named
    ]
    return tuple(recorded)


def digest_of(reference: str) -> str:
    """The SHA-256 of a plugin's file, which isn't imported; "" if it can't be read."""
    path = file_of(reference)
    try:
        return "" if path is None else hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""


def _resolved(reference: str) -> str:
    """A reference with the whole path of a file."""
    place, colon, name = reference.rpartition(":")
    path, end = (place, f":{name}") if colon and name.isidentifier() else (reference, "")
    return f"{Path(path).resolve()}{end}" if path.endswith(".py") or "/" in path else reference


def _file_name(reference: str) -> str:
    """The name of a file, without its folder and without `:NAME`; the reference of a module."""
    place, colon, name = reference.rpartition(":")
    return Path(place if colon and name.isidentifier() else reference).name


def _described(plugin: RecordedPlugin) -> str:
    names = ", ".join(plugin.names) or "?"
    digest = f", sha256 {plugin.sha256[:_DIGITS]}" if plugin.sha256 else ""
    return _shown(f"{names} ({_file_name(plugin.reference)}{digest})")


def _shown(text: str) -> str:
    """A text of a recording, for a message."""
    return "".join(each if each.isprintable() else "?" for each in text)[:_LONGEST]

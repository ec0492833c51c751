"""What plugins put into checkpoints, and take back: JSON, which is read as data only.

A memory that can't be written or read costs that plugin's memory, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from bayplan.core.framework.calling import call
from bayplan.core.framework.capabilities import Checkpointed
from bayplan.core.framework.profile import Profile, implements
from bayplan.core.framework.status import PluginError
from bayplan.foundations.failures import Failures
from bayplan.running.recording.entries import RecordedMemory


def memories_of(profiles: Iterable[Profile], failures: Failures) -> tuple[RecordedMemory, ...]:
    """Return what the plugins of profiles remember now. A plugin that fails is recorded there, and left out."""
    found = []
    for profile, plugin in _remembering(profiles):
        try:
            raw = call(plugin, "Checkpoint", lambda plugin=plugin: msgspec.json.encode(plugin.checkpoint()))
        except PluginError as error:
            error.record(failures, "a replay from this checkpoint begins without what the plugin remembers")
        else:
            found.append(RecordedMemory(profile.scheduler_name, plugin.name, raw))
    return tuple(found)


def restore_memories(memories: Iterable[RecordedMemory], profiles: Mapping[str, Profile]) -> list[str]:
    """Give plugins what they remembered. Returns which ones begin without it, and why, in one line each."""
    recorded = {(each.scheduler, each.plugin): each.raw for each in memories}
    problems = []
    for profile, plugin in _remembering(profiles.values()):
        raw = recorded.get((profile.scheduler_name, plugin.name))
        problem = "the checkpoint doesn't have it" if raw is None else _restore(plugin, raw)
        if problem:
            problems.append(f"plugin {plugin.name} begins without what it remembered: {problem}")
    return list(dict.fromkeys(problems))


def _remembering(profiles: Iterable[Profile]) -> Iterator[tuple[Profile, Any]]:
    for profile in profiles:
        for plugin in profile.every():
            if implements(plugin, Checkpointed):
                yield profile, plugin


def _restore(plugin: Any, raw: bytes) -> str:
    """Returns why a plugin can't use a memory; "" if it does."""
    try:
        call(plugin, "Restore", plugin.restore, msgspec.json.decode(raw))
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        return f"it is no JSON: {error}"
    except PluginError as error:
        return str(error.__cause__ or error)
    return ""

"""How a recorded scheduler decides: its configuration, gates and plugins, made again from the recording."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from bayplan.cluster.pod_info import PodInfo
from bayplan.config import Catalog, ExtraPlugin, KubeSchedulerConfiguration, build_profiles, load_plugins
from bayplan.config.documents import read_document
from bayplan.config.loading import read_document_of
from bayplan.config.profiles import profile_of_all
from bayplan.executor.extenders import have_a_say
from bayplan.framework.handle import Handle
from bayplan.framework.profile import Profile
from bayplan.recording.entries import RecordedPlugin, Setting
from bayplan.recording.files import Recording, RecordingError
from bayplan.replay.replay import Replay
from bayplan.versions import VERSIONS, FeatureGates, gates_of


@dataclass(frozen=True, slots=True)
class Policy:
    """What decides. `changed`: why it may not be what was recorded, one line each."""

    configuration: KubeSchedulerConfiguration
    plugins: Sequence[ExtraPlugin]
    gates: FeatureGates
    changed: tuple[str, ...] = ()

    def build_profiles(self, handle: Handle) -> Mapping[str, Profile]:
        """The profiles by scheduler name. Raises ConfigurationError or PluginLoadError."""
        return build_profiles(self.configuration, handle, self.plugins, self.gates)

    def asks_extenders(self, pod: PodInfo) -> bool:
        """Whether extenders were asked about a pod."""
        return have_a_say(self.configuration.extenders, pod)

    def replay(self, recording: Recording) -> Replay:
        """A replay of a recording with this policy, which should be the recorded one."""
        return Replay(recording, self.build_profiles, self.asks_extenders if self.configuration.extenders else None)


def recorded_policy(recording: Recording) -> Policy:
    """The policy of a recording. Raises ConfigurationError, PluginLoadError or RecordingError."""
    manifest = recording.manifest
    setting = manifest.setting
    if setting.kubernetes not in VERSIONS:
        raise RecordingError(
            f"{recording.source} was made as Kubernetes {setting.kubernetes or '?'}; this Bayplan decides as "
            f"{', '.join(VERSIONS)}"
        )
    on = [name for name, value in setting.gates.items() if value]
    gates = gates_of(setting.kubernetes).but(*on, off=tuple(set(setting.gates) - set(on)))
    plugins = load_plugins([each.reference for each in setting.plugins])
    document = read_document(setting.configuration, f"{recording.source}: the configuration")
    loaded = read_document_of(document, Catalog(plugins, gates))
    changed = [
        f"plugin {', '.join(each.names)} has changed: {each.reference} is not the file that was recorded"
        for each in setting.plugins
        if each.sha256 and digest_of(each.reference) != each.sha256
    ]
    changed += [f"the recording is redacted: it lacks {what}" for what in manifest.left_out]
    if manifest.bayplan != version("bayplan"):
        changed.append(f"it was recorded by Bayplan {manifest.bayplan}, and this is {version('bayplan')}")
    return Policy(loaded.configuration, plugins, gates, tuple(changed))


def other_policy(
    recorded: Policy,
    configuration: KubeSchedulerConfiguration | None,
    plugins: Sequence[ExtraPlugin],
    gates: FeatureGates | None = None,
) -> Policy:
    """A policy to ask in place of a recorded one. Without a configuration, it has the recorded profiles' names.

    `plugins`: without any, those that were recorded. `gates`: by default the recorded ones.
    """
    gates = recorded.gates if gates is None else gates
    if configuration is None:
        plugins = plugins or recorded.plugins
        names = [profile.schedulerName for profile in recorded.configuration.profiles]
        profiles = [profile_of_all(name, Catalog(plugins, gates)) for name in names]
        configuration = KubeSchedulerConfiguration(profiles=profiles)
    return Policy(configuration, plugins, gates)


def setting_of(
    configuration: str, gates: FeatureGates, references: Sequence[str], plugins: Sequence[ExtraPlugin]
) -> Setting:
    """What is recorded about a policy. `configuration`: in YAML. `references`: as in `--plugin`, of the `plugins`."""
    recorded = []
    for reference in references:
        names = tuple(plugin.name for plugin in load_plugins([reference]))
        path = _file(reference)
        recorded.append(RecordedPlugin(reference if path is None else str(path.resolve()), names, digest_of(reference)))
    named = {name for each in recorded for name in each.names}
    recorded += [RecordedPlugin(plugin.name, (plugin.name,)) for plugin in plugins if plugin.name not in named]
    return Setting(configuration, gates.version, gates.chosen, tuple(recorded))


def digest_of(reference: str) -> str:
    """The SHA-256 of a plugin's file; "" for a module, and for a file that can't be read."""
    path = _file(reference)
    try:
        return "" if path is None else hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""


def _file(reference: str) -> Path | None:
    place, colon, name = reference.rpartition(":")
    path = Path(place if colon and name.isidentifier() else reference)
    return path if path.suffix == ".py" else None

"""How a recorded scheduler decides: its configuration and gates as recorded, and the plugins that the user names.

Nothing that a recording says is imported; `recorded_plugins.py` has the rule.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version

from bayplan.answers.replay.recorded_plugins import NamedPlugins, beside, recorded_plugins
from bayplan.answers.replay.replay import Replay
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.config import Catalog, ExtraPlugin, KubeSchedulerConfiguration, build_profiles
from bayplan.core.config.documents import read_document
from bayplan.core.config.loading import read_document_of
from bayplan.core.config.profiles import profile_of_all
from bayplan.core.executor.extenders import are_asked
from bayplan.core.framework.handle import Handle
from bayplan.core.framework.profile import Profile
from bayplan.core.versions import VERSIONS, FeatureGates, gates_of
from bayplan.running.recording.entries import Setting
from bayplan.running.recording.files import Recording, RecordingError


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
        return are_asked(self.configuration.extenders, pod)

    def replay(self, recording: Recording) -> Replay:
        """A replay of a recording with this policy, which should be the recorded one."""
        return Replay(recording, self.build_profiles, self.asks_extenders if self.configuration.extenders else None)


def recorded_policy(recording: Recording, named: NamedPlugins | None = None) -> Policy:
    """The policy of a recording, with the plugins that the user names.

    Raises ConfigurationError, PluginLoadError or RecordingError.
    """
    named = named or NamedPlugins()
    manifest = recording.manifest
    setting = manifest.setting
    if setting.kubernetes not in VERSIONS:
        raise RecordingError(
            f"{recording.source} was made as Kubernetes {setting.kubernetes or '?'}; this Bayplan decides as "
            f"{', '.join(VERSIONS)}"
        )
    on = [name for name, value in setting.gates.items() if value]
    gates = gates_of(setting.kubernetes).but(*on, off=tuple(set(setting.gates) - set(on)))
    plugins = named.recorded(recording)
    document = read_document(setting.configuration, f"{recording.source}: the configuration")
    loaded = read_document_of(document, Catalog(plugins, gates))
    changed = named.unverified(recording)
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

    `plugins`: beside those that were recorded. `gates`: by default the recorded ones.
    """
    gates = recorded.gates if gates is None else gates
    plugins = beside(recorded.plugins, plugins)
    if configuration is None:
        names = [profile.schedulerName for profile in recorded.configuration.profiles]
        profiles = [profile_of_all(name, Catalog(plugins, gates)) for name in names]
        configuration = KubeSchedulerConfiguration(profiles=profiles)
    return Policy(configuration, plugins, gates)


def setting_of(
    configuration: str, gates: FeatureGates, references: Sequence[str], plugins: Sequence[ExtraPlugin]
) -> Setting:
    """What is recorded about a policy. `configuration`: in YAML. `references`: as in `--plugin`, of the `plugins`."""
    return Setting(configuration, gates.version, gates.chosen, recorded_plugins(references, plugins))

"""The plugin under check: how it is made, and how it is asked what the scheduler would ask it, alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayplan.cluster.nodes import Nodes
from bayplan.cluster.pod_info import PodInfo
from bayplan.config import ExtraPlugin, KubeSchedulerProfile, build_profile
from bayplan.config.types import PluginConfig, PluginReference, Plugins, PluginSet
from bayplan.framework import interface
from bayplan.framework.functions import FunctionPlugin
from bayplan.framework.handle import Handle
from bayplan.framework.interface import CycleState, Plugin
from bayplan.framework.profile import FORMS, Point, Profile, implements, takes_part
from bayplan.framework.runner import (
    normalized,
    raw_scores,
    run_filter,
    run_pre_filter,
    run_pre_score,
    status_of,
)
from bayplan.framework.status import PluginError, Status
from bayplan.plugins.registry import PLUGINS
from bayplan.testing.contract.examples import StrictHandle, World

SCHEDULER = "default-scheduler"
"""The scheduler name of the pods of all examples."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A plugin by its class (or the instance itself), and how to make one for a cluster."""

    name: str
    cls: type[Any]
    make: Callable[[Handle], Any]
    module: str
    """Where its code is."""

    def build(self, handle: StrictHandle) -> Any:
        """One for a cluster, with the kinds that it looks up settled."""
        plugin = self.make(handle)
        handle.freeze()
        return plugin

    @classmethod
    def of(cls, plugin: ExtraPlugin, arguments: Mapping[str, Any] | None) -> Subject:
        """A class is built as a configuration with these arguments would have it; an instance is what it is."""

        def make(handle: Handle) -> Any:
            if isinstance(plugin, Plugin) and not arguments:
                return plugin
            return _configured(plugin, arguments or {}, handle)

        module = plugin.function.__module__ if isinstance(plugin, FunctionPlugin) else _class_of(plugin).__module__
        return cls(plugin.name, _class_of(plugin), make, module)

    def has(self, form: type[Any]) -> bool:
        """Whether the plugin has the methods of one of the protocols of `framework.interface`."""
        return issubclass(self.cls, form)

    def takes_part(self, *points: Point) -> bool:
        """Whether it takes part in any of these points."""
        return any(issubclass(self.cls, form) for point in points for form in FORMS[point])

    @property
    def decides(self) -> bool:
        """Whether it takes part in choosing a node."""
        return self.takes_part(Point.PRE_FILTER, Point.FILTER, Point.PRE_SCORE, Point.SCORE)

    @property
    def signs(self) -> bool:
        """Whether answers are shared between pods with equal signatures."""
        return self.has(interface.Sign)


@dataclass(frozen=True, slots=True)
class Said:
    """All that a plugin says of one pod, by names. Comparable.

    `enqueue`: PreEnqueue's refusal. `refusal`: PreFilter's. `names`: the nodes that it left. `skipped`: whether it
    skipped its Filter. `verdicts`: of every node that exists and came into question. `raw`, `scores`: before and after
    normalisation, of the nodes that it takes; None where it does not score.
    """

    enqueue: Status | None
    refusal: Status | None
    names: frozenset[str] | None
    skipped: bool
    verdicts: Mapping[str, Status]
    raw: Mapping[str, int] | None
    scores: Mapping[str, int] | None

    @property
    def takes(self) -> list[str]:
        """The nodes that it takes."""
        if self.enqueue is not None or self.refusal is not None:
            return []
        return [name for name, status in self.verdicts.items() if not status.rejected]

    def of_node(self, name: str) -> str:
        """What it says of a node, in words, scores before normalisation."""
        if self.refusal is not None:
            return f"PreFilter turns the pod down ({self.refusal.message})"
        status = self.verdicts.get(name)
        if status is None:
            return "PreFilter leaves it out"
        if status.rejected:
            return f"turns it down ({status.message})"
        return "takes it" if self.raw is None else f"takes it and scores {self.raw[name]}"

    def shared(self) -> tuple[object, ...]:
        """What pods with equal signatures share."""
        return self.refusal, self.names, self.verdicts, self.raw


def alone(plugin: Any) -> Profile:
    """A profile of this plugin and no other."""
    points = {point: [plugin] for point in Point if takes_part(plugin, point)}
    return Profile(SCHEDULER, points)


def ask(plugin: Any, world: World, pod: PodInfo | None = None) -> Said:
    """Ask about the pod that waits, or another one. Raises PluginError."""
    pod = pod or world.pod
    profile, cycle, nodes = alone(plugin), CycleState(), world.state.nodes
    enqueue = ask_pre_enqueue(plugin, pod)
    outcome = run_pre_filter(profile, cycle, pod, nodes)
    skipped = plugin.name in cycle.skip_filter
    if outcome.refusal is not None:
        return Said(enqueue, outcome.refusal, None, skipped, {}, None, None)
    if outcome.names is not None:
        found = sorted(position for name in outcome.names if (position := nodes.position(name)) is not None)
        nodes = nodes.at(np.array(found, dtype=np.intp))
    verdicts = run_filter(profile, cycle, pod, nodes)
    live = np.flatnonzero(nodes.live).tolist()
    said = {nodes.name(position): verdicts.of(position) for position in live}
    raw, scores = ask_scores(plugin, profile, cycle, pod, nodes.at(verdicts.feasible()))
    return Said(enqueue, None, outcome.names, skipped, said, raw, scores)


def ask_pre_enqueue(plugin: Any, pod: PodInfo) -> Status | None:
    """PreEnqueue's refusal, if it is one."""
    if not implements(plugin, interface.PreEnqueue):
        return None
    try:
        answer = plugin.pre_enqueue(pod)
    except Exception as error:  # whatever it raises is the finding
        raise PluginError(plugin.name, "PreEnqueue", f"{type(error).__name__}: {error}") from error
    status = status_of(answer, plugin, "PreEnqueue")
    return status if status.rejected else None


def ask_scores(
    plugin: Any, profile: Profile, cycle: CycleState, pod: PodInfo, nodes: Nodes
) -> tuple[dict[str, int] | None, dict[str, int] | None]:
    """The scores of nodes that are all feasible, before and after normalisation."""
    if not len(nodes):
        return None, None
    run_pre_score(profile, cycle, pod, nodes)
    if not takes_part(plugin, Point.SCORE) or plugin.name in cycle.skip_score:
        return None, None
    names = [nodes.name(position) for position in range(len(nodes))]
    raw = raw_scores(plugin, cycle, pod, nodes)
    kept = dict(zip(names, raw.tolist(), strict=True))
    return kept, dict(zip(names, normalized(plugin, cycle, pod, raw.copy(), nodes).tolist(), strict=True))


def _configured(plugin: ExtraPlugin, arguments: Mapping[str, Any], handle: Handle) -> Any:
    """The plugin as a configuration with it, and with nothing else but what has to be, would make it."""
    enabled = Plugins(multiPoint=PluginSet([PluginReference(plugin.name)], [PluginReference("*")]))
    for point, usual in ((Point.QUEUE_SORT, "PrioritySort"), (Point.BIND, "DefaultBinder")):
        if not any(issubclass(_class_of(plugin), form) for form in FORMS[point]):
            setattr(enabled, point.value, PluginSet([PluginReference(usual)]))
    config = [PluginConfig(plugin.name, dict(arguments))] if arguments else []
    profile = KubeSchedulerProfile(schedulerName=SCHEDULER, plugins=enabled, pluginConfig=config)
    entry = PLUGINS.get(plugin.name)
    in_tree = entry is not None and entry.factory is plugin
    built = build_profile(profile, handle, [] if in_tree else [plugin])
    return next(each for each in built.every() if each.name == plugin.name)


def _class_of(plugin: ExtraPlugin) -> type[Any]:
    return plugin if isinstance(plugin, type) else type(plugin)

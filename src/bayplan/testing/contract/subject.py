"""The plugin under test: builds it, and calls it alone in the way of the scheduler.

It is called through the framework's runner, with a handle in memory, so the checks see what a scheduler sees.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.config import ConfigurationError, ExtraPlugin, KubeSchedulerProfile
from bayplan.core.config.catalog import Catalog, in_tree_plugin
from bayplan.core.config.planning import plan_profile
from bayplan.core.config.types import PluginConfig, PluginReference, Plugins, PluginSet
from bayplan.core.framework import interface
from bayplan.core.framework.calling import call
from bayplan.core.framework.functions import FunctionPlugin
from bayplan.core.framework.handle import Handle
from bayplan.core.framework.interface import CycleState
from bayplan.core.framework.profile import FORMS, Point, Profile, has_form, implements, takes_part
from bayplan.core.framework.runner import normalized, raw_scores, run_filter, run_pre_filter, run_pre_score, status_of
from bayplan.core.framework.status import Code, Status
from bayplan.core.versions import DEFAULT_GATES, FeatureGates
from bayplan.testing.contract.examples import BuiltExample, Example

SCHEDULER = "default-scheduler"
"""The scheduler name of the pods of all examples."""
_DECIDING = (Point.PRE_FILTER, Point.FILTER, Point.PRE_SCORE, Point.SCORE)


@dataclass(frozen=True, slots=True)
class Subject:
    """A plugin by its class, and how to make one for a cluster.

    `module`: the name of the module with its code. `pure`: whether it is a function that was declared pure.
    """

    name: str
    cls: type[Any]
    make: Callable[[Handle], Any]
    module: str
    pure: bool = False

    @classmethod
    def of(
        cls, plugin: ExtraPlugin, arguments: Mapping[str, Any] | None, gates: FeatureGates = DEFAULT_GATES
    ) -> Subject:
        """Build a class with these arguments, as from `pluginConfig`, and gates; use an instance as is.

        Raises ConfigurationError for arguments that the plugin does not accept.
        """
        keywords = _decoded(plugin, arguments or {}, gates)
        if not isinstance(plugin, type):
            module = plugin.function.__module__ if isinstance(plugin, FunctionPlugin) else type(plugin).__module__
            pure = isinstance(plugin, FunctionPlugin) and plugin.pure
            return cls(plugin.name, type(plugin), lambda _: plugin, module, pure)
        parameters = inspect.signature(plugin).parameters
        takes_handle = "handle" in parameters
        if "gates" in parameters:
            keywords["gates"] = gates

        def make(handle: Handle) -> Any:
            return plugin(**keywords, **({"handle": handle} if takes_handle else {}))

        return cls(plugin.name, plugin, make, plugin.__module__)

    def start(self, example: Example, client: Any = None) -> tuple[Any, BuiltExample]:
        """Return a new plugin in a new cluster. `client`: the API client that its handle has."""
        world = example.build()
        world.handle.client = client
        plugin = self.make(world.handle)
        world.handle.freeze()
        return plugin, world

    def has(self, form: type[Any]) -> bool:
        """Whether the plugin has the methods of one of the protocols of `framework.interface`, with their promises."""
        return has_form(self.cls, form)

    def takes_part(self, *points: Point) -> bool:
        """Whether it implements any of these points."""
        return any(self.has(form) for point in points for form in FORMS[point])

    @property
    def decides(self) -> bool:
        """Whether it implements a point that chooses a node."""
        return self.takes_part(*_DECIDING)

    @property
    def answers(self) -> bool:
        """Whether `ask` calls it at all."""
        return self.decides or self.has(interface.PreEnqueue)

    @property
    def shares(self) -> bool:
        """Whether pods with equal signatures share its answers."""
        return self.decides and self.has(interface.Sign)


@dataclass(frozen=True, slots=True)
class Answers:
    """All answers of a plugin about one pod.

    `enqueue` and `refusal`: the rejections by PreEnqueue and PreFilter. `names`: the nodes that PreFilter left.
    `skipped`: whether it skipped Filter. `verdicts`: of every node that exists and that PreFilter left. `raw` and
    `scores`: of the feasible nodes, before and after normalization; None where the plugin does not score.
    """

    enqueue: Status | None
    refusal: Status | None = None
    names: frozenset[str] | None = None
    skipped: bool = False
    verdicts: Mapping[str, Status] = field(default_factory=dict)
    raw: Mapping[str, int] | None = None
    scores: Mapping[str, int] | None = None

    @property
    def feasible(self) -> list[str]:
        """The feasible nodes."""
        if self.enqueue is not None or self.refusal is not None:
            return []
        return [name for name, status in self.verdicts.items() if not status.rejected]

    def texts(self, *, shared: bool = False) -> dict[str, str]:
        """Return the answers as text, by what they are about. `shared`: only those that equal signatures share."""
        texts = {} if shared else {"the answer of PreEnqueue": text_of(self.enqueue), "Filter": str(self.skipped)}
        texts["the answer of PreFilter"] = (
            text_of(self.refusal) if self.names is None else f"nodes {sorted(self.names)}"
        )
        for name, status in self.verdicts.items():
            score = f" with score {self.raw[name]}" if self.raw and name in self.raw else ""
            if not shared and self.scores and name in self.scores:
                score += f", normalized {self.scores[name]}"
            texts[f"node {name}"] = text_of(status) + score
        return texts


def text_of(status: Status | None) -> str:
    """Return a verdict as text."""
    return f"{status.code} ({status.message})" if status is not None and status.code is not Code.SUCCESS else "feasible"


def difference(
    one: Mapping[str, str], other: Mapping[str, str], first: str, second: str, nodes: Collection[str] | None = None
) -> str:
    """Return where texts of answers differ; "" if they do not. `nodes`: those to compare, and nothing else.

    `first` and `second`: when, or for what, the one and the other were given.
    """
    for about in {**one, **other} if nodes is None else sorted(f"node {name}" for name in nodes):
        before, after = one.get(about, "left out"), other.get(about, "left out")
        if before != after:
            return f"{about} is {before} {first} and {after} {second}"
    return ""


def alone(plugin: Any) -> Profile:
    """Return a profile of this plugin and no other."""
    return Profile(SCHEDULER, {point: [plugin] for point in Point if takes_part(plugin, point)})


def ask(
    plugin: Any, world: BuiltExample, pod: PodInfo | None = None, asked: Callable[..., None] | None = None
) -> Answers:
    """Ask about the pending pod, or another one. Raises PluginError.

    `asked` is called after every point with its name and the CycleState, and after NormalizeScore with the raw scores
    and the array of them that the plugin was given, too.
    """
    pod, tell = pod or world.pod, asked or (lambda *_: None)
    profile, cycle, nodes = alone(plugin), CycleState(), world.state.nodes
    enqueue = ask_pre_enqueue(plugin, pod)
    tell("PreEnqueue", cycle)
    outcome = run_pre_filter(profile, cycle, pod, nodes)
    tell("PreFilter", cycle)
    skipped = plugin.name in cycle.skip_filter
    if outcome.refusal is not None:
        return Answers(enqueue, outcome.refusal, skipped=skipped)
    if outcome.names is not None:
        left = [position for name in sorted(outcome.names) if (position := nodes.position(name)) is not None]
        nodes = nodes.at(np.array(left, dtype=np.intp))
    verdicts = run_filter(profile, cycle, pod, nodes)
    live = np.flatnonzero(nodes.live).tolist()
    by_name = {nodes.name(position): verdicts.of(position) for position in live}
    answers = Answers(enqueue, None, outcome.names, skipped, by_name)
    tell("Filter", cycle)
    feasible = nodes.at(verdicts.feasible())
    if not len(feasible):
        return answers
    run_pre_score(profile, cycle, pod, feasible)
    tell("PreScore", cycle)
    if not takes_part(plugin, Point.SCORE) or plugin.name in cycle.skip_score:
        return answers
    raw = raw_scores(plugin, cycle, pod, feasible)
    tell("Score", cycle)
    given = raw.copy()
    scores = normalized(plugin, cycle, pod, given, feasible)
    tell("NormalizeScore", cycle, raw, given)
    names = [feasible.name(position) for position in range(len(feasible))]
    return replace(
        answers, raw=dict(zip(names, raw.tolist(), strict=True)), scores=dict(zip(names, scores.tolist(), strict=True))
    )


def ask_pre_enqueue(plugin: Any, pod: PodInfo) -> Status | None:
    """PreEnqueue's rejection, or None."""
    if not implements(plugin, interface.PreEnqueue):
        return None
    status = status_of(call(plugin, "PreEnqueue", plugin.pre_enqueue, pod), plugin, "PreEnqueue")
    return status if status.rejected else None


def in_tree(name: str, *services: Any) -> Any:
    """Return a new in-tree plugin. `services`: what its constructor needs."""
    factory = in_tree_plugin(name)
    assert factory is not None, name
    return factory(*services)


def _decoded(plugin: ExtraPlugin, arguments: Mapping[str, Any], gates: FeatureGates) -> dict[str, Any]:
    """The keyword arguments of a plugin that a configuration with these arguments enables."""
    enabled = Plugins(multiPoint=PluginSet([PluginReference(plugin.name)], [PluginReference("*")]))
    cls = plugin if isinstance(plugin, type) else type(plugin)
    for point, usual in ((Point.QUEUE_SORT, "PrioritySort"), (Point.BIND, "DefaultBinder")):
        if not any(issubclass(cls, form) for form in FORMS[point]):
            setattr(enabled, point.value, PluginSet([PluginReference(usual)]))
    config = [PluginConfig(plugin.name, dict(arguments))] if arguments else []
    known = in_tree_plugin(plugin.name) is plugin
    profile = KubeSchedulerProfile(schedulerName=SCHEDULER, plugins=enabled, pluginConfig=config)
    plan, faults = plan_profile(profile, Catalog([] if known else [plugin], gates))
    if faults:
        raise ConfigurationError(faults)
    return {"args": plan.arguments[plugin.name]} if plugin.name in plan.arguments else {}

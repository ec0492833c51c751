"""Promises about Reserve, Permit, PreBind, Bind, PostBind and PostFilter."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine, Iterable
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.framework import interface
from bayplan.core.framework.binding_runner import (
    run_bind,
    run_permit,
    run_post_bind,
    run_pre_bind,
    run_pre_bind_pre_flight,
    run_reserve,
    run_unreserve,
)
from bayplan.core.framework.interface import CycleState
from bayplan.core.framework.profile import Point, Profile
from bayplan.core.framework.runner import run_filter, run_post_filter, run_pre_filter
from bayplan.core.framework.status import Code, PluginError
from bayplan.core.framework.verdicts import Diagnosis
from bayplan.core.framework.what_if import ProfileWhatIf
from bayplan.testing.contract.examples import BuiltExample, Example, pod_info
from bayplan.testing.contract.promise import Breach, promise
from bayplan.testing.contract.subject import Subject, alone, ask, difference, in_tree

BIND_SECONDS = 10.0
"""How long PreBind and Bind may take."""
_LAST_BINDER = SimpleNamespace(name="LastBinder", bind=lambda *_: None)
"""The Bind plugin after the one under test, which may skip pods."""


@promise(
    "reserve", "Unreserve undoes Reserve, however often it is called", lambda subject: subject.takes_part(Point.RESERVE)
)
def reserve(subject: Subject, example: Example) -> None:
    """Unreserve undoes Reserve. It does nothing when called again, or for a pod that was never reserved."""
    plugin, world = subject.start(example)
    profile = alone(plugin)
    before = ask(plugin, world).texts() if subject.answers else {}
    for node in example.nodes:
        for what, reserved in (("Unreserve without Reserve", False), ("Reserve and Unreserve", True)):
            cycle, pod = CycleState(), pod_info(example.pod)
            run_pre_filter(profile, cycle, pod, world.state.nodes)
            if reserved:
                run_reserve(profile, cycle, pod, node)
            for times in ("", " twice"):
                for error in run_unreserve(profile, cycle, pod, node):
                    raise Breach(
                        f"{what}{times} on node {node}: {error}",
                        "let unreserve remove what it finds of the pod, and raise nothing if there is nothing",
                    )
            after = ask(plugin, world).texts() if subject.answers else {}
            if found := difference(before, after, "before", f"after {what} on node {node}"):
                raise Breach(found, "let unreserve return exactly what reserve took for this pod, and nothing twice")


@promise(
    "post-filter",
    "PostFilter returns a PostFilterResult whose victims are on the nominated node",
    lambda subject: subject.has(interface.PostFilter),
)
def post_filter(subject: Subject, example: Example) -> None:
    """PostFilter is called for a pod that fits no node, with NodeResourcesFit in addition to the plugin."""
    plugin, world = subject.start(example)
    profile, fit = alone(plugin), in_tree("NodeResourcesFit")
    points = (Point.PRE_FILTER, Point.FILTER)
    profile = profile.with_plugins({point: [*profile.at(point), fit] for point in points})
    cycle, nodes = CycleState(), world.state.nodes
    if run_pre_filter(profile, cycle, world.pod, nodes).refusal is not None:
        return
    verdicts = run_filter(profile, cycle, world.pod, nodes)
    if verdicts.feasible_mask.any():
        return
    diagnosis = Diagnosis(world.state.table.live_count, verdicts)
    what_if = ProfileWhatIf(profile, world.state.nominations, random.Random(0))
    try:
        next(run_post_filter(profile, cycle, world.pod, diagnosis, what_if))
    except StopIteration as end:
        result = end.value
    elsewhere = [pod.key for pod in result.victims if pod.node_name != result.nominated_node]
    if elsewhere:
        raise Breach(
            f"it nominated node {result.nominated_node!r} with victims on other nodes: {', '.join(elsewhere)}",
            "name only victims that are on the nominated node",
        )


@promise(
    "binding",
    "Reserve, Permit, PreBind, Bind and PostBind return what their types say",
    lambda subject: subject.takes_part(Point.RESERVE, Point.PERMIT, Point.PRE_BIND, Point.BIND, Point.POST_BIND),
)
def binding(subject: Subject, example: Example) -> None:
    """A pod is bound to each node through all extension points in the scheduler's order."""
    plugin, world = subject.start(example, SilentClient())
    profile = alone(plugin)
    profile = profile.with_plugins({Point.BIND: [*profile.at(Point.BIND), _LAST_BINDER]})
    try:
        _in_new_loop(_bind_everywhere(profile, world, example.nodes))
    except Breach:
        raise
    except Exception as error:
        if isinstance(error, PluginError) and error.point not in {"PreBind", "Bind"}:
            raise
        raise Breach(
            str(error) if isinstance(error, PluginError) else f"PreBind or Bind raised {type(error).__name__}",
            f"let it end within {BIND_SECONDS:g} s and raise nothing, or skip the check 'binding' if it needs an API "
            "server",
        ) from error


class SilentClient:
    """An API client that does nothing: it accepts every write and has no objects. Implements
    framework.handle.ApiClient.
    """

    def __getattr__(self, verb: str) -> Any:
        async def call(_kind: Any = None, obj: Any = None, *_: Any, **__: Any) -> Any:
            return obj if verb in {"create", "update"} else None

        return call


async def _bind_everywhere(profile: Profile, world: BuiltExample, nodes: Iterable[str]) -> None:
    for node in nodes:
        cycle = CycleState()
        if run_pre_filter(profile, cycle, world.pod, world.state.nodes).refusal is not None:
            return
        async with asyncio.timeout(BIND_SECONDS):
            errors = await _bind(profile, cycle, world.pod, node)
        for error in errors:
            raise Breach(str(error), f"let {error.point} raise nothing: the pod is bound, or rejected, already")


async def _bind(profile: Profile, cycle: CycleState, pod: PodInfo, node: str) -> list[PluginError]:
    """Bind a pod to a node as the scheduler does, or undo it. Returns what is raised afterwards."""
    reserved = run_reserve(profile, cycle, pod, node).code is Code.SUCCESS
    if reserved and not run_permit(profile, cycle, pod, node)[0].rejected:
        plugins = run_pre_bind_pre_flight(profile, cycle, pod, node)
        prepared = not (await run_pre_bind(plugins, cycle, pod, node)).rejected
        if prepared and not (await run_bind(profile, cycle, pod, node)).rejected:
            return run_post_bind(profile, cycle, pod, node)
    return run_unreserve(profile, cycle, pod, node)


def _in_new_loop(coroutine: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine in a thread: the caller may be inside of an event loop."""
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, coroutine).result()

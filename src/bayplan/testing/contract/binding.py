"""What a plugin does with a pod that has its node: it sets aside, permits, binds and tells, as its types say."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from bayplan.api.kinds import NODE
from bayplan.cluster.pod_info import PodInfo
from bayplan.cluster.state import ClusterState
from bayplan.framework.interface import CycleState
from bayplan.framework.profile import Point, Profile
from bayplan.framework.runner import (
    run_bind,
    run_permit,
    run_post_bind,
    run_pre_bind,
    run_pre_bind_pre_flight,
    run_pre_filter,
    run_reserve,
    run_unreserve,
)
from bayplan.framework.status import Code, PluginError
from bayplan.testing.contract.examples import Example, StrictHandle
from bayplan.testing.contract.faults import Finding
from bayplan.testing.contract.subject import Subject, alone

T = TypeVar("T")

ANSWER_SECONDS = 10.0
"""How long PreBind and Bind may take here."""


class SilentClient:
    """An API client that does nothing: what is written is taken, and nothing else is answered. Implements
    framework.handle.ApiClient.
    """

    async def create(self, _kind: Any, obj: Any, *_: Any, **__: Any) -> Any:
        """What was to be made."""
        return obj

    async def update(self, _kind: Any, obj: Any, *_: Any, **__: Any) -> Any:
        """What was to be written."""
        return obj

    def __getattr__(self, verb: str) -> Any:
        async def call(*_: Any, **__: Any) -> None:
            """Do nothing."""

        return call


class ClientHandle(StrictHandle):
    """A handle with a client."""

    client: Any

    def __init__(self, state: ClusterState) -> None:
        super().__init__(state)
        self.client = SilentClient()


class BindsTheRest:
    """The Bind plugin after the one that is checked, which may leave pods to it."""

    name = "BindsTheRest"

    def bind(self, *_: Any) -> None:
        """Have nothing against it."""


def check_binding(subject: Subject, example: Example) -> Finding | None:
    """Reserve, Permit, PreBind, Bind and PostBind answer what the scheduler can take, in their order, on every node."""
    if not subject.takes_part(Point.RESERVE, Point.PERMIT, Point.PRE_BIND, Point.BIND, Point.POST_BIND):
        return None
    world = example.build()
    profile = alone(subject.build(ClientHandle(world.state)))
    profile.plugins = {**profile.plugins, Point.BIND: [*profile.at(Point.BIND), BindsTheRest()]}
    for node in [document["metadata"]["name"] for document in example.of(NODE)]:
        cycle = CycleState()
        try:
            if run_pre_filter(profile, cycle, world.pod, world.state.nodes).refusal is not None:
                return None
            for error in _bind(profile, cycle, world.pod, node):
                return Finding(str(error), f"let {error.point} raise nothing: the pod is bound, or given up, already")
        except PluginError as error:
            wanted = f"let {error.point} answer what its point in bayplan.framework.interface says"
            return Finding(str(error), wanted, error)
        except TimeoutError:
            return Finding(
                f"on node {node}, PreBind or Bind took longer than {ANSWER_SECONDS:g} s",
                "let it end, or skip the check 'binding' if it waits for a real cluster",
            )
        except Exception as error:  # noqa: BLE001 - whatever it raises is the finding
            return Finding(
                f"on node {node} it raised {type(error).__name__}: {error}",
                "let it raise nothing, or skip the check 'binding' if it needs an API server",
                error,
            )
    return None


def _bind(profile: Profile, cycle: CycleState, pod: PodInfo, node: str) -> list[PluginError]:
    """Take a pod to its node as the scheduler does, or give it up. Returns what is raised after it is bound or not."""
    accepted = run_reserve(profile, cycle, pod, node).code is Code.SUCCESS
    accepted = accepted and not run_permit(profile, cycle, pod, node)[0].rejected
    if accepted:
        run_pre_bind_pre_flight(profile, cycle, pod, node)
        accepted = not awaited(run_pre_bind, profile, cycle, pod, node).rejected
    if accepted and not awaited(run_bind, profile, cycle, pod, node).rejected:
        return run_post_bind(profile, cycle, pod, node)
    return run_unreserve(profile, cycle, pod, node)


def awaited(run: Callable[..., Coroutine[Any, Any, T]], *arguments: Any) -> T:
    """What a coroutine function returns, from a loop of its own: the caller may be inside of one."""

    async def answer() -> T:
        async with asyncio.timeout(ANSWER_SECONDS):
            return await run(*arguments)

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, answer()).result()

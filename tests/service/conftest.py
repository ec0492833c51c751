"""Shared by the tests of the service: pods, a manual clock, and a client with scripted replies."""

import asyncio
from collections import deque
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import pytest
from lightkube.models.core_v1 import Container, Pod, PodSpec, PodStatus
from lightkube.models.meta_v1 import ObjectMeta
from tests.support.stories import here, loop_factories

from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.executor.handlers import NodeHandler, Receiver
from bayplan.core.executor.runtime import Runtime
from bayplan.core.queue import QueueProfile, SchedulingQueue
from bayplan.running.service.informers import PodInformer
from bayplan.running.service.services import Services

__all__ = ["here"]  # a fixture
pytest_asyncio_loop_factories = loop_factories


@asynccontextmanager
async def writing(writer):
    """Run a writer, and let it write what it has at the end."""
    task = asyncio.create_task(writer.run())
    try:
        yield writer
        await writer.drain(5)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


class StillClock:
    def __init__(self) -> None:
        self.seconds = 1000.0

    def monotonic(self) -> float:
        return self.seconds

    def now(self) -> datetime:
        return datetime.fromtimestamp(1_800_000_000 + self.seconds, UTC)


class ScriptedClient:
    """Records every request, and replies with the next scripted reply of the verb, or with success."""

    def __init__(self) -> None:
        self.requests: list[tuple[Any, ...]] = []
        self.script: dict[str, deque[Any]] = {}
        self.held: dict[str, asyncio.Event] = {}

    def hold(self, verb: str) -> asyncio.Event:
        """Make requests of this verb wait until the returned event is set."""
        return self.held.setdefault(verb, asyncio.Event())

    def will(self, verb: str, *answers: Any) -> None:
        self.script.setdefault(verb, deque()).extend(answers)

    def _answer(self, verb: str, *request: Any) -> Any:
        self.requests.append((verb, *request))
        answers = self.script.get(verb)
        answer = answers.popleft() if answers else None
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def bind(self, namespace: str, name: str, node: str, *, uid: str | None = None) -> None:
        self._answer("bind", namespace, name, node, uid)

    async def get(self, kind: Any, name: str, namespace: str | None = None) -> Any:
        if "get" in self.held:
            await self.held["get"].wait()
        return self._answer("get", kind.kind, namespace, name)

    async def patch(self, kind: Any, name: str, patch: Any, namespace: str | None = None, **options: Any) -> Any:
        self._answer("patch", kind.kind, namespace, name, patch)
        return Pod(metadata=ObjectMeta(name=name, resourceVersion="8"))

    async def delete(self, kind: Any, name: str, namespace: str | None = None, *, uid: str | None = None) -> None:
        self._answer("delete", kind.kind, namespace, name, uid)

    async def request(self, method: str, path: str, *, body: bytes | None = None) -> bytes:
        return self._answer("request", method, path, body) or b"{}"


def make_pod(name: str = "web", *, uid: str = "", node: str = "", **status: Any) -> PodInfo:
    return PodInfo(
        Pod(
            metadata=ObjectMeta(
                name=name, namespace="default", uid=uid or f"uid-{name}", resourceVersion="7", generation=1
            ),
            spec=PodSpec(containers=[Container(name="c")], schedulerName="test", nodeName=node or None),
            status=PodStatus(**status),
        )
    )


def make_runtime(services: Services, *profiles: Any, **ports: Any) -> Runtime:
    """A runtime with the queue of these profiles, on an API server."""
    by_name = {profile.scheduler_name: profile for profile in profiles}
    queues = {name: QueueProfile.of(profile) for name, profile in by_name.items()}
    queue = SchedulingQueue(queues, services.state.nominations)
    given = services.ports(**ports)
    return Runtime(by_name, services.state, queue, services.waiting, services.intake, given, services.failures)


class Watch:
    """Reports changes to the handler of a kind, as a watch does."""

    def __init__(self, handler: Any, key: Any) -> None:
        self._handler, self._key = handler, key

    def added(self, new: Any) -> None:
        self._handler.put(self._key(new), new)

    def updated(self, _old: Any, new: Any) -> None:
        self._handler.put(self._key(new), new)

    def deleted(self, old: Any) -> None:
        self._handler.removed(self._key(old))


def watch_pods(runtime: Runtime) -> Watch:
    """A watch of pods."""
    return Watch(PodInformer(Receiver.of(runtime), runtime.ports.recorder), lambda pod: pod.key)


def watch_nodes(runtime: Runtime) -> Watch:
    """A watch of nodes."""
    return Watch(NodeHandler(Receiver.of(runtime)), lambda node: node.object.metadata.name)


def events_of(services: Services) -> list[dict[str, Any]]:
    """The events that were recorded and are not written yet."""
    return [waiting.event for waiting in services.recorder._writer._waiting]


@pytest.fixture
def clock() -> StillClock:
    return StillClock()


@pytest.fixture
def client() -> ScriptedClient:
    return ScriptedClient()

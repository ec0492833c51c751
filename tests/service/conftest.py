"""What the tests of the service share: pods, a clock that stands still, and an API server that answers as told."""

from __future__ import annotations

from collections import deque
from datetime import UTC, datetime
from typing import Any

import pytest
from lightkube.models.core_v1 import Container, Pod, PodSpec, PodStatus
from lightkube.models.meta_v1 import ObjectMeta

from bayplan.cluster.pod_info import PodInfo
from bayplan.service.event_recorder import EventRecorder


class StillClock:
    def __init__(self) -> None:
        self.seconds = 1000.0

    def monotonic(self) -> float:
        return self.seconds

    def now(self) -> datetime:
        return datetime.fromtimestamp(1_800_000_000 + self.seconds, UTC)


def recorded(recorder: EventRecorder) -> list[dict[str, Any]]:
    """The events that wait to be written."""
    return [event for event, _ in recorder._writer._queue._queue]


class ScriptedClient:
    """Notes every request; answers with what was scripted for its verb, else with success."""

    def __init__(self) -> None:
        self.requests: list[tuple[Any, ...]] = []
        self.script: dict[str, deque[Any]] = {}

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
        return self._answer("get", kind.kind, namespace, name)

    async def patch(self, kind: Any, name: str, patch: Any, namespace: str | None = None, **options: Any) -> Any:
        return self._answer("patch", kind.kind, namespace, name, patch)

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


@pytest.fixture
def clock() -> StillClock:
    return StillClock()


@pytest.fixture
def client() -> ScriptedClient:
    return ScriptedClient()

"""How far events lag behind bindings while the API server is busy or slow, on virtual time."""

import asyncio

import msgspec
from tests.service.conftest import make_pod
from tests.support.tables import cases

from bayplan.running.service import event_recorder
from bayplan.running.service.event_recorder import EventRecorder
from bayplan.testing.virtual_time import VirtualTime

CONNECTIONS = 100
"""Bindings at once."""


class SlowServer:
    """A client whose server needs some time for a request, and handles so many a second at most, in their order.

    `lags`: how long after its recording each event was written.
    """

    def __init__(self, loop: VirtualTime, *, rate: float, seconds: float = 0.0) -> None:
        self._loop, self._interval, self._seconds = loop, 1 / rate, seconds
        self._free_at = 0.0
        self.recorded: dict[str, float] = {}
        self.lags: list[float] = []

    async def bind(self) -> None:
        await self._turn()

    async def request(self, method: str, path: str, *, body: bytes) -> bytes:
        await self._turn()
        name = msgspec.json.decode(body)["regarding"]["name"]
        self.lags.append(self._loop.time() - self.recorded[name])
        return b"{}"

    async def _turn(self) -> None:
        self._free_at = max(self._free_at, self._loop.time()) + self._interval
        await asyncio.sleep(self._free_at - self._loop.time() + self._seconds)


async def burst(server: SlowServer, recorder: EventRecorder, pods: int) -> None:
    """Bind pods as fast as the server allows, and record an event for each."""
    numbers = iter(range(pods))

    async def bind() -> None:
        for number in numbers:
            await server.bind()
            record(server, recorder, number)

    await asyncio.gather(*[bind() for _ in range(CONNECTIONS)])


async def steadily(server: SlowServer, recorder: EventRecorder, pods: int) -> None:
    """Record 500 events a second."""
    for number in range(pods):
        record(server, recorder, number)
        await asyncio.sleep(1 / 500)


def record(server: SlowServer, recorder: EventRecorder, number: int) -> None:
    pod = make_pod(f"pod-{number}")
    server.recorded[pod.name] = asyncio.get_running_loop().time()
    recorder.record(pod, "test", "Normal", "Scheduled", "Binding", "assigned")


def run(work, pods: int, **server_options: float) -> tuple[SlowServer, EventRecorder]:
    async def story() -> tuple[SlowServer, EventRecorder]:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualTime)
        server = SlowServer(loop, **server_options)
        recorder = EventRecorder(server, loop)  # type: ignore[arg-type]  # only `request` is needed
        writing = asyncio.create_task(recorder.run())
        await work(server, recorder, pods)
        await recorder.drain(600)
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)
        return server, recorder

    with asyncio.Runner(loop_factory=VirtualTime) as runner:
        return runner.run(story())


@cases(
    "work, options",
    {
        "a server that bindings keep busy": (burst, {"rate": 1000}),
        "a server with a long way to it": (steadily, {"rate": 10_000, "seconds": 0.15}),
    },
)
def test_events_are_written_within_5_seconds_at_500_pods_per_second(work, options):
    server, recorder = run(work, 8000, **options)
    assert (len(server.lags), recorder.dropped, recorder.lag) == (8000, 0, 0)
    assert max(server.lags) < 5


def test_events_beyond_the_capacity_are_dropped_and_the_others_lag_by_what_waits(monkeypatch):
    monkeypatch.setattr(event_recorder, "_CAPACITY", 300)
    server, recorder = run(steadily, 3000, rate=100)
    assert recorder.dropped > 0
    assert len(server.lags) + recorder.dropped == 3000
    assert max(server.lags) < (300 + event_recorder._MOST_WRITERS + 1) / 100

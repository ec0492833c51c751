"""A network in memory that loses replies, loses requests, and delivers some after their sender has given them up."""

import asyncio
import random
from collections import deque
from collections.abc import Callable

from bayplan.client import TransportError
from bayplan.running.client.transport import ApiRequest, Response
from bayplan_devcluster.in_memory import InMemoryTransport

REPLY_LOST, REQUEST_LOST = 0.0, float("inf")
"""After how many seconds a request arrives whose sender gets no reply: at once, and never."""


class LossyTransport(InMemoryTransport):
    """Carries writes out as a script says, or else at random.

    `script`: what happens to the next writes whose path `concerns` returns true for: None for an undisturbed one, or
    after how many seconds it arrives although its sender gets no reply. After that, a write is disturbed with the
    probability `share`. `late`: the most seconds that a random one takes.
    """

    def __init__(
        self,
        server: object,
        *script: float | None,
        concerns: Callable[[str], bool] = lambda _: True,
        rng: random.Random | None = None,
        share: float = 0.0,
        late: float = 0.0,
    ) -> None:
        super().__init__(server)
        self.script = deque(script)
        self.lost: list[str] = []
        """The paths of the disturbed writes."""
        self._concerns = concerns
        self._rng = rng or random.Random(0)
        self._share = share
        self._late = late
        self._under_way: set[asyncio.Task[object]] = set()

    async def send(self, request: ApiRequest) -> Response:
        """See Transport."""
        after = self._fate(request)
        if after is None:
            return await super().send(request)
        self.lost.append(request.path)
        if after == REPLY_LOST:
            await super().send(request)
        elif after < REQUEST_LOST:
            self._deliver(request, after)
        await asyncio.sleep(0.05)
        raise TransportError(f"{request.method} {request.path}: the request timed out", sent=True)

    async def arrived(self) -> None:
        """Wait until no request is under way any more."""
        while self._under_way:
            await asyncio.wait(self._under_way)

    def _fate(self, request: ApiRequest) -> float | None:
        if request.method == "GET" or not self._concerns(request.path):
            return None
        if self.script:
            return self.script.popleft()
        if self._rng.random() >= self._share:
            return None
        return self._rng.choice([REPLY_LOST, REQUEST_LOST, self._rng.uniform(0, self._late)])

    def _deliver(self, request: ApiRequest, after: float) -> None:
        send = super().send

        async def deliver() -> None:
            await asyncio.sleep(after)
            await send(request)

        task = asyncio.create_task(deliver())
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

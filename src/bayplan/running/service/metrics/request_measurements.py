"""RequestMeasurements: the requests of the scheduler's own client, which it observes."""

from __future__ import annotations

from collections import Counter

from bayplan.running.service.metrics.instruments import Histograms

_SECONDS = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
_BYTES = (64, 256, 512, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216)


class RequestMeasurements:
    """Requests to the API server. Implements bayplan.running.client.http.RequestObserver.

    Attributes:
        count: by status code, method and host.
        seconds, sent_bytes, received_bytes: by method and host. rate_limited: waits for the client's rate limit.
    """

    def __init__(self) -> None:
        self.count: Counter[tuple[str, str, str]] = Counter()
        self.seconds = Histograms(_SECONDS)
        self.sent_bytes = Histograms(_BYTES)
        self.received_bytes = Histograms(_BYTES)
        self.rate_limited = Histograms(_SECONDS)

    def requested(self, method: str, host: str, code: str, seconds: float, sent: int, received: int) -> None:
        """Record a request. `code`: the status, or `<error>` without a response. `sent` and `received` in bytes."""
        self.count[code, method, host] += 1
        labels = method, host
        self.seconds[labels].observe(seconds)
        self.sent_bytes[labels].observe(sent)
        self.received_bytes[labels].observe(received)

    def waited(self, method: str, host: str, seconds: float) -> None:
        """Record a wait for the client's rate limit."""
        self.rate_limited[method, host].observe(seconds)

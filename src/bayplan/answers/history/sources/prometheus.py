"""A client for Prometheus' HTTP API: range queries, in parts that no server refuses as too large."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import aiohttp
import msgspec

from bayplan.answers.history.format import HistoryError
from bayplan.answers.history.sources.problems import Problems

STEP = timedelta(hours=1)
"""The step of queries over windows of its length, so that every sample is in one."""
PART = timedelta(hours=12)
"""The time of one request."""
_SECONDS = 120.0
_LONGEST_ERROR = 200


@dataclass(frozen=True, slots=True)
class Series:
    """A time series: its labels, and pairs of a time in seconds since the epoch and a value."""

    labels: Mapping[str, str]
    values: tuple[tuple[float, float], ...]


class _Result(msgspec.Struct):
    metric: dict[str, str] = {}
    values: list[tuple[float, str]] = []


class _Data(msgspec.Struct):
    resultType: str = ""
    result: list[_Result] = []


class _Answer(msgspec.Struct):
    status: str
    data: _Data | None = None
    error: str = ""
    warnings: list[str] = []


class Prometheus:
    """A server. `headers` are sent with every request, for one that wants a token."""

    def __init__(self, url: str, headers: Mapping[str, str], problems: Problems) -> None:
        if not url.startswith(("http://", "https://")):
            raise HistoryError(f"{url!r} is not the address of a Prometheus server: expected http://… or https://…")
        self._url = url.rstrip("/")
        self._headers = headers
        self._problems = problems

    def ranges(
        self, queries: Iterable[str], begin: datetime, end: datetime, step: timedelta = STEP
    ) -> dict[str, list[Series]]:
        """The results of range queries, by query. Raises HistoryError."""
        return asyncio.run(self._ranges(list(queries), begin, end, step))

    async def _ranges(
        self, queries: list[str], begin: datetime, end: datetime, step: timedelta
    ) -> dict[str, list[Series]]:
        found: dict[str, list[Series]] = {}
        timeout = aiohttp.ClientTimeout(total=_SECONDS)
        async with aiohttp.ClientSession(timeout=timeout, headers=dict(self._headers)) as session:
            for query in queries:
                found[query] = []
                for first, last in _parts(begin, end, step):
                    found[query] += await self._range(session, query, first, last, step)
        return found

    async def _range(
        self, session: aiohttp.ClientSession, query: str, first: datetime, last: datetime, step: timedelta
    ) -> list[Series]:
        parameters = {
            "query": query,
            "start": f"{first.timestamp():.3f}",
            "end": f"{last.timestamp():.3f}",
            "step": f"{step.total_seconds():g}",
        }
        try:
            async with session.post(f"{self._url}/api/v1/query_range", data=parameters) as response:
                body, status = await response.read(), response.status
        except (aiohttp.ClientError, TimeoutError) as error:
            raise HistoryError(f"cannot read {self._url}: {str(error) or 'no reply in time'}") from None
        try:
            answer = msgspec.json.decode(body, type=_Answer)
        except (msgspec.MsgspecError, ValueError):
            text = " ".join(body.decode(errors="replace").split())[:_LONGEST_ERROR]
            raise HistoryError(f"{self._url} does not answer as Prometheus does (status {status}): {text}") from None
        if answer.status != "success" or answer.data is None:
            raise HistoryError(f"{self._url} refuses {query}: {answer.error or status}")
        for warning in answer.warnings:
            self._problems.add(f"Prometheus warns: {warning}")
        return [Series(result.metric, tuple(self._values(result, query))) for result in answer.data.result]

    def _values(self, result: _Result, query: str) -> Iterator[tuple[float, float]]:
        for time, text in result.values:
            try:
                value = float(text)
            except ValueError:
                self._problems.add("a value is not a number: left out", query)
                continue
            if math.isfinite(value):
                yield time, value


def _parts(begin: datetime, end: datetime, step: timedelta) -> Iterator[tuple[datetime, datetime]]:
    """The first and the last evaluation of each request. Each step is evaluated at its end."""
    steps = -(-(end - begin) // step)
    at_once = PART // step
    for first in range(1, steps + 1, at_once):
        yield begin + first * step, begin + min(first + at_once - 1, steps) * step


def headers_of(lines: Iterable[str]) -> dict[str, Any]:
    """The headers in `Name: value` lines. Raises HistoryError."""
    found = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name.strip():
            raise HistoryError("a header is not `Name: value`, as in `Authorization: Bearer …`")
        found[name.strip()] = value.strip()
    return found

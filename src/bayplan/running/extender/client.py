"""The client for all extenders of a configuration: which ones to call, in which order, and how to handle failures.

Mirrors findNodesThatPassExtenders, prioritizeNodes and extendersBinding (pkg/scheduler/schedule_one.go), callExtenders
(pkg/scheduler/framework/preemption/preemption.go) and buildExtenders (pkg/scheduler/scheduler.go).
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from typing import Self

import aiohttp

from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.config.types import Extender
from bayplan.core.executor.extenders import are_asked
from bayplan.core.framework.extenders import (
    Answer,
    ExtenderError,
    ExtenderFilter,
    ExtenderPreempt,
    ExtenderScore,
    Filtered,
    Question,
)
from bayplan.core.framework.interface import Candidate
from bayplan.core.framework.status import Status
from bayplan.running.extender.client_http import HttpExtender

log = logging.getLogger(__name__)


class HttpExtenders:
    """The extenders of a KubeSchedulerConfiguration. Implements bayplan.core.executor.extenders.Extenders.

    Ignorable extenders are called last. Connections are opened on first use, in the event loop of the caller, and kept
    until `close`. Raises ConfigurationError.
    """

    def __init__(self, extenders: Sequence[Extender]) -> None:
        self._configured = extenders
        built = [HttpExtender(each, f"extenders[{index}]", self._open) for index, each in enumerate(extenders)]
        self._extenders = sorted(built, key=lambda extender: extender.ignorable)
        self._session: aiohttp.ClientSession | None = None
        self._errors: dict[tuple[str, str], str] = {}
        """The last error of each ignored extender, by URL and verb."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections. Open requests fail."""
        if self._session is not None:
            await self._session.close()

    @property
    def want_nodes(self) -> bool:
        """Whether any extender needs whole nodes instead of names."""
        return any((each.filters or each.prioritizes) and not each.knows_nodes for each in self._extenders)

    def are_asked(self, pod: PodInfo) -> bool:
        """Whether any extender filters, prioritizes or preempts for this pod."""
        return are_asked(self._configured, pod)

    async def answer(self, question: Question) -> Answer:
        """The combined answer of all extenders to a question of a scheduling cycle. Raises ExtenderError."""
        match question:
            case ExtenderFilter():
                return await self._filter(question)
            case ExtenderScore():
                return await self._prioritize(question)
            case ExtenderPreempt():
                return await self._preempt(question)

    async def bind(self, pod: PodInfo, node_name: str) -> bool:
        """Bind with the first extender that binds such pods. Returns False if there is none. Raises ExtenderError."""
        for extender in self._extenders:
            if not extender.binds or not extender.interested(pod):
                continue
            with self._ignored(extender, "bind"):
                await extender.bind(pod, node_name)
                return True
        return False

    async def _filter(self, question: ExtenderFilter) -> Filtered:
        """Call the extenders in order, each with the nodes that the previous ones accepted."""
        pod, nodes = question.pod, question.nodes
        offered = {nodes.name(position): position for position in range(len(nodes))}
        rejected: dict[str, Status] = {}
        for extender in self._extenders:
            if not offered:
                break
            if not extender.filters or not extender.interested(pod):
                continue
            with self._ignored(extender, "filter"):
                answer = await extender.filter(pod, nodes, offered)
                rejected.update(answer.rejected)
                offered = {name: offered[name] for name in answer.feasible}
        return Filtered(offered.keys(), rejected)

    async def _prioritize(self, question: ExtenderScore) -> Mapping[str, int]:
        """Call all extenders concurrently. Failed ones add nothing."""
        nodes = question.nodes
        offered = {nodes.name(position): position for position in range(len(nodes))}

        total: Counter[str] = Counter()

        async def add_scores(extender: HttpExtender) -> None:
            with self._ignored(extender, "prioritize", always=True):
                total.update(await extender.prioritize(question.pod, nodes, offered))

        called = [each for each in self._extenders if each.prioritizes and each.interested(question.pod)]
        await asyncio.gather(*map(add_scores, called))
        return {name: _wrapped(score) for name, score in total.items()}

    async def _preempt(self, question: ExtenderPreempt) -> tuple[Candidate, ...]:
        """Call the extenders in order, each with the candidates that the previous ones accepted."""
        candidates = list(question.candidates)
        for extender in self._extenders:
            if not extender.preempts or not extender.interested(question.pod):
                continue
            with self._ignored(extender, "preempt"):
                left = await extender.preempt(question.pod, candidates, question.nodes)
                for candidate in left:
                    if not candidate.victims and not extender.ignorable:
                        raise ExtenderError(f'expected at least one victim pod on node "{candidate.node_name}"')
                candidates = [candidate for candidate in left if candidate.victims]
            if not candidates:
                break
        return tuple(candidates)

    @contextmanager
    def _ignored(self, extender: HttpExtender, verb: str, *, always: bool = False) -> Iterator[None]:
        """Go on after an error of an ignorable extender; `always`: of any. The same error is warned of once."""
        try:
            yield
        except ExtenderError as error:
            if not extender.ignorable and not always:
                raise
            level = logging.DEBUG if self._errors.get((extender.url, verb)) == str(error) else logging.WARNING
            log.log(level, "ignoring extender %s in %s: %s", extender.url, verb, error)
            self._errors[extender.url, verb] = str(error)
        else:
            if self._errors.pop((extender.url, verb), ""):
                log.warning("extender %s works again in %s", extender.url, verb)

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0),
                cookie_jar=aiohttp.DummyCookieJar(),
                headers={"User-Agent": f"bayplan/{version('bayplan')}"},
                timeout=aiohttp.ClientTimeout(total=None),
            )
        return self._session


def _wrapped(number: int) -> int:
    """A number as Go's int64, which overflows."""
    return (number + 2**63) % 2**64 - 2**63

"""The client for all extenders of a configuration: which ones to call, in which order, and how to handle failures.

Mirrors findNodesThatPassExtenders, prioritizeNodes and extendersBinding (pkg/scheduler/schedule_one.go), callExtenders
(pkg/scheduler/framework/preemption/preemption.go) and buildExtenders (pkg/scheduler/scheduler.go).
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
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
            try:
                await extender.bind(pod, node_name)
            except ExtenderError as error:
                if not extender.ignorable:
                    raise
                self._ignore(extender, "bind", error)
                continue
            self._recovered(extender, "bind")
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
            try:
                answer = await extender.filter(pod, nodes, offered)
            except ExtenderError as error:
                if not extender.ignorable:
                    raise
                self._ignore(extender, "filter", error)
                continue
            self._recovered(extender, "filter")
            rejected.update(answer.rejected)
            offered = {name: offered[name] for name in answer.feasible}
        return Filtered(offered.keys(), rejected)

    async def _prioritize(self, question: ExtenderScore) -> Mapping[str, int]:
        """Call all extenders concurrently. Failed ones add nothing."""
        nodes = question.nodes
        offered = {nodes.name(position): position for position in range(len(nodes))}

        async def scores_of(extender: HttpExtender) -> Mapping[str, int]:
            try:
                scores = await extender.prioritize(question.pod, nodes, offered)
            except ExtenderError as error:
                self._ignore(extender, "prioritize", error)
                return {}
            self._recovered(extender, "prioritize")
            return scores

        called = [each for each in self._extenders if each.prioritizes and each.interested(question.pod)]
        total: Counter[str] = Counter()
        for scores in await asyncio.gather(*map(scores_of, called)):
            total.update(scores)
        return {name: _wrapped(score) for name, score in total.items()}

    async def _preempt(self, question: ExtenderPreempt) -> tuple[Candidate, ...]:
        """Call the extenders in order, each with the candidates that the previous ones accepted."""
        candidates = list(question.candidates)
        for extender in self._extenders:
            if not extender.preempts or not extender.interested(question.pod):
                continue
            try:
                left = await extender.preempt(question.pod, candidates, question.nodes)
            except ExtenderError as error:
                if not extender.ignorable:
                    raise
                self._ignore(extender, "preempt", error)
                continue
            self._recovered(extender, "preempt")
            for candidate in left:
                if not candidate.victims and not extender.ignorable:
                    raise ExtenderError(f'expected at least one victim pod on node "{candidate.node_name}"')
            candidates = [candidate for candidate in left if candidate.victims]
            if not candidates:
                break
        return tuple(candidates)

    def _ignore(self, extender: HttpExtender, what: str, error: ExtenderError) -> None:
        """Log the error of an ignored extender, unless it is the same as the last one."""
        known = self._errors.get((extender.url, what))
        level = logging.DEBUG if known == str(error) else logging.WARNING
        log.log(level, "ignoring extender %s in %s: %s", extender.url, what, error)
        self._errors[extender.url, what] = str(error)

    def _recovered(self, extender: HttpExtender, what: str) -> None:
        if self._errors.pop((extender.url, what), ""):
            log.warning("extender %s works again in %s", extender.url, what)

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

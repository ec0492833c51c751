"""The client for one HTTP extender: sends requests and interprets the responses.

Mirrors HTTPExtender in pkg/scheduler/extender.go.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import aiohttp
import msgspec

from bayplan.core.api import durations
from bayplan.core.api.objects import bare
from bayplan.core.cluster.nodes import Nodes
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.config.types import Extender
from bayplan.core.executor.extenders import interested
from bayplan.core.framework.extenders import ExtenderError, Filtered
from bayplan.core.framework.interface import MAX_NODE_SCORE, Candidate
from bayplan.core.framework.status import Status
from bayplan.running.client.proxies import proxy_for
from bayplan.running.extender import wire
from bayplan.running.extender.client_tls import ExtenderTls

T = TypeVar("T")

OpenSession = Callable[[], aiohttp.ClientSession]


class HttpExtender:
    """Calls one extender. `path` is the path of its configuration, `session` opens connections.

    Every method raises ExtenderError if there is no valid response. The constructor raises ConfigurationError for an
    invalid tlsConfig.
    """

    def __init__(self, extender: Extender, path: str, session: OpenSession) -> None:
        self.url = extender.urlPrefix.rstrip("/")
        self.ignorable = extender.ignorable
        self.filters = bool(extender.filterVerb)
        self.prioritizes = bool(extender.prioritizeVerb)
        self.preempts = bool(extender.preemptVerb)
        self.binds = bool(extender.bindVerb)
        self.knows_nodes = extender.nodeCacheCapable
        """Whether requests contain only the names of nodes."""
        self._verbs = extender
        seconds = durations.parse(extender.httpTimeout)
        self._seconds = seconds if seconds > 0 else None
        self._tls = ExtenderTls(extender, path) if extender.tlsConfig or extender.enableHTTPS else None
        self._proxy = proxy_for(self.url, os.environ)
        self._session = session

    def interested(self, pod: PodInfo) -> bool:
        """Whether the pod requests a resource that the extender manages. Without managed resources, always true."""
        return interested(self._verbs, pod)

    async def filter(self, pod: PodInfo, nodes: Nodes, offered: Mapping[str, int]) -> Filtered:
        """Filter the `offered` nodes, a mapping of name to position in `nodes`. The order is the extender's."""
        result = await self._send(self._verbs.filterVerb, self._about(pod, nodes, offered), wire.ExtenderFilterResult)
        if result.Error:
            raise ExtenderError(result.Error)
        feasible: Sequence[str] = ()
        if self.knows_nodes and result.NodeNames is not None:
            feasible = result.NodeNames
        elif result.Nodes is not None:
            feasible = [self._name(node) for node in result.Nodes.items]
        for name in feasible:
            if name not in offered:
                raise ExtenderError(
                    f'extender "{self.url}" claims a filtered node "{name}" which is not found in the input node list'
                )
        rejected = {name: Status.unschedulable(why) for name, why in (result.FailedNodes or {}).items()}
        for name, why in (result.FailedAndUnresolvableNodes or {}).items():
            rejected[name] = Status.unresolvable(why)
        return Filtered(feasible, rejected)

    async def prioritize(self, pod: PodInfo, nodes: Nodes, offered: Mapping[str, int]) -> dict[str, int]:
        """The scores to add to nodes, multiplied by the extender's weight. They may be any number."""
        question = self._about(pod, nodes, offered)
        answer = await self._send(self._verbs.prioritizeVerb, question, list[wire.HostPriority])
        scale = self._verbs.weight * (MAX_NODE_SCORE // wire.MAX_EXTENDER_PRIORITY)
        scores: dict[str, int] = {}
        for each in answer:
            scores[each.Host] = scores.get(each.Host, 0) + each.Score * scale
        return scores

    async def preempt(self, pod: PodInfo, candidates: Sequence[Candidate], nodes: Nodes) -> list[Candidate]:
        """The candidates that the extender accepts, with its victims and in its order."""
        args = wire.ExtenderPreemptionArgs(Pod=_whole(pod))
        in_order = sorted(candidates, key=lambda candidate: candidate.node_name)
        if self.knows_nodes:
            args.NodeNameToMetaVictims = {
                each.node_name: wire.MetaVictims(
                    Pods=[wire.MetaPod(UID=victim.uid) for victim in each.victims], NumPDBViolations=each.violations
                )
                for each in in_order
            }
        else:
            args.NodeNameToVictims = {
                each.node_name: wire.Victims(
                    Pods=[_whole(victim) for victim in each.victims], NumPDBViolations=each.violations
                )
                for each in in_order
            }
        result = await self._send(self._verbs.preemptVerb, args, wire.ExtenderPreemptionResult)
        given = result.NodeNameToMetaVictims or {}
        return [
            Candidate(name, self._victims(nodes, name, victims), victims.NumPDBViolations)
            for name, victims in given.items()
        ]

    async def bind(self, pod: PodInfo, node_name: str) -> None:
        """Bind a pod. After an error, the pod may be bound anyway."""
        args = wire.ExtenderBindingArgs(PodName=pod.name, PodNamespace=pod.namespace, PodUID=pod.uid, Node=node_name)
        result = await self._send(self._verbs.bindVerb, args, wire.ExtenderBindingResult, repeatable=False)
        if result.Error:
            raise ExtenderError(result.Error)

    def _about(self, pod: PodInfo, nodes: Nodes, offered: Mapping[str, int]) -> wire.ExtenderArgs:
        args = wire.ExtenderArgs(Pod=_whole(pod))
        if self.knows_nodes:
            args.NodeNames = list(offered)
        else:
            items = [msgspec.Raw(nodes.info(position).raw) for position in offered.values()]
            args.Nodes = wire.NodeList(items=items)
        return args

    def _victims(self, nodes: Nodes, name: str, victims: wire.MetaVictims) -> tuple[PodInfo, ...]:
        position = nodes.position(name)
        if position is None:
            raise ExtenderError(f'extender {self.url} wants to preempt on node "{name}", which does not exist')
        there = {pod.uid: pod for pod in nodes.pods(position)}
        for victim in victims.Pods:
            if victim.UID not in there:
                raise ExtenderError(
                    f"extender: {self.url} claims to preempt pod (UID: {victim.UID}) on node: {name}, but the pod is "
                    "not found on that node"
                )
        return tuple(there[victim.UID] for victim in victims.Pods)

    def _name(self, node: msgspec.Raw) -> str:
        try:
            return _named.decode(node).metadata.name
        except msgspec.ValidationError as error:
            raise ExtenderError(f"{self.url}: invalid node in the response: {error}") from None

    async def _send(self, verb: str, question: object, wanted: type[T], *, repeatable: bool = True) -> T:
        """Send a request and return its response. If the connection breaks, a repeatable request is retried once."""
        url = f"{self.url}/{verb}"
        body = wire.write(question)
        try:
            async with asyncio.timeout(self._seconds):
                try:
                    answer = await self._post(verb, url, body)
                except aiohttp.ClientConnectionError as error:
                    # Most likely, the extender has closed an idle connection.
                    if not repeatable or not _broke(error):
                        raise
                    answer = await self._post(verb, url, body)
        except TimeoutError:
            raise ExtenderError(f"extender at URL {url}: no response within {self._seconds:g} s", sent=True) from None
        except (aiohttp.ClientError, OSError) as error:
            sent = not isinstance(error, aiohttp.ClientConnectorError | aiohttp.InvalidURL)
            raise ExtenderError(f"extender at URL {url}: {_why(error)}", sent=sent) from error
        try:
            return wire.read(wanted, answer)
        except wire.WireError as error:
            raise ExtenderError(f"extender at URL {url}: invalid response: {error}", sent=True) from None

    async def _post(self, verb: str, url: str, body: bytes) -> bytes:
        async with self._session().post(
            url,
            data=body,
            headers={"Content-Type": "application/json"},
            ssl=self._tls.context() if self._tls else True,
            server_hostname=self._tls.server_hostname if self._tls else None,
            proxy=self._proxy,
        ) as response:
            if response.status != 200:
                raise ExtenderError(f"failed {verb} with extender at URL {url}, code {response.status}")
            return await response.read()


class _Metadata(msgspec.Struct):
    name: str = ""


class _Named(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


_named = msgspec.json.Decoder(_Named)


def _whole(pod: PodInfo) -> msgspec.Raw:
    return msgspec.Raw(bare(pod.raw))


def _broke(error: aiohttp.ClientConnectionError) -> bool:
    """Whether an established connection broke."""
    lost = isinstance(error, aiohttp.ServerDisconnectedError | aiohttp.ClientOSError | ConnectionResetError)
    return lost and not isinstance(error, aiohttp.ClientConnectorError)


def _why(error: Exception) -> str:
    match error:
        case aiohttp.ClientConnectorCertificateError():
            cause = error.certificate_error
            reason = cause.verify_message if isinstance(cause, ssl.SSLCertVerificationError) else str(cause)
            return f"its certificate is not trusted: {reason}"
        case aiohttp.ClientConnectorError():
            return f"cannot be reached: {error.os_error.strerror or error.os_error}"
        case aiohttp.ServerDisconnectedError() | aiohttp.ClientOSError() | ConnectionResetError():
            return "it closed the connection"
        case aiohttp.ClientPayloadError():
            return "the connection broke during the response"
        case aiohttp.InvalidURL():
            return "invalid URL"
    return str(error) or type(error).__name__

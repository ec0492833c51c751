"""What the service does with watched objects: the handlers of the executor, and reports of what cannot be decoded.

An object that can't be decoded costs itself only. A pending pod of this scheduler gets an event; a node keeps its last
version.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

import msgspec

from bayplan.core.executor.handlers import NodeHandler, ObjectHandler, PodHandler, Receiver
from bayplan.core.executor.ports import Recorder
from bayplan.foundations.log_fields import about_node, about_pod
from bayplan.running.client.answers import Identity

log = logging.getLogger(__name__)

LIVE_PODS = "status.phase!=Succeeded,status.phase!=Failed"
"""Terminated pods use nothing, and there may be many of them."""


class PodInformer(PodHandler):
    """Handles watched pods. `recorder`: for events about pending ones that cannot be decoded."""

    def __init__(self, receiver: Receiver, recorder: Recorder | None = None) -> None:
        super().__init__(receiver)
        self._recorder = recorder

    def undecodable(self, raw: bytes, error: Exception) -> None:
        """Report a pod that cannot be decoded; a pending one of this scheduler gets an event."""
        pod = UndecodablePod.of(raw)
        log.error("ignoring pod %s, which cannot be decoded: %s", about_pod(pod), error)
        if self._recorder is not None and pod.scheduler_name in self._receiver.profiles and not pod.bound:
            note = f"the pod cannot be decoded: {error}"
            self._recorder.record(pod, pod.scheduler_name, "Warning", "FailedScheduling", "Scheduling", note)


class ObjectInformer(ObjectHandler):
    """Handles watched objects of other kinds."""

    def undecodable(self, raw: bytes, error: Exception) -> None:
        """Report an object that cannot be decoded."""
        key = Identity.of(raw).key
        log.error("ignoring %s %s, which cannot be decoded: %s", self._kind.kind.lower(), key, error)


class NodeInformer(NodeHandler):
    """Handles watched nodes."""

    def undecodable(self, raw: bytes, error: Exception) -> None:
        """Report a node that cannot be decoded; its last version stays in use."""
        log.error("ignoring node %s, which cannot be decoded: %s", about_node(Identity.of(raw).key), error)


class _Spec(msgspec.Struct):
    schedulerName: str | None = None
    nodeName: str | None = None


class _Document(msgspec.Struct):
    spec: _Spec | None = None


@dataclass(slots=True)
class UndecodablePod:
    """The readable fields of a pod that cannot be decoded; other fields are ""."""

    namespace: str
    name: str
    uid: str
    resource_version: str
    scheduler_name: str
    bound: bool

    @classmethod
    def of(cls, raw: bytes) -> UndecodablePod:
        """Read what can be read."""
        identity = Identity.of(raw)
        namespace, _, name = identity.key.rpartition("/")
        try:
            spec = msgspec.json.decode(raw, type=_Document).spec or _Spec()
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            spec = _Spec()
        scheduler_name = spec.schedulerName or "default-scheduler"
        return cls(namespace, name, identity.uid, identity.resource_version, scheduler_name, bool(spec.nodeName))

"""The audit log of the embedded API server, in the order and with the contents that kube-apiserver gives its own."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from bayplan.running.client.transport import ApiRequest, Response
from bayplan_devcluster.apiserver import ApiServer
from bayplan_devcluster.apiserver.http.request_info import RequestInfo, read_request_info
from bayplan_devcluster.in_memory import InMemoryTransport

WRITES = ["create", "update", "patch", "delete", "deletecollection"]


class AuditingTransport(InMemoryTransport):
    """Logs the writes of its client, with the replies, at the level that `level_of` gives each request."""

    def __init__(self, server: ApiServer, level_of: Callable[[RequestInfo], str], clock: Any = None) -> None:
        super().__init__(server)
        self.log: list[dict[str, Any]] = []
        self.user = "admin"
        self._level_of = level_of
        self._clock = clock

    async def send(self, request: ApiRequest) -> Response:
        response = await super().send(request)
        query = {key: str(value) for key, value in request.params.items()}
        info = read_request_info(request.method, request.path, query)
        if info.verb in WRITES:
            self.log.append(self._event(info, request, response))
        return response

    def _event(self, info: RequestInfo, request: ApiRequest, response: Response) -> dict[str, Any]:
        body = json.loads(request.body) if request.body else None
        ref = {
            "resource": info.resource,
            "namespace": info.namespace,
            "name": info.name or (isinstance(body, dict) and body.get("metadata", {}).get("name")),
            "apiGroup": info.group,
            "subresource": info.subresource,
        }
        level = self._level_of(info)
        query = "&".join(f"{key}={value}" for key, value in request.params.items())
        now = self._clock.now() if self._clock is not None else datetime.now(UTC)
        event: dict[str, Any] = {
            "kind": "Event",
            "apiVersion": "audit.k8s.io/v1",
            "level": level,
            "auditID": str(len(self.requests)),
            "stage": "ResponseComplete",
            "requestURI": request.path + (f"?{query}" if query else ""),
            "verb": info.verb,
            "user": {"username": self.user},
            "objectRef": {key: value for key, value in ref.items() if value},
            "responseStatus": {"code": response.status},
            "stageTimestamp": now.isoformat(),
        }
        if body is not None and level != "Metadata":
            event["requestObject"] = body
        if level == "RequestResponse":
            event["responseObject"] = json.loads(response.body)
        return event

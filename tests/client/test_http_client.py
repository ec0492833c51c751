import asyncio
import random
import socket

import msgspec
import pytest
from lightkube.models.core_v1 import Container, Pod, PodSpec
from lightkube.models.meta_v1 import ObjectMeta
from tests.support.tables import cases
from tests.support.waiting import PATIENCE

from bayplan.client import ApiError, ClusterAccess, HttpClient, PatchType, TransportError
from bayplan.core.api.kinds import LEASE, NODE, POD
from bayplan.core.api.objects import UndecodableObject
from bayplan.running.client.errors import MalformedResponseError

SUCCESS = {"kind": "Status", "apiVersion": "v1", "status": "Success", "code": 201}
POD_P = {"metadata": {"name": "p", "namespace": "n", "resourceVersion": "5"}, "spec": {"containers": []}}
PATH_P = "/api/v1/namespaces/n/pods/p"


@pytest.fixture
async def client(server, sleeps):
    async with HttpClient(server.url, request_timeout=5, sleep=sleeps, rng=random.Random(1)) as client:
        yield client


VERBS = {
    "get": (lambda c: c.get(POD, "p", "n"), f"GET {PATH_P}", None),
    "get in default": (lambda c: c.get(POD, "p"), "GET /api/v1/namespaces/default/pods/p", None),
    "get without namespace": (lambda c: c.get(NODE, "x", "n"), "GET /api/v1/nodes/x", None),
    "create": (
        lambda c: c.create(POD, {"metadata": {"namespace": "n"}}, dry_run=True),
        "POST application/json /api/v1/namespaces/n/pods?dryRun=All",
        {"metadata": {"namespace": "n"}},
    ),
    "create typed": (
        lambda c: c.create(
            POD, Pod(metadata=ObjectMeta(name="p"), spec=PodSpec(containers=[Container(name="c")])), "n"
        ),
        "POST application/json /api/v1/namespaces/n/pods",
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}]}},
    ),
    "update": (lambda c: c.update(POD, POD_P, subresource="status"), f"PUT application/json {PATH_P}/status", POD_P),
    "merge patch": (
        lambda c: c.patch(POD, "p", {"a": None}, "n"),
        f"PATCH application/merge-patch+json {PATH_P}",
        {"a": None},
    ),
    "strategic patch": (
        lambda c: c.patch(POD, "p", {}, "n", type=PatchType.STRATEGIC, subresource="status"),
        f"PATCH application/strategic-merge-patch+json {PATH_P}/status",
        {},
    ),
    "JSON patch": (
        lambda c: c.patch(POD, "p", [], "n", type=PatchType.JSON),
        f"PATCH application/json-patch+json {PATH_P}",
        [],
    ),
    "apply": (
        lambda c: c.patch(POD, "p", {}, "n", type=PatchType.APPLY, field_manager="m e", force=True),
        f"PATCH application/apply-patch+yaml {PATH_P}?fieldManager=m%20e&force=true",
        {},
    ),
    "delete": (lambda c: c.delete(POD, "p", "n"), f"DELETE {PATH_P}", None),
    "delete with options": (
        lambda c: c.delete(
            POD, "p", "n", grace_period_seconds=0, uid="u", resource_version="7", propagation_policy="Foreground"
        ),
        f"DELETE application/json {PATH_P}",
        {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "gracePeriodSeconds": 0,
            "propagationPolicy": "Foreground",
            "preconditions": {"uid": "u", "resourceVersion": "7"},
        },
    ),
    "bind": (
        lambda c: c.bind("n", "p", "node", uid="u", annotations={"a": "b"}),
        f"POST application/json {PATH_P}/binding",
        {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": "p", "namespace": "n", "uid": "u", "annotations": {"a": "b"}},
            "target": {"apiVersion": "v1", "kind": "Node", "name": "node"},
        },
    ),
    "evict": (
        lambda c: c.evict("n", "p", grace_period_seconds=3, uid="u"),
        f"POST application/json {PATH_P}/eviction",
        {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": "p", "namespace": "n"},
            "deleteOptions": {"gracePeriodSeconds": 3, "preconditions": {"uid": "u"}},
        },
    ),
    "list": (
        lambda c: c.list(LEASE, label_selector="a in (b)", field_selector="metadata.name=x", limit=0),
        "GET /apis/coordination.k8s.io/v1/leases?labelSelector=a%20in%20%28b%29&fieldSelector=metadata.name%3Dx",
        None,
    ),
}


@cases("call, request_, body", VERBS)
async def test_verb_sends_its_request(server, client, call, request_, body):
    """`request_`: the method, the type of the content if there is any, and the path."""
    server.respond(SUCCESS if request_.endswith("/binding") else POD_P)
    await call(client)
    [(method, path, headers, sent)] = server.requests
    content_type = headers.get("Content-Type")
    assert [method, *([content_type] if content_type else []), path] == request_.split(" ")
    assert (msgspec.json.decode(sent) if sent else None) == body
    assert headers["User-Agent"].startswith("bayplan/")
    assert headers["Accept"] == "application/json"


@pytest.mark.parametrize(
    "reply",
    [{}, POD_P, {"kind": "Status", "status": "Failure"}, {"kind": "Binding", "status": "Success"}, {"kind": 7}, []],
)
async def test_reply_to_a_binding_must_report_success(server, client, reply):
    server.respond(reply)
    with pytest.raises(TransportError, match=r"POST .*/binding: the response is no Status"):
        await client.bind("n", "p", "x")


@pytest.mark.parametrize("name", ["", "a/b", "..", "a?b", "a b", "a%2fb"])
async def test_invalid_name_is_rejected(server, client, name):
    for verb in (client.get, client.delete):
        with pytest.raises(ValueError, match="is not a valid name"):
            await verb(POD, name)
    assert not server.requests


async def test_list_follows_its_pages(server, client):
    server.respond({"metadata": {"continue": "t/1", "resourceVersion": "9"}, "items": [{"metadata": {"name": "a"}}]})
    server.respond({"metadata": {"resourceVersion": "9"}, "items": [{"metadata": {"name": "b"}}]})
    page = await client.list(NODE, limit=1)
    assert ([node.metadata.name for node in page.items], page.resource_version) == (["a", "b"], "9")
    assert [path for _, path, _, _ in server.requests] == [
        "/api/v1/nodes?limit=1",
        "/api/v1/nodes?limit=1&continue=t%2F1",
    ]


async def test_list_that_expires_starts_over_in_one_page(server, client):
    server.respond({"metadata": {"continue": "t"}, "items": [{"metadata": {"name": "a"}}]})
    server.respond({"code": 410, "reason": "Expired"}, status=410)
    server.respond({"metadata": {}, "items": [{"metadata": {"name": "c"}}]})
    assert [node.metadata.name for node in (await client.list(NODE, limit=1)).items] == ["c"]
    assert server.requests[-1][1] == "/api/v1/nodes"


async def test_list_of_null_is_empty_and_decode_gets_the_bytes(server, client):
    server.respond({"metadata": {}, "items": None})
    assert (await client.list(NODE)).items == []
    server.answers.clear()
    server.respond({"metadata": {}, "items": [{"x": 1}]})
    assert (await client.list(NODE, decode=bytes)).items == [b'{"x":1}']


async def test_watch_yields_events_across_chunks(server, client):
    server.stream(
        b'{"type":"ADDED","object":{"metadata":{"name":"a","namespace":"n","uid":"u","resourceVersion":"1"}}}\n{"type":"MODI',
        b"FIED",
        b'","object":{"metadata":{"name":"a","namespace":"n","resourceVersion":"2"}}}\n'
        b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"3"}}}\n{"type":"DELE',
    )
    events = [event async for event in client.watch(POD, "n", resource_version="0", timeout_seconds=9)]
    assert [(event.type, event.key, event.uid, event.resource_version) for event in events] == [
        ("ADDED", "n/a", "u", "1"),
        ("MODIFIED", "n/a", "", "2"),
        ("BOOKMARK", "", "", "3"),
    ]
    assert events[0].object.metadata.name == "a"
    path = "/api/v1/namespaces/n/pods?watch=true&resourceVersion=0&allowWatchBookmarks=true&timeoutSeconds=9"
    assert server.requests[0][1] == path


@cases(
    "line, error, message",
    {
        "an ERROR event": (
            b'{"type":"ERROR","object":{"code":410,"reason":"Expired","message":"too old"}}\n',
            ApiError,
            "410 Expired: too old",
        ),
        "no JSON": (b"<html>\n", MalformedResponseError, "cannot decode a watch event"),
        "no object": (b'{"type":"ADDED"}\n', MalformedResponseError, "missing required field `object`"),
        "bad object": (b'{"type":"ADDED","object":{"metadata":{"name":3}}}\n', UndecodableObject, "Pod 3"),
    },
)
async def test_watch_raises_errors_of_events(server, client, line, error, message):
    server.stream(line)
    with pytest.raises(error, match=message):
        async for _ in client.watch(POD):
            pass


async def test_closing_a_watch_closes_its_connection(server, client):
    server.stream(b'{"type":"BOOKMARK","object":{}}\n', then="silence")
    watch = client.watch(POD)
    await anext(watch)
    await watch.aclose()
    await asyncio.wait_for(server.left.wait(), PATIENCE)


async def test_broken_watch_is_a_transport_error(server, client):
    server.stream(b'{"type":"BOOKMARK","object":{}}\n', then="cut")
    with pytest.raises(TransportError, match="the connection broke in the middle of the response") as caught:
        [event async for event in client.watch(POD)]
    assert caught.value.sent


async def test_error_has_the_fields_of_the_status(server, client):
    details = {"name": "p", "kind": "pods", "retryAfterSeconds": 60}
    server.respond(
        {"kind": "Status", "code": 409, "reason": "Conflict", "message": "no", "details": details}, status=409
    )
    with pytest.raises(ApiError) as caught:
        await client.bind("n", "p", "x")
    error = caught.value
    assert (error.status, error.reason, error.message) == (409, "Conflict", "no")
    assert (error.details, error.retry_after) == (details, 60.0)
    assert str(error) == "409 Conflict: no"


@cases(
    "body, message",
    {
        "text": ("<html>\n bad   gateway</html>", "502: <html> bad gateway</html>"),
        "no body": ("", "502: the response has no body"),
        "long text": ("x" * 9000, "502: " + "x" * 500),
    },
)
async def test_error_has_the_text_of_a_body_that_is_not_json(server, client, body, message):
    server.respond_text(body, status=502)
    with pytest.raises(ApiError) as caught:
        await client.get(POD, "p")
    assert str(caught.value) == message


async def test_successful_response_that_is_not_json_is_an_error(server, client):
    server.respond_text("welcome", status=200)
    with pytest.raises(UndecodableObject):
        await client.get(POD, "p")
    with pytest.raises(MalformedResponseError, match="no list of objects"):
        await client.list(POD)


def closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@cases("call", {"get": lambda c: c.get(POD, "p"), "bind": lambda c: c.bind("n", "p", "x")})
async def test_refused_connection_is_retried_for_any_verb(sleeps, call):
    async with HttpClient(f"http://127.0.0.1:{closed_port()}", sleep=sleeps, rng=random.Random(1)) as client:
        with pytest.raises(TransportError, match="connection refused") as caught:
            await call(client)
    assert not caught.value.sent
    assert len(sleeps) == 3
    assert sleeps == sorted(sleeps)


async def test_get_is_retried_when_the_connection_breaks(server, client, sleeps):
    server.drop()
    server.drop()
    server.respond(POD_P)
    assert (await client.get(POD, "p")).metadata.name == "p"
    assert sleeps


async def test_bind_that_may_have_succeeded_is_not_retried(server, client, sleeps):
    server.drop()
    with pytest.raises(TransportError, match="the server closed the connection") as caught:
        await client.bind("n", "p", "x")
    assert caught.value.sent
    assert (len(server.requests), sleeps) == (1, [])


async def test_request_times_out(server, sleeps):
    server.hang()
    async with HttpClient(server.url, request_timeout=0.05, sleep=sleeps) as client:
        with pytest.raises(TransportError, match="the request timed out") as caught:
            await client.bind("n", "p", "x")
    assert caught.value.sent
    assert len(server.requests) == 1


@cases(
    "status, header, call, waits",
    {
        "429, bind": (429, "2", lambda c: c.bind("n", "p", "x"), [2.0]),
        "503, get": (503, "1", lambda c: c.get(POD, "p"), [1.0]),
        "503, bind: may have succeeded": (503, "1", lambda c: c.bind("n", "p", "x"), None),
        "longer than the client waits": (429, "60", lambda c: c.get(POD, "p"), None),
        "without Retry-After": (429, None, lambda c: c.get(POD, "p"), None),
        "500": (500, "1", lambda c: c.get(POD, "p"), None),
    },
)
async def test_declined_request_is_retried_after_retry_after(server, client, sleeps, status, header, call, waits):
    server.respond({}, status=status, headers={"Retry-After": header} if header else None)
    server.respond(SUCCESS if waits == [2.0] else POD_P)
    if waits is None:
        with pytest.raises(ApiError) as caught:
            await call(client)
        assert caught.value.retry_after == (float(header) if header else None)
    else:
        await call(client)
    assert sleeps == (waits or [])


async def test_rate_limit_delays_requests(server, sleeps):
    server.respond(POD_P)
    async with HttpClient(server.url, qps=10, burst=3, sleep=sleeps) as client:
        await asyncio.gather(*(client.get(POD, "p") for _ in range(6)))
    assert len(sleeps) == 3
    assert sleeps == pytest.approx([0.1, 0.2, 0.3], abs=0.05)


async def test_max_connections_limits_concurrent_requests(server):
    server.respond(POD_P)
    async with HttpClient(server.url, max_connections=2) as client:
        await asyncio.gather(*(client.get(POD, "p") for _ in range(20)))
    assert len(server.connections) <= 2


async def test_closed_client_raises(server):
    client = HttpClient(server.url)
    await client.close()
    with pytest.raises(TransportError, match="closed"):
        await client.get(POD, "p")


async def test_unknown_host_is_a_transport_error():
    async with HttpClient("http://no-such-host.invalid", retries=0) as client:
        with pytest.raises(TransportError, match="unknown host") as caught:
            await client.get(POD, "p")
    assert not caught.value.sent


class Renewable:
    """Credentials that `refresh` replaces by the next token."""

    tls = None

    def __init__(self, *tokens):
        self.tokens = list(tokens)

    def __str__(self):
        return "a token"

    async def headers(self):
        return {"Authorization": f"Bearer {self.tokens[0]}"}

    async def refresh(self, refused):
        if len(self.tokens) > 1 and refused["Authorization"] == f"Bearer {self.tokens[0]}":
            del self.tokens[0]
            return True
        return False


UNAUTHORIZED = {"code": 401, "reason": "Unauthorized", "message": "Unauthorized"}


async def test_unauthorized_request_is_retried_with_new_credentials(server):
    server.respond(UNAUTHORIZED, status=401)
    server.respond(SUCCESS)
    access = ClusterAccess(
        server=server.url, credentials=Renewable("old", "new"), headers=(("Impersonate-User", "joe"),)
    )
    async with HttpClient(access) as client:
        await client.bind("n", "p", "x")
    sent = [headers for _, _, headers, _ in server.requests]
    assert [headers["Authorization"] for headers in sent] == ["Bearer old", "Bearer new"]
    assert {headers["Impersonate-User"] for headers in sent} == {"joe"}


async def test_refused_credentials_are_named_in_the_error(server):
    server.respond(UNAUTHORIZED, status=401)
    for tokens, tries in ((("old",), 1), (("old", "new"), 2)):
        server.requests.clear()
        async with HttpClient(ClusterAccess(server=server.url, credentials=Renewable(*tokens))) as client:
            with pytest.raises(ApiError, match=r"401 Unauthorized: Unauthorized \(sent: a token; given as a URL\)"):
                await client.get(POD, "p")
        assert len(server.requests) == tries


async def test_proxy_gets_the_absolute_url(server):
    server.respond(POD_P)
    async with HttpClient(ClusterAccess(server="http://api.internal:8080/base/", proxy=server.url)) as client:
        await client.get(POD, "p", "n")
    assert server.requests[0][2]["Host"] == "api.internal:8080"
    assert server.requests[0][1].endswith("/base" + PATH_P)

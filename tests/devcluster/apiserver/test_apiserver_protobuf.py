"""Protobuf bodies, as Go clients send them."""

import struct

from tests.support.tables import cases

from bayplan_devcluster.apiserver.protobuf import MAGIC, PROTOBUF, read_protobuf

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


def varint(number):
    text = b""
    while number > 0x7F:
        text += bytes([number & 0x7F | 0x80])
        number >>= 7
    return text + bytes([number])


def field(number, value):
    """A field of a message. A value is a string, an integer, or an encoded message."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def entry(key, value):
    return field(1, key) + field(2, value)


def envelope(version, kind, raw):
    return MAGIC + field(1, field(1, version) + field(2, kind)) + field(2, raw) + field(3, "") + field(4, "")


LABELS = field(11, entry("app", "web"))
RESOURCES = field(2, entry("cpu", field(1, "500m")))
PROBE = field(1, field(2, field(1, "/ready") + field(2, field(1, 1) + field(3, "http")))) + field(2, 5)
CONTAINER = field(1, "c") + field(2, "nginx") + field(8, RESOURCES) + field(10, PROBE)
VOLUME = field(1, "v") + field(2, field(2, field(1, "")))
TEMPLATE = field(1, LABELS) + field(2, field(1, VOLUME) + field(2, CONTAINER))
SPEC = field(1, 3) + field(2, field(1, entry("app", "web"))) + field(3, TEMPLATE)
DEPLOYMENT = field(1, field(1, "d") + field(3, "")) + field(2, SPEC)


async def test_deployment_is_decoded(api):
    body = envelope("apps/v1", "Deployment", DEPLOYMENT)
    status, answer = await api("POST", DEPLOYMENTS, body, **{"Content-Type": PROTOBUF})
    assert status == 201, answer
    assert answer["spec"]["replicas"] == 3
    assert answer["spec"]["selector"] == {"matchLabels": {"app": "web"}}
    container = answer["spec"]["template"]["spec"]["containers"][0]
    assert container["resources"] == {"requests": {"cpu": "500m"}}
    assert container["livenessProbe"]["httpGet"] == {"path": "/ready", "port": "http", "scheme": "HTTP"}
    assert container["livenessProbe"]["initialDelaySeconds"] == 5
    assert answer["spec"]["template"]["spec"]["volumes"] == [{"name": "v", "emptyDir": {}}]


async def test_binding_with_explicit_empty_fields(api, make_pod):
    await api.create("/api/v1/namespaces/default/pods", make_pod())
    metadata = b"".join(field(number, text) for number, text in ((1, "p"), (3, "default"), (5, ""), (6, "")))
    body = envelope("v1", "Binding", field(1, metadata) + field(2, field(1, "Node") + field(3, "n") + field(6, "")))
    path = "/api/v1/namespaces/default/pods/p/binding"
    status, answer = await api("POST", path, body, **{"Content-Type": PROTOBUF})
    assert status == 201, answer
    assert (await api.get("/api/v1/namespaces/default/pods/p"))["spec"]["nodeName"] == "n"


@cases(
    "body",
    {
        "empty": b"",
        "json": b"{}",
        "garbage": MAGIC + b"\xff\xff",
        "truncated": envelope("apps/v1", "Deployment", b"\x0a\x7f"),
    },
)
async def test_invalid_body_is_rejected(api, body):
    status, answer = await api("POST", DEPLOYMENTS, body, **{"Content-Type": PROTOBUF})
    assert (status, answer["reason"]) == (400, "BadRequest")


async def test_another_kind_is_rejected(api):
    body = envelope("v1", "Pod", b"")
    status, answer = await api("POST", DEPLOYMENTS, body, **{"Content-Type": PROTOBUF})
    assert status == 400
    assert "cannot be handled as a Deployment" in answer["message"]


def double(number, value):
    return varint(number << 3 | 1) + struct.pack("<d", value)


def test_schema_of_a_definition():
    string = field(5, "string")
    properties = field(29, entry("size", double(9, 1.5) + double(11, -2.0)))
    dependencies = field(32, entry("a", field(2, "b")))
    items = field(24, field(2, string) + field(2, string))
    additional = field(30, field(1, 1)) + field(33, field(2, string))
    schema = properties + dependencies + items + additional + field(8, field(1, '{"x":1}'))
    body = envelope("apiextensions.k8s.io/v1", "JSONSchemaProps", schema)
    document = read_protobuf("apiextensions_v1.JSONSchemaProps", body)
    assert document == {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "JSONSchemaProps",
        "properties": {"size": {"maximum": 1.5, "minimum": -2.0}},
        "dependencies": {"a": ["b"]},
        "items": [{"type": "string"}, {"type": "string"}],
        "additionalProperties": True,
        "additionalItems": {"type": "string"},
        "default": {"x": 1},
    }


def test_fields_of_embedded_messages_belong_to_the_object():
    body = envelope("v1", "Volume", VOLUME)
    document = read_protobuf("core_v1.Volume", body)
    assert document == {"apiVersion": "v1", "kind": "Volume", "name": "v", "emptyDir": {"medium": ""}}


def test_maps_of_lists_and_times():
    extra = field(4, entry("groups", field(1, "a") + field(1, "b")))
    assert read_protobuf("authentication_v1.UserInfo", envelope("", "", extra)) == {"extra": {"groups": ["a", "b"]}}
    disrupted = field(2, entry("p", field(1, 60)))
    assert read_protobuf("policy_v1.PodDisruptionBudgetStatus", envelope("", "", disrupted)) == {
        "disruptedPods": {"p": "1970-01-01T00:01:00+00:00"}
    }

"""Custom resources: verbs, status and scale, several versions, and ownership."""

import pytest
from tests.support.tables import cases

PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
NAME = f"{PATH}/gangs.example.com"
GANGS = "/apis/example.com/v1/namespaces/default/gangs"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
TEXT, NUMBER = {"type": "string"}, {"type": "integer"}


def fields(**properties):
    return {"type": "object", "properties": properties}


@pytest.fixture
async def gangs(api, make_definition):
    """Requests to a server that serves Gangs with a status and a scale."""
    schema = fields(
        spec={
            **fields(
                size={**NUMBER, "minimum": 1},
                mode={**TEXT, "default": "Strict", "enum": ["Strict", "Loose"]},
                replicas=NUMBER,
                rest={"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            ),
            "required": ["size"],
        },
        status=fields(phase=TEXT, replicas=NUMBER, selector=TEXT),
    )
    scale = {
        "specReplicasPath": ".spec.replicas",
        "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": ".status.selector",
    }
    columns = [
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
        {"name": "Phase", "type": "string", "jsonPath": ".status.phase", "priority": 1},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]
    version = {
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}, "scale": scale},
        "additionalPrinterColumns": columns,
        "selectableFields": [{"jsonPath": ".spec.mode"}],
    }
    definition = make_definition(v1=version)
    definition["spec"]["names"]["listKind"] = "Gangs"
    await api.create(PATH, definition)
    return api


def gang(name="g", metadata=None, **spec):
    return {"metadata": {"name": name, **(metadata or {})}, "spec": {"size": 3, **spec}}


async def test_all_verbs_work(gangs):
    created = await gangs.create(GANGS, gang())
    assert created["kind"] == "Gang"
    assert created["apiVersion"] == "example.com/v1"
    assert created["metadata"]["generation"] == 1
    assert created["spec"] == {"size": 3, "mode": "Strict"}
    assert await gangs.get(f"{GANGS}/g") == created
    listed = await gangs.get("/apis/example.com/v1/gangs")
    assert (listed["kind"], listed["apiVersion"], listed["items"][0]["spec"]["size"]) == ("Gangs", "example.com/v1", 3)

    changed = await gangs.put(f"{GANGS}/g", {**created, "spec": {"size": 4}})
    assert changed["metadata"]["generation"] == 2
    conflict = await gangs.put(f"{GANGS}/g", {**created, "spec": {"size": 5}}, 409)
    assert conflict["message"].startswith('Operation cannot be fulfilled on gangs.example.com "g": the object has been')
    blind = await gangs.put(f"{GANGS}/g", gang(), 422)
    assert "metadata.resourceVersion: Invalid value: 0" in blind["message"]
    await gangs.put(f"{GANGS}/new", gang("new"), 404)

    deleted = await gangs.delete(f"{GANGS}/g")
    assert deleted["status"] == "Success"
    assert deleted["details"]["kind"] == "gangs"
    await gangs.get(f"{GANGS}/g", 404)


async def test_patches_by_type(gangs):
    await gangs.create(GANGS, gang())
    assert (await gangs.patch(f"{GANGS}/g", {"spec": {"size": 4, "mode": None}}))["spec"] == {
        "size": 4,
        "mode": "Strict",
    }
    await gangs.patch(f"{GANGS}/g", [{"op": "replace", "path": "/spec/size", "value": 5}], kind="json")
    head = {"apiVersion": "example.com/v1", "kind": "Gang"}
    applied = await gangs.patch(f"{GANGS}/g?fieldManager=me", {**head, **gang(mode="Loose")}, kind="apply")
    assert applied["spec"] == {"size": 3, "mode": "Loose"}
    await gangs.patch(f"{GANGS}/new?fieldManager=me", {**head, **gang("new")}, 201, kind="apply")
    rejected = await gangs.patch(f"{GANGS}/g", {"spec": {"size": 4}}, 415, kind="strategic")
    assert rejected["reason"] == "UnsupportedMediaType"
    wrong = await gangs.patch(f"{GANGS}/g", {"spec": {"size": "many"}}, 422)
    assert wrong["details"]["causes"] == [
        {
            "reason": "FieldValueTypeInvalid",
            "message": 'Invalid value: "string": spec.size in body must be of type integer: "string"',
            "field": "spec.size",
        }
    ]


@cases(
    "body, status, message",
    {
        "minimum": (
            gang(size=0),
            422,
            'Gang.example.com "g" is invalid: spec.size: Invalid value: 0: spec.size in body should be',
        ),
        "required": ({"metadata": {"name": "g"}, "spec": {}}, 422, "spec.size: Required value"),
        "enum": (gang(mode="Odd"), 422, 'spec.mode: Unsupported value: "Odd": supported values: "Strict", "Loose"'),
        "version": (
            {**gang(), "apiVersion": "example.com/v9"},
            400,
            "the API version in the data (example.com/v9) does not match",
        ),
        "kind": ({**gang(), "kind": "Crew"}, 422, 'kind: Invalid value: "Crew": must be Gang'),
        "metadata": (
            gang(metadata={"labels": 1}),
            400,
            "cannot unmarshal number into Go struct field ObjectMeta.metadata.labels",
        ),
        "name": (gang("Upper"), 422, 'metadata.name: Invalid value: "Upper"'),
        "no object": ([], 400, "an object is expected"),
    },
)
async def test_invalid_objects_are_rejected(gangs, body, status, message):
    assert message in (await gangs.create(GANGS, body, status))["message"]


async def test_protobuf_is_rejected(gangs):
    answer = await gangs("POST", GANGS, b"k8s\0", **{"Content-Type": "application/vnd.kubernetes.protobuf"})
    assert answer[0] == 415


async def test_unknown_fields_are_pruned_or_rejected(gangs):
    body = gang(colour="red", rest={"anything": {"goes": 1}})
    strict = await gangs.create(f"{GANGS}?fieldValidation=Strict", body, 400)
    why = 'strict decoding error: unknown field "spec.colour"'
    assert strict["message"] == f'Gang in version "v1" cannot be handled as a Gang: {why}'
    created = await gangs.create(GANGS, body)
    assert created["spec"] == {"size": 3, "mode": "Strict", "rest": {"anything": {"goes": 1}}}
    async with gangs.session.post(f"{GANGS}", json=gang("h", colour="red")) as response:
        assert response.headers["Warning"] == '299 - "unknown field \\"spec.colour\\""'


async def test_status_is_written_by_its_subresource_only(gangs):
    created = await gangs.create(GANGS, {**gang(), "status": {"phase": "Running"}})
    assert "status" not in created
    changed = await gangs.patch(
        f"{GANGS}/g/status", {"spec": {"size": 9}, "metadata": {"labels": {"a": "b"}}, "status": {"phase": "Running"}}
    )
    assert changed["status"] == {"phase": "Running"}
    assert changed["spec"]["size"] == 3
    assert "labels" not in changed["metadata"]
    assert changed["metadata"]["generation"] == 1
    again = await gangs.put(f"{GANGS}/g", {**changed, "status": {"phase": "Gone"}})
    assert again == changed
    wrong = await gangs.patch(f"{GANGS}/g/status", {"status": {"replicas": "x"}}, 422)
    assert wrong["details"]["causes"][0]["field"] == "status.replicas"
    assert (await gangs.get(f"{GANGS}/g/status")) == changed


async def test_status_is_a_plain_field_without_the_subresource(api, make_definition, make_schema):
    await api.create(PATH, make_definition(v1=make_schema(status=fields(phase=TEXT))))
    created = await api.create(GANGS, {"metadata": {"name": "g"}, "status": {"phase": "New"}})
    assert created["status"] == {"phase": "New"}
    changed = await api.patch(f"{GANGS}/g", {"status": {"phase": "Old"}})
    assert changed["metadata"]["generation"] == 2
    await api.get(f"{GANGS}/g/status", 404)


async def test_scale_subresource(gangs):
    await gangs.create(GANGS, gang())
    assert "does not exist" in (await gangs.get(f"{GANGS}/g/scale", 500))["message"]
    await gangs.patch(f"{GANGS}/g", {"spec": {"replicas": 2}})
    await gangs.patch(f"{GANGS}/g/status", {"status": {"replicas": 1, "selector": "a=b"}})
    scale = await gangs.get(f"{GANGS}/g/scale")
    assert (scale["spec"], scale["status"]) == ({"replicas": 2}, {"replicas": 1, "selector": "a=b"})
    await gangs.put(f"{GANGS}/g/scale", {**scale, "spec": {"replicas": 5}})
    await gangs.put(f"{GANGS}/g/scale", {**scale, "spec": {"replicas": 6}}, 409)
    await gangs.patch(f"{GANGS}/g/scale", {"spec": {"replicas": 7}})
    found = await gangs.get(f"{GANGS}/g")
    assert (found["spec"]["replicas"], found["metadata"]["generation"]) == (7, 4)


async def test_label_and_field_selectors(gangs):
    await gangs.create(GANGS, gang("a", {"labels": {"tier": "x"}}, mode="Loose"))
    await gangs.create(GANGS, gang("b"))

    async def names(query):
        return [item["metadata"]["name"] for item in (await gangs.get(f"{GANGS}?{query}"))["items"]]

    assert await names("labelSelector=tier%3Dx") == ["a"]
    assert await names("fieldSelector=metadata.name%3Db") == ["b"]
    assert await names("fieldSelector=spec.mode%3DStrict") == ["b"]
    assert await names("limit=1") == ["a"]
    rejected = await gangs.get(f"{GANGS}?fieldSelector=spec.size%3D3", 400)
    assert rejected["message"] == "field label not supported: spec.size"
    await gangs.delete(f"{GANGS}?fieldSelector=spec.mode%3DLoose")
    assert await names("") == ["b"]


async def test_tables_show_printer_columns(gangs):
    await gangs.create(GANGS, gang())
    await gangs.patch(f"{GANGS}/g/status", {"status": {"phase": "Running"}})
    table = await gangs.get(GANGS, Accept=TABLE)
    assert [(column["name"], column["priority"]) for column in table["columnDefinitions"]] == [
        ("Name", 0),
        ("Size", 0),
        ("Phase", 1),
        ("Age", 0),
    ]
    assert table["rows"][0]["cells"] == ["g", 3, "Running", "0s"]


async def test_tables_without_printer_columns_show_name_and_age(api, make_definition):
    await api.create(PATH, make_definition())
    await api.create(GANGS, {"metadata": {"name": "g"}})
    table = await api.get(GANGS, Accept=TABLE)
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Age"]
    assert table["rows"][0]["cells"] == ["g", "0s"]


@pytest.mark.parametrize(
    ("kind", "value", "cell"),
    [
        ("integer", 3, 3),
        ("integer", "3", None),
        ("number", 0.5, 0.5),
        ("boolean", True, True),
        ("boolean", "yes", None),
        ("string", 3, "3"),
        ("string", ["a", 1], '["a",1]'),
        ("date", "2025-12-31T23:59:00Z", "60s"),
        ("date", "yesterday", "<invalid>"),
        ("string", None, None),
    ],
)
async def test_printer_column_formats_cell(api, make_definition, make_schema, kind, value, cell):
    columns = {"additionalPrinterColumns": [{"name": "Any", "type": kind, "jsonPath": ".any"}]}
    anything = make_schema(any={"x-kubernetes-preserve-unknown-fields": True, "nullable": True})
    await api.create(PATH, make_definition(v1={**anything, **columns}))
    await api.create(GANGS, {"metadata": {"name": "g"}, "any": value})
    assert (await api.get(GANGS, Accept=TABLE))["rows"][0]["cells"] == ["g", cell]


async def test_watch_sends_events(gangs):
    async with gangs.watch(f"{GANGS}?watch=1") as following:
        created = await gangs.create(GANGS, gang(metadata={"labels": {"a": "b"}}))
        event = await following()
        assert (event["type"], event["object"]) == ("ADDED", created)
        await gangs.patch(f"{GANGS}/g/status", {"status": {"phase": "Running"}})
        assert (await following())["object"]["status"] == {"phase": "Running"}
        await gangs.delete(f"{GANGS}/g")
        assert (await following())["type"] == "DELETED"
    async with gangs.watch(f"{GANGS}?watch=1&resourceVersion={created['metadata']['resourceVersion']}") as following:
        assert [(await following())["type"] for _ in range(2)] == ["MODIFIED", "DELETED"]


async def test_generate_name_and_finalizers(gangs):
    created = await gangs.create(
        GANGS, {"metadata": {"generateName": "g-", "finalizers": ["a/b"]}, "spec": {"size": 1}}
    )
    name = created["metadata"]["name"]
    assert name.startswith("g-")
    assert "deletionTimestamp" in (await gangs.delete(f"{GANGS}/{name}"))["metadata"]
    await gangs.patch(f"{GANGS}/{name}", {"metadata": {"finalizers": []}})
    await gangs.get(f"{GANGS}/{name}", 404)


async def test_objects_are_deleted_with_their_owner(gangs, make_config_map):
    maps = "/api/v1/namespaces/default/configmaps"
    owner = await gangs.create(GANGS, gang())
    reference = {"apiVersion": "example.com/v1", "kind": "Gang", "name": "g", "uid": owner["metadata"]["uid"]}
    await gangs.create(maps, make_config_map("owned", ownerReferences=[reference]))
    await gangs.create(GANGS, gang("owned", {"ownerReferences": [reference]}))
    await gangs.delete(f"{GANGS}/g")
    await gangs.gone(f"{maps}/owned")
    await gangs.gone(f"{GANGS}/owned")


async def test_objects_are_deleted_with_their_namespace(gangs):
    await gangs.create("/api/v1/namespaces", {"metadata": {"name": "team"}})
    team = GANGS.replace("default", "team")
    await gangs.create(team, gang())
    await gangs.delete("/api/v1/namespaces/team")
    await gangs.gone("/api/v1/namespaces/team")
    assert (await gangs.get("/apis/example.com/v1/gangs"))["items"] == []


async def test_cluster_scoped_resource(api, make_definition):
    definition = make_definition()
    definition["spec"]["scope"] = "Cluster"
    await api.create(PATH, definition)
    created = await api.create("/apis/example.com/v1/gangs", {"metadata": {"name": "g"}})
    assert "namespace" not in created["metadata"]
    await api.get(f"{GANGS}/g", 404)
    await api.get("/apis/example.com/v1/gangs/g")


async def test_all_versions_serve_the_same_objects(api, make_definition, make_schema):
    both = {"type": "object", "properties": {"size": NUMBER}}
    newer = {"type": "object", "properties": {"size": NUMBER, "mode": {**TEXT, "default": "Strict"}}}
    definition = make_definition(
        v1={**make_schema(spec=both), "deprecated": True},
        v2={**make_schema(spec=newer), "selectableFields": [{"jsonPath": ".spec.mode"}]},
    )
    await api.create(PATH, definition)
    other = GANGS.replace("v1", "v2")
    await api.create(GANGS, {"metadata": {"name": "g"}, "spec": {"size": 1}})
    async with api.watch(f"{other}?watch=1") as following, api.watch(f"{GANGS}?watch=1") as older:
        event = (await following())["object"]
        assert (event["apiVersion"], event["spec"]) == ("example.com/v2", {"size": 1, "mode": "Strict"})
        assert (await older())["object"]["spec"] == {"size": 1}
        await api.patch(f"{other}/g", {"spec": {"mode": "Loose"}})
        assert (await following())["object"]["spec"] == {"size": 1, "mode": "Loose"}
        assert (await older())["object"]["spec"] == {"size": 1}
    assert [item["apiVersion"] for item in (await api.get(other))["items"]] == ["example.com/v2"]
    assert len((await api.get(f"{other}?fieldSelector=spec.mode%3DLoose"))["items"]) == 1
    await api.get(f"{GANGS}?fieldSelector=spec.mode%3DLoose", 400)
    async with api.session.get(f"{GANGS}/g") as response:
        assert response.headers["Warning"] == '299 - "example.com/v1 Gang is deprecated"'


async def test_new_schema_applies_to_existing_objects(api, make_definition, make_schema):
    await api.create(PATH, make_definition(v1=make_schema(spec=fields(size=NUMBER, old=TEXT))))
    await api.create(GANGS, {"metadata": {"name": "g"}, "spec": {"size": 1, "old": "x"}})
    changed = make_schema(spec=fields(size={**NUMBER, "minimum": 2}, mode={**TEXT, "default": "Strict"}))
    versions = make_definition(v1={**changed, "selectableFields": [{"jsonPath": ".spec.size"}]})["spec"]["versions"]
    await api.patch(NAME, {"spec": {"versions": versions}})
    assert (await api.get(f"{GANGS}/g"))["spec"] == {"size": 1, "mode": "Strict"}
    assert len((await api.get(f"{GANGS}?fieldSelector=spec.size%3D1"))["items"]) == 1
    await api.patch(f"{GANGS}/g", {"metadata": {"labels": {"a": "b"}}})  # unchanged values stay valid
    await api.patch(f"{GANGS}/g", {"spec": {"size": 0}}, 422)

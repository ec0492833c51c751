"""The OpenAPI document is valid, and no request that schemathesis generates from it makes the server fail.

BAYPLAN_OPENAPI_REQUESTS is the number of requests; .ci/run sets it. Without it, there are a few.
"""

import asyncio
import json
import os

import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from openapi_spec_validator import OpenAPIV31SpecValidator
from tests.support.served_questions import new_pod, node, pod, served_objects, small_cluster

from bayplan.answers.insight.question_types import QUESTIONS

REQUESTS = int(os.environ.get("BAYPLAN_OPENAPI_REQUESTS", "0")) or 12


async def get_document():
    async with served_objects(*small_cluster()) as client:
        return await client.call("GET", "/openapi.json")


async def test_document_is_valid_and_has_every_question():
    document = await get_document()
    assert list(OpenAPIV31SpecValidator(document).iter_errors()) == []
    assert {f"/v1/questions/{name}" for name in QUESTIONS} <= set(document["paths"])
    assert document["security"] == [{"token": []}]


def parts_of(schema):
    """Every schema in a document."""
    if isinstance(schema, dict):
        yield schema
    for each in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        yield from parts_of(each)


async def test_generators_of_clients_can_read_every_array():
    document = await get_document()
    arrays = [each for each in parts_of(document) if each.get("type") == "array"]
    assert len(arrays) > 20
    assert [each for each in arrays if not isinstance(each.get("items"), dict) or "prefixItems" in each] == []
    labels = document["components"]["schemas"]["AskWhatIf"]["properties"]["labels"]
    assert (labels["items"]["minItems"], labels["items"]["maxItems"]) == (2, 2)


async def test_examples_are_accepted_and_bodies_are_required_where_it_says_so():
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"selector": {"matchLabels": {"app": "web"}}, "template": template}
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "default"}}
    cluster = [node("node-a"), pod("web-0", "9"), {**deployment, "spec": spec}]
    async with served_objects(*cluster) as client:
        document = await client.call("GET", "/openapi.json")
        for name in QUESTIONS:
            body = document["paths"][f"/v1/questions/{name}"]["post"]["requestBody"]
            content = body["content"]["application/json"]
            schema = {**content["schema"], "components": document["components"]}
            Draft202012Validator(schema).validate(content["example"])
            await client.ask(name, **content["example"])
            async with client.send("POST", f"/v1/questions/{name}") as response:
                assert (response.status == 400) is body["required"], name


async def test_examples_of_fields_are_valid():
    document = await get_document()
    shown = 0
    for part in parts_of(document["components"]["schemas"]):
        for example in part.get("examples", ()):
            Draft202012Validator({**part, "components": document["components"]}).validate(example)
            shown += 1
    assert shown > 8


def requests_of(operations):
    """An operation and a request for it, some with a damaged body, and some with names that exist."""

    @st.composite
    def request(draw):
        operation = draw(st.sampled_from(operations))
        case = draw(operation.as_strategy())
        body = None if isinstance(case.body, schemathesis.core.NotSet) else case.body
        if isinstance(body, dict) and draw(st.booleans()):
            names = {"pod": "default/big-0", "node": "node-a1", "nodes": ["node-a1"], "objects": [new_pod("new")]}
            body = {**body, **{name: value for name, value in names.items() if name in body}}
        data = None if body is None else json.dumps(body).encode()
        if data is not None and draw(st.integers(0, 3)) == 0:
            cut = draw(st.integers(0, len(data)))
            data = data[:cut] + draw(st.binary(max_size=4)) + data[cut:]
        return operation, case.formatted_path, data

    return request()


async def check(client, document, sent):
    """Send requests; their responses are as the document says."""
    for operation, path, data in sent:
        headers = {"Authorization": f"Bearer {client.token}"}
        headers |= {} if data is None else {"Content-Type": "application/json"}
        method = operation.method.upper()
        async with client.session.request(method, client.url + path, data=data, headers=headers) as response:
            text = await response.text()
            assert response.status < 500, (path, data, text)
            described = document["paths"][operation.path][operation.method.lower()]["responses"]
            assert str(response.status) in described, (path, data, text)
            content = described[str(response.status)].get("content")
            if content is not None:
                schema = {**content["application/json"]["schema"], "components": document["components"]}
                Draft202012Validator(schema).validate(json.loads(text))


def test_generated_requests_are_answered_as_the_document_says(caplog):
    document = asyncio.run(get_document())
    schema = schemathesis.openapi.from_dict(document)
    operations = [result.ok() for result in schema.get_all_operations()]
    sent = []

    @given(requests_of(operations))
    @settings(max_examples=REQUESTS, derandomize=True, suppress_health_check=list(HealthCheck))
    def collect(request):
        sent.append(request)

    collect()

    async def run():
        async with served_objects(*small_cluster(), longest=2.0) as client:
            await check(client, document, sent)

    asyncio.run(run())
    assert len(sent) >= REQUESTS // 2
    assert "Traceback" not in caplog.text

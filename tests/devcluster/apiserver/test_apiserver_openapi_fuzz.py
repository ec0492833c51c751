"""The OpenAPI documents are valid, and no request that schemathesis generates from them makes the server's code fail.

Most requests are for an object that exists. Some have a damaged body, or odd options. BAYPLAN_OPENAPI_REQUESTS is the
number of requests for each group: .ci/run sets it. Without it, no requests are sent, because most of the time goes into
reading the documents.
"""

import asyncio
import json
import os

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mutations import FROM_KUBERNETES, KINDS, serving
from openapi_spec_validator import OpenAPIV2SpecValidator, OpenAPIV30SpecValidator
from valid_objects import VALID_OBJECTS

from bayplan.core.versions import VERSIONS
from bayplan_devcluster.apiserver import ApiServer, HttpRequest

GROUPS = sorted({(kind.group, kind.version) for kind in KINDS})
REQUESTS = int(os.environ.get("BAYPLAN_OPENAPI_REQUESTS", "0"))
BY_PATH = {kind.path("{namespace}", "{name}"): kind for kind in KINDS}


def get(path, version="1.36"):
    server = ApiServer(address=None, alpha=True, version=version)
    return json.loads(asyncio.run(server.handle(HttpRequest("GET", path))).body)


def document(group, version):
    path = f"/openapi/v3/apis/{group}/{version}" if group else f"/openapi/v3/api/{version}"
    return get(path, "1.37" if version in {"v1beta1", "v1alpha3"} else "1.36")


@pytest.mark.parametrize(("group", "version"), GROUPS)
def test_openapi_v3_document_is_valid(group, version):
    assert list(OpenAPIV30SpecValidator(document(group, version)).iter_errors()) == []


@pytest.mark.parametrize("version", VERSIONS)
def test_openapi_v2_document_is_valid(version):
    assert list(OpenAPIV2SpecValidator(get("/openapi/v2", version)).iter_errors()) == []


@st.composite
def requests(draw, operations):
    """A kind, and a request of one of its operations."""
    operation = draw(st.sampled_from(operations))
    case = draw(operation.as_strategy())
    kind = next(kind for path, kind in BY_PATH.items() if path.startswith(operation.path))
    if draw(st.integers(0, 3)):
        existing = {"namespace": "default", "name": VALID_OBJECTS[kind.kind]["metadata"]["name"]}
        case.path_parameters = {name: existing[name] for name in case.path_parameters or {}}
    body = b"" if isinstance(case.body, schemathesis.core.NotSet) else json.dumps(case.body).encode()
    if draw(st.integers(0, 3)) == 0:
        cut = draw(st.integers(0, len(body)))
        body = body[:cut] + draw(st.binary(max_size=4)) + body[cut:]
    media = case.media_type or draw(st.sampled_from(("application/json", "application/yaml", "text/plain")))
    accept = draw(st.sampled_from(("", "application/json;as=Table;v=v1;g=meta.k8s.io", "application/yaml")))
    query = {name: str(value) for name, value in (case.query or {}).items()}
    query |= draw(st.fixed_dictionaries({}, optional={name: st.text(max_size=9) for name in LIST_OPTIONS}))
    headers = {"Content-Type": media, "Accept": accept}
    return kind, HttpRequest(case.method, case.formatted_path, query, headers, body)


LIST_OPTIONS = ("labelSelector", "fieldSelector", "resourceVersion", "resourceVersionMatch", "propagationPolicy")


async def send(server, *requests):
    return [await server.handle(request) for request in requests]


@pytest.mark.skipif(REQUESTS == 0, reason="BAYPLAN_OPENAPI_REQUESTS is not set")
@pytest.mark.parametrize(("group", "version"), GROUPS)
def test_generated_requests_cause_no_internal_error(caplog, group, version):
    operations = [found.ok() for found in schemathesis.openapi.from_dict(document(group, version)).get_all_operations()]

    @settings(max_examples=REQUESTS, suppress_health_check=list(HealthCheck))
    @given(requests(operations))
    def check(generated):
        kind, request = generated
        server = serving(kind)
        existing = HttpRequest("POST", kind.path("default"), body=json.dumps(VALID_OBJECTS[kind.kind]).encode())
        created, response = asyncio.run(send(server, existing, request))
        assert created.status == 201, created.body
        assert [record.message for record in caplog.records if record.exc_info] == []
        known = any(text.encode() in response.body for text in FROM_KUBERNETES)
        assert response.status < 500 or known, response.body

    check()

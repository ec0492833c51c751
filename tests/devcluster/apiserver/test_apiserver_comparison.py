"""The embedded API server compared with a real kube-apiserver: mutated requests get the same status and reason.

All writes are dry runs, so each request meets the same objects on both servers.
"""

import asyncio
import copy
import gc
import json
import os
import random
import re
from importlib.resources import files

import pytest
from mutations import KINDS, PATCHES, VALUES, known_fields, mutate, places
from tests.support.control_plane import ASSETS, ControlPlane
from valid_objects import VALID_OBJECTS

from bayplan.client import ApiError, HttpClient, TransportError, load_kubeconfig
from bayplan.core.api.kinds import ADDED_KINDS, GATED_KINDS
from bayplan_devcluster.apiserver import ApiServer, HttpRequest

# Over TLS, the connection of a cancelled request closes later, maybe after the end of the test's event loop.
pytestmark = [pytest.mark.apiserver, pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")]

REQUESTS = int(os.environ.get("BAYPLAN_COMPARED_REQUESTS", "40"))
"""Per kind."""
ACCEPTED = {(422, 200)}
"""Statuses where kube-apiserver finds a value invalid, and the embedded server takes it."""
GATES = "GenericWorkload", "GangScheduling", "WorkloadAwarePreemption", "TopologyAwareWorkloadScheduling"
FLAGS = (
    f"--feature-gates={','.join(f'{gate}=true' for gate in (*GATES, 'DRAWorkloadResourceClaims'))}",
    "--runtime-config=scheduling.k8s.io/v1alpha2=true",
)
OPTIONS = (
    {"dryRun": "x"},
    {"fieldManager": "x" * 128},
    {"fieldManager": "x" * 129},
    {"fieldManager": "a\x01b"},
    {"fieldValidation": "Strict"},
    {"fieldValidation": "x"},
    {"force": "true"},
    {"pretty": "x"},
    {"unknown": "1"},
)
VERSIONS = ("abc", "1", "-1", "0", "", "99999999999999999999", "1.5", "01")
NAMES = ("x" * 253, "x" * 254, "X", "a_b", "a.b", "b", "", "x" * 64, "1", "a/b", "a%b", "..")
KNOWN_DIFFERENCES = {
    r"Apply failed with \d+ conflict": "the embedded server doesn't record which client owns a field",
    r"unable to find api field in struct RawExtension": "kube-apiserver can't patch the data of a ControllerRevision",
    r"^ControllerRevision.*data: Invalid value: .*: field is immutable$": "kube-apiserver compares such data as bytes",
    r"serviceAccountToken: Forbidden: must not be specified when serviceAccountName": (
        "the admission plugin ServiceAccount is off on the real server"
    ),
    r'parsing time "0001-01-01T00:00:00\+14:00"': "Python has no times before the year 1",
    r"quantities must match the regular expression": "quantities above 64 bits are rejected",
    r"^LimitRange .*is (greater|less) than": "quantities are rounded to billionths before they are compared",
    r"^LimitRange .*must be a standard resource": "kube-apiserver checks only the new limits of an updated LimitRange",
    r"does not match the name on the URL": "of several errors in a configuration, another one is found first",
    r"^Event .*(patch: Invalid value|strict decoding error)": "events are patched in the version of the request",
    r"JSON schema": "errors in JSON schemas are found later",
    r"cannot unmarshal array into Go struct field .* of type \[\]uint8": "Go decodes a list of numbers to bytes",
    r"spec\.template\.spec\.volumes\[\d+\]\.name": "the names of claim templates aren't checked as names of volumes",
    r"metadata\.generateName: Invalid value": "the prefix of a name is checked only in new objects",
    r"metadata\.generation: Invalid value": "a generation in a new object is ignored",
    r"^CertificateSigningRequest": "an update of its spec is checked, and not ignored",
    r"metadata\.uid: Invalid value": "another uid in a patch is a conflict, as in an update",
}
"""By a pattern for the messages of both servers: why they differ."""
_RESOURCES = json.loads(files("bayplan_devcluster.apiserver.kinds").joinpath("resources.json").read_bytes())
ONLY_STORED = {name for name, entry in _RESOURCES.items() if "stored" in entry}
"""The resources of kinds whose values are hardly validated: nothing here acts on them."""


@pytest.fixture(scope="module")
def kubeconfig():
    if not os.environ.get(ASSETS):
        pytest.skip(f"{ASSETS} is not set: it names a folder with etcd and kube-apiserver")
    plane = ControlPlane(api_server_flags=FLAGS)
    with asyncio.Runner() as runner:
        runner.run(plane.__aenter__())
        try:
            yield plane.admin
        finally:
            runner.run(plane.__aexit__())
    gc.collect()


@pytest.fixture(scope="module")
def embedded():
    return ApiServer(address=None, alpha=True)


def write(rng, kind, valid):
    """A random write: method, path, query, media type and body."""
    name = valid["metadata"]["name"]
    method = rng.choice(("POST", "POST", "PUT", "PUT", "PATCH"))
    query = {"dryRun": "All", **(rng.choice(OPTIONS) if rng.random() < 0.25 else {})}
    document, media = copy.deepcopy(valid), "application/json"
    if method == "POST" and kind.kind != "CustomResourceDefinition":
        document["metadata"]["name"] = "new"
    for _ in range(rng.choice((1, 1, 1, 2))):
        path = rng.choice(list(places(document)))
        if not path:
            continue
        fields, action = known_fields(kind, path), rng.choice(("replace", "replace", "remove", "add"))
        field = rng.choice(fields) if action == "add" and fields else None
        mutate(document, path, action, field, copy.deepcopy(rng.choice(VALUES)))
    for field, values in (("resourceVersion", VERSIONS), ("name", NAMES)):
        if rng.random() < 0.04 and isinstance(document.get("metadata"), dict):
            document["metadata"][field] = rng.choice(values)
    if method == "PATCH":
        media = rng.choice(PATCHES)
    if "apply" in media:
        document = {"apiVersion": kind.api_version, "kind": kind.kind, **document}
        query = {"fieldManager": "test", "force": "true", **query}
    part = "status" if method != "POST" and kind.status and rng.random() < 0.1 else None
    path = kind.path("default", None if method == "POST" else name, part)
    return method, path, query, media, json.dumps(document).encode()


async def send_to_real(client, method, path, query, media, body):
    """The status, the reason and the message of an error, or the status of a success."""
    try:
        await client.request(method, path, params=query, body=body, content_type=media)
    except ApiError as error:
        return error.status, error.reason, error.message
    return 200, "", ""


async def send_to_embedded(server, method, path, query, media, body):
    response = await server.handle(HttpRequest(method, path, query, {"Content-Type": media}, body))
    if response.status < 300:
        return 200, "", ""
    status = json.loads(response.body)
    return response.status, status.get("reason", ""), status["message"]


@pytest.mark.parametrize(
    "kind",
    [kind for kind in KINDS if kind not in {*ADDED_KINDS["1.37"], *GATED_KINDS["1.37"]}],
    ids=lambda kind: f"{kind.resource}/{kind.version}",
)
async def test_mutated_requests_get_the_status_and_reason_of_kube_apiserver(kind, kubeconfig, embedded):
    valid, rng = VALID_OBJECTS[kind.kind], random.Random(f"{kind.resource}/{kind.version}")
    create = ("POST", kind.path("default"), {}, "application/json", json.dumps(valid).encode())
    differences = []
    async with HttpClient(load_kubeconfig(kubeconfig), retries=0) as client:
        for status, reason, message in (await send_to_real(client, *create), await send_to_embedded(embedded, *create)):
            assert status == 200 or reason == "AlreadyExists", message
        for _ in range(REQUESTS):
            request = write(rng, kind, valid)
            try:
                expected = await send_to_real(client, *request)
            except TransportError:  # kube-apiserver panics on some patches
                continue
            found = await send_to_embedded(embedded, *request)
            messages = f"{expected[2]}\n{found[2]}"
            known = any(re.search(pattern, messages, re.MULTILINE) for pattern in KNOWN_DIFFERENCES)
            known |= kind.resource in ONLY_STORED and (expected[0], found[0]) in ACCEPTED
            if expected[:2] != found[:2] and not known:
                differences.append((request, expected, found))
    assert differences == []

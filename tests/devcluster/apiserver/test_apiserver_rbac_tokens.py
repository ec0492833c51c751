"""Service account tokens: request, use, review and expiry."""

import shutil
from datetime import UTC, datetime, timedelta

import aiohttp
import pytest
from tests.support.tables import cases

from bayplan_devcluster.apiserver import ADMIN, Address, ApiServer, Tls

ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
PODS = "/api/v1/namespaces/default/pods"
TOKEN_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
RBAC = "/apis/rbac.authorization.k8s.io/v1"


class MutableClock:
    def __init__(self):
        self.moment = datetime(2026, 1, 1, tzinfo=UTC)

    def now(self):
        return self.moment


@pytest.fixture
def clock():
    return MutableClock()


@pytest.fixture
async def api(clock, make_requests):
    async with (
        ApiServer(tokens={"admins": ADMIN}, rbac=True, clock=clock) as server,
        aiohttp.ClientSession(server.url, headers={"Authorization": "Bearer admins"}) as session,
    ):
        api = make_requests(session)
        await api.create(ACCOUNTS, {"metadata": {"name": "bob"}})
        yield api


async def token_of(api, name="bob", **spec):
    return (await api.create(f"{ACCOUNTS}/{name}/token", {"spec": spec}))["status"]["token"]


async def review(api, token, *audiences):
    spec = {"token": token, **({"audiences": audiences} if audiences else {})}
    return (await api.create(TOKEN_REVIEWS, {"spec": spec}))["status"]


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


async def test_token_identifies_its_account(api):
    account = await api.get(f"{ACCOUNTS}/bob")
    request = await api.create(f"{ACCOUNTS}/bob/token", {})
    assert request["metadata"]["uid"] == account["metadata"]["uid"]
    assert request["spec"] == {
        "audiences": ["https://kubernetes.default.svc.cluster.local"],
        "expirationSeconds": 3600,
        "boundObjectRef": None,
    }
    assert request["status"]["expirationTimestamp"] == "2026-01-01T01:00:00Z"
    status = await review(api, request["status"]["token"])
    extra = status["user"].pop("extra")
    assert status == {
        "authenticated": True,
        "audiences": ["https://kubernetes.default.svc.cluster.local"],
        "user": {
            "username": "system:serviceaccount:default:bob",
            "uid": account["metadata"]["uid"],
            "groups": ["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"],
        },
    }
    assert extra["authentication.kubernetes.io/credential-id"][0].startswith("JTI=")


async def test_account_has_the_permissions_of_its_roles(api):
    token = await token_of(api)
    message = (await api.get(PODS, 403, **bearer(token)))["message"]
    assert message.startswith('pods is forbidden: User "system:serviceaccount:default:bob" cannot list resource "pods"')
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}
    binding = {"metadata": {"name": "b"}, "roleRef": role, "subjects": [{"kind": "ServiceAccount", "name": "bob"}]}
    await api.create(f"{RBAC}/namespaces/default/rolebindings", binding)
    await api.get(PODS, **bearer(token))
    await api.get("/api/v1/pods", 403, **bearer(token))


async def test_token_expires(api, clock):
    token = await token_of(api, expirationSeconds=600)
    clock.moment += timedelta(seconds=599)
    await api.get("/version", **bearer(token))
    clock.moment += timedelta(seconds=1)
    await api.get("/version", 401, **bearer(token))
    assert await review(api, token) == {"user": {}, "error": "service account token has expired"}


async def test_token_is_invalid_after_its_account_is_deleted(api):
    token = await token_of(api)
    await api.delete(f"{ACCOUNTS}/bob")
    await api.get("/version", 401, **bearer(token))
    await api.create(ACCOUNTS, {"metadata": {"name": "bob"}})
    await api.get("/version", 401, **bearer(token))
    await api.get("/version", **bearer(await token_of(api)))


async def test_token_bound_to_a_pod_is_invalid_after_the_pod_is_deleted(api, make_pod):
    await api.create(PODS, make_pod("p", serviceAccountName="bob"))
    await api.create(PODS, make_pod("stranger"))
    ref = {"kind": "Pod", "apiVersion": "v1", "name": "p"}
    token = await token_of(api, boundObjectRef=ref)
    assert (await review(api, token))["user"]["extra"]["authentication.kubernetes.io/pod-name"] == ["p"]
    await api.delete(f"{PODS}/p?gracePeriodSeconds=0")
    await api.get("/version", 401, **bearer(token))
    for wrong, status in (
        ({**ref, "name": "stranger"}, 400),
        ({**ref, "name": "missing"}, 404),
        ({**ref, "kind": "Job"}, 400),
    ):
        await api.create(f"{ACCOUNTS}/bob/token", {"spec": {"boundObjectRef": wrong}}, status)


async def test_token_is_valid_for_its_audiences(api):
    token = await token_of(api, audiences=["vault"])
    await api.get("/version", 401, **bearer(token))
    assert (await review(api, token, "vault", "other"))["audiences"] == ["vault"]
    assert "authenticated" not in await review(api, token)


@cases(
    "change, error",
    {
        "signature": (lambda token: token[:-2] + ("AA" if token[-2:] != "AA" else "BB"), "invalid bearer token"),
        "claims": (lambda token: token.replace(".", ".e30", 1), "invalid bearer token"),
        "not a token": (lambda _: "x", "invalid bearer token"),
        "not base64": (lambda _: "a.b.c", "invalid bearer token"),
    },
)
async def test_tampered_token_is_rejected(api, change, error):
    token = change(await token_of(api))
    assert await review(api, token) == {"user": {}, "error": error}
    await api.get("/version", 401, **bearer(token))


@cases(
    "body, status, problem",
    {
        "too short": ({"spec": {"expirationSeconds": 599}}, 422, "a duration less than 10 minutes"),
        "too long": ({"spec": {"expirationSeconds": 1 << 33}}, 422, "larger than 2^32 seconds"),
        "another account": ({"metadata": {"name": "al"}}, 422, "must match the service account name"),
        "another UID": ({"metadata": {"uid": "x"}}, 409, "the UID in the token request (x) does not match"),
        "another namespace": ({"metadata": {"namespace": "x"}}, 422, "must match the service account namespace"),
    },
)
async def test_invalid_token_request_is_rejected(api, body, status, problem):
    assert problem in (await api.create(f"{ACCOUNTS}/bob/token", body, status))["message"]


async def test_unknown_token_is_unauthorized(api):
    await api.create(f"{ACCOUNTS}/missing/token", {}, 404)
    assert "token is required" in (await api.create(TOKEN_REVIEWS, {"spec": {}}, 400))["message"]


@pytest.mark.kubectl
@pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl on the PATH")
async def test_kubectl_with_a_token(make_kubectl):
    async with ApiServer(address=Address(tls=Tls.create()), tokens={"admins": ADMIN}, rbac=True) as server:
        kubectl = make_kubectl(server)
        await kubectl("create", "serviceaccount", "bob")
        await kubectl("create", "role", "reader", "--verb=get,list", "--resource=pods")
        await kubectl("create", "rolebinding", "bob", "--role=reader", "--serviceaccount=default:bob")
        token = ("--token", (await kubectl("create", "token", "bob", "--duration=20m")).strip())
        assert await kubectl("auth", "can-i", "list", "pods", *token) == "yes\n"
        assert await kubectl("auth", "can-i", "delete", "pods", *token, status=1) == "no\n"
        assert await kubectl("auth", "can-i", "list", "pods", "-A", *token, status=1) == "no\n"
        listed = [line.split() for line in (await kubectl("auth", "can-i", "--list", *token)).splitlines()]
        assert ["pods", "[]", "[]", "[get", "list]"] in listed
        assert "system:serviceaccount:default:bob" in await kubectl("auth", "whoami", *token)
        await kubectl("get", "pods", *token)
        message = await kubectl("get", "nodes", *token, status=1)
        assert 'nodes is forbidden: User "system:serviceaccount:default:bob" cannot list resource "nodes"' in message
        as_bob = ("--as", "system:serviceaccount:default:bob")
        assert await kubectl("auth", "can-i", "get", "pods", *as_bob) == "yes\n"
        bindings = await kubectl("get", "rolebindings", "--output", "wide")
        assert "Role/reader" in bindings
        assert "default/bob" in bindings

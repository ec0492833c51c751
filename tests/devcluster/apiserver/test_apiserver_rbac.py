"""A server that enforces RBAC: requests, reviews, impersonation, aggregation and escalation."""

import aiohttp
import pytest
from tests.support.tables import cases

from bayplan_devcluster.apiserver import ADMIN, ApiServer, User

RBAC = "/apis/rbac.authorization.k8s.io/v1"
REVIEWS = "/apis/authorization.k8s.io/v1"
PODS, NODES = "/api/v1/namespaces/default/pods", "/api/v1/nodes"
JANE = {"Authorization": "Bearer janes"}
READ_PODS = {"verbs": ["get", "list", "watch"], "apiGroups": [""], "resources": ["pods"]}


@pytest.fixture
async def server():
    tokens = {"admins": ADMIN, "janes": User("jane", ("dev", "system:authenticated")), "joes": "joe"}
    async with ApiServer(tokens=tokens, rbac=True) as running:
        yield running


@pytest.fixture
async def api(server, make_requests):
    """An administrator."""
    async with aiohttp.ClientSession(server.url, headers={"Authorization": "Bearer admins"}) as session:
        yield make_requests(session)


@pytest.fixture
async def jane(server, make_requests):
    async with aiohttp.ClientSession(server.url, headers=JANE) as session:
        yield make_requests(session)


def role_ref(kind, name):
    return {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}


async def grant(api, *rules, subject=None, namespace="", name="test"):
    """Creates a role with these rules, and its binding, in a namespace or for the cluster."""
    at, kind = (f"{RBAC}/namespaces/{namespace}", "Role") if namespace else (RBAC, "ClusterRole")
    await api.create(f"{at}/{kind.lower()}s", {"metadata": {"name": name}, "rules": list(rules)})
    binding = {"roleRef": role_ref(kind, name), "subjects": [subject or {"kind": "User", "name": "jane"}]}
    await api.create(f"{at}/{kind.lower()}bindings", {"metadata": {"name": name}, **binding})


async def test_user_without_rules_is_forbidden(jane):
    answer = await jane.get(PODS, 403)
    message = 'pods is forbidden: User "jane" cannot list resource "pods" in API group "" in the namespace "default"'
    assert answer == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": "Forbidden",
        "details": {"kind": "pods"},
        "code": 403,
    }
    answer = await jane.get("/metrics", 403)
    assert (answer["message"], answer["details"]) == ('forbidden: User "jane" cannot get path "/metrics"', {})
    await jane.get("/apis")
    await jane.get("/version")


async def test_unserved_resource_is_forbidden_before_not_found(jane):
    assert (await jane.get("/apis/nowhere/v1/things", 403))["details"] == {"group": "nowhere", "kind": "things"}


@cases(
    "subject, allowed",
    {
        "user": ({"kind": "User", "name": "jane"}, True),
        "another user": ({"kind": "User", "name": "joe"}, False),
        "group": ({"kind": "Group", "name": "dev"}, True),
        "group with the name of the user": ({"kind": "Group", "name": "jane"}, False),
        "system:authenticated": ({"kind": "Group", "name": "system:authenticated"}, True),
        "service account": ({"kind": "ServiceAccount", "name": "jane", "namespace": "default"}, False),
    },
)
@pytest.mark.parametrize("namespace", ["", "default"])
async def test_binding_applies_to_its_subjects(api, jane, subject, namespace, allowed):
    await grant(api, READ_PODS, subject=subject, namespace=namespace)
    await jane.get(PODS, 200 if allowed else 403)


async def test_role_applies_to_its_namespace_only(api, jane):
    await grant(api, READ_PODS, namespace="default")
    await jane.get(PODS)
    await jane.get("/api/v1/namespaces/kube-system/pods", 403)
    await jane.get("/api/v1/pods", 403)
    await jane.create(PODS, {}, 403)


async def test_cluster_role_bound_in_a_namespace(api, jane):
    body = {"metadata": {"name": "v"}, "roleRef": role_ref("ClusterRole", "view")}
    subjects = {"subjects": [{"kind": "User", "name": "jane"}]}
    await api.create(f"{RBAC}/namespaces/default/rolebindings", {**body, **subjects})
    await jane.get(PODS)
    await jane.get("/api/v1/namespaces/default")
    await jane.get("/api/v1/namespaces", 403)
    await jane.get("/api/v1/namespaces/default/secrets", 403)


async def test_changes_of_roles_apply_immediately(api, jane):
    await grant(api, READ_PODS)
    await jane.get(PODS)
    await api.patch(f"{RBAC}/clusterroles/test", {"rules": [{**READ_PODS, "verbs": ["get"]}]})
    await jane.get(PODS, 403)
    await api.patch(f"{RBAC}/clusterroles/test", {"rules": [READ_PODS]})
    await jane.get(PODS)
    await api.delete(f"{RBAC}/clusterrolebindings/test")
    await jane.get(PODS, 403)


async def test_missing_role_is_reported(api, jane):
    await grant(api, READ_PODS)
    await api.delete(f"{RBAC}/clusterroles/test")
    message = (await jane.get(PODS, 403))["message"]
    assert message.endswith('the namespace "default": RBAC: clusterrole.rbac.authorization.k8s.io "test" not found')


async def test_rules_for_names_and_subresources(api, jane, make_pod, make_config_map):
    named = {"verbs": ["get", "watch"], "apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["m"]}
    bind = {"verbs": ["create"], "apiGroups": [""], "resources": ["pods/binding"]}
    await grant(api, named, bind)
    await api.create("/api/v1/namespaces/default/configmaps", make_config_map("m"))
    await api.create("/api/v1/namespaces/default/configmaps", make_config_map("other"))
    await api.create(PODS, make_pod("p"))
    await jane.get("/api/v1/namespaces/default/configmaps/m")
    await jane.get("/api/v1/namespaces/default/configmaps/other", 403)
    await jane.get("/api/v1/namespaces/default/configmaps", 403)
    async with jane.watch("/api/v1/namespaces/default/configmaps?watch=1&fieldSelector=metadata.name%3Dm") as seen:
        assert (await seen())["object"]["metadata"]["name"] == "m"
    binding = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}}
    await jane.create(f"{PODS}/p/binding", binding)
    await jane.get(f"{PODS}/p", 403)


async def test_update_of_a_missing_object_requires_create(api, jane):
    leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
    rule = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"]}
    await grant(api, {**rule, "verbs": ["update", "patch"]})
    lease = {"metadata": {"name": "l"}, "spec": {"holderIdentity": "jane"}}
    message = (await jane.put(f"{leases}/l", lease, 403))["message"]
    assert 'User "jane" cannot create resource "leases" in API group "coordination.k8s.io"' in message
    await api.patch(f"{RBAC}/clusterroles/test", {"rules": [{**rule, "verbs": ["update", "create"]}]})
    await jane.put(f"{leases}/l", lease, 201)


@cases(
    "headers, path, status",
    {
        "anonymous health check": ({}, "/livez", 200),
        "anonymous version": ({}, "/version", 200),
        "anonymous discovery": ({}, "/api", 403),
        "anonymous list": ({}, PODS, 403),
        "wrong token": ({"Authorization": "Bearer wrong"}, "/livez", 401),
        "token of another issuer": ({"Authorization": "Bearer e30.e30.e30"}, "/livez", 401),
        "malformed token": ({"Authorization": "Bearer é.é.é"}, "/livez", 401),
        "basic authentication": ({"Authorization": "Basic eDp5"}, "/livez", 200),
        "administrator": ({"Authorization": "Bearer admins"}, "/metrics", 404),
    },
)
async def test_request_is_authenticated(server, make_requests, headers, path, status):
    async with aiohttp.ClientSession(server.url) as session:
        found, answer = await make_requests(session)("GET", path, **headers)
    assert found == status
    if status == 403:
        assert 'User "system:anonymous" cannot' in answer["message"]


async def test_access_reviews(api, jane):
    await grant(api, READ_PODS)
    asked = {"resourceAttributes": {"verb": "list", "resource": "pods", "namespace": "default"}}
    answer = await jane.create(f"{REVIEWS}/selfsubjectaccessreviews", {"spec": asked})
    assert answer["status"] == {
        "allowed": True,
        "reason": 'RBAC: allowed by ClusterRoleBinding "test" of ClusterRole "test" to User "jane"',
    }
    denied = {"nonResourceAttributes": {"verb": "get", "path": "/metrics"}}
    answer = await jane.create(f"{REVIEWS}/selfsubjectaccessreviews", {"spec": denied})
    assert answer["status"] == {"allowed": False}
    await jane.create(f"{REVIEWS}/subjectaccessreviews", {"spec": {**asked, "user": "jane"}}, 403)
    for user, allowed in (("jane", True), ("joe", False)):
        extra = {"authentication.kubernetes.io/credential-id": ["JTI=1", "JTI=2"]}
        spec = {**asked, "user": user, "extra": extra}
        answer = await api.create(f"{REVIEWS}/subjectaccessreviews", {"spec": spec})
        assert answer["spec"]["extra"] == extra
        assert answer["status"]["allowed"] is allowed
    answer = await api.create(f"{REVIEWS}/subjectaccessreviews", {"spec": {**asked, "groups": ["system:masters"]}})
    assert answer["status"] == {"allowed": True}
    rules = await jane.create(f"{REVIEWS}/selfsubjectrulesreviews", {"spec": {"namespace": "default"}})
    assert READ_PODS in rules["status"]["resourceRules"]
    assert {"verbs": ["create"], "apiGroups": ["authentication.k8s.io"], "resources": ["selfsubjectreviews"]} in rules[
        "status"
    ]["resourceRules"]
    assert any("/openapi" in rule["nonResourceURLs"] for rule in rules["status"]["nonResourceRules"])


@cases(
    "resource, spec, problem",
    {
        "no attributes": ("subjectaccessreviews", {"user": "a"}, "spec.resourceAttributes: Invalid value"),
        "no user": (
            "subjectaccessreviews",
            {"nonResourceAttributes": {"verb": "get", "path": "/"}},
            "spec.user: Invalid value",
        ),
        "two kinds of attributes": (
            "subjectaccessreviews",
            {"user": "a", "resourceAttributes": {"verb": "get"}, "nonResourceAttributes": {"verb": "get"}},
            "cannot be specified in combination with resourceAttributes",
        ),
        "another namespace": (
            "namespaces/default/localsubjectaccessreviews",
            {"user": "a", "resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "other"}},
            "spec.resourceAttributes.namespace: Invalid value",
        ),
    },
)
async def test_invalid_review_is_rejected(api, resource, spec, problem):
    assert problem in (await api.create(f"{REVIEWS}/{resource}", {"spec": spec}, 422))["message"]


async def test_impersonation_requires_permission(api, jane, server, make_requests):
    await grant(api, READ_PODS, subject={"kind": "Group", "name": "readers"})
    whoami = "/apis/authentication.k8s.io/v1/selfsubjectreviews"

    async def impersonate(requests, **headers):
        headers = {
            "Content-Type": "application/json",
            **{f"Impersonate-{key}": value for key, value in headers.items()},
        }
        return await requests("POST", whoami, {}, **headers)

    _, answer = await impersonate(api, User="joe", Group="readers", Uid="7", **{"Extra-Scopes%2fa": "x"})
    assert answer["status"]["userInfo"] == {
        "username": "joe",
        "uid": "7",
        "groups": ["readers", "system:authenticated"],
        "extra": {"scopes/a": ["x"]},
    }
    _, answer = await impersonate(api, User="system:serviceaccount:a:b")
    assert answer["status"]["userInfo"]["groups"] == [
        "system:serviceaccounts",
        "system:serviceaccounts:a",
        "system:authenticated",
    ]
    assert (await impersonate(api, Group="readers"))[0] == 400
    status, answer = await impersonate(jane, User="joe")
    assert status == 403
    assert answer["message"].startswith('users "joe" is forbidden: User "jane" cannot impersonate resource "users"')
    await api.get(PODS, **{"Impersonate-User": "joe", "Impersonate-Group": "readers"})
    await api.get(PODS, 403, **{"Impersonate-User": "joe"})


async def test_aggregated_roles(api, jane):
    admin = await api.get(f"{RBAC}/clusterroles/admin")
    resources = {resource for rule in admin["rules"] for resource in rule.get("resources", ())}
    assert {"pods/log", "pods/eviction", "rolebindings"} <= resources, "the rules of view, edit and admin"
    gangs = {"verbs": ["get"], "apiGroups": ["example.com"], "resources": ["gangs"]}
    label = {"rbac.authorization.k8s.io/aggregate-to-view": "true"}
    await api.create(f"{RBAC}/clusterroles", {"metadata": {"name": "gangs", "labels": label}, "rules": [gangs]})
    for role in ("view", "edit", "admin"):
        assert gangs in (await api.get(f"{RBAC}/clusterroles/{role}"))["rules"], role
    await api.delete(f"{RBAC}/clusterroles/gangs")
    for role in ("view", "edit", "admin"):
        assert gangs not in (await api.get(f"{RBAC}/clusterroles/{role}"))["rules"], role


ROLES = f"{RBAC}/namespaces/default/roles"
WRITE_ROLES = {
    "verbs": ["create", "update", "patch"],
    "apiGroups": ["rbac.authorization.k8s.io"],
    "resources": ["roles", "rolebindings", "clusterroles"],
}


async def test_users_cannot_grant_more_than_they_have(api, jane):
    await grant(api, READ_PODS, WRITE_ROLES)
    await jane.create(ROLES, {"metadata": {"name": "less"}, "rules": [{**READ_PODS, "verbs": ["get"]}]})
    more = {"metadata": {"name": "more"}, "rules": [{**READ_PODS, "verbs": ["get", "delete"]}]}
    expected = (
        'roles.rbac.authorization.k8s.io "more" is forbidden: user "jane" (groups=["dev" "system:authenticated"]) '
        "is attempting to grant RBAC permissions not currently held:\n"
        '{APIGroups:[""], Resources:["pods"], Verbs:["delete"]}'
    )
    assert (await jane.create(ROLES, more, 403))["message"] == expected
    await jane.put(f"{ROLES}/more", more, 403)
    await jane.patch(f"{ROLES}/less", {"rules": more["rules"]}, 403)
    await jane.patch(f"{ROLES}/less", {"metadata": {"labels": {"a": "b"}}})
    await api.create(ROLES, more)
    await jane.patch(f"{ROLES}/more", {"metadata": {"labels": {"a": "b"}}}, 403)
    await jane.patch(f"{ROLES}/more", {"metadata": {"finalizers": ["example.com/held"]}})
    aggregated = {"metadata": {"name": "all"}, "aggregationRule": {"clusterRoleSelectors": [{}]}}
    message = (await jane.create(f"{RBAC}/clusterroles", aggregated, 403))["message"]
    assert message.endswith("must have cluster-admin privileges to use the aggregationRule")
    binding = {"metadata": {"name": "b"}, "roleRef": role_ref("ClusterRole", "cluster-admin"), "subjects": []}
    bindings = f"{RBAC}/namespaces/default/rolebindings"
    await jane.create(bindings, binding, 403)
    await jane.create(bindings, {**binding, "roleRef": role_ref("Role", "less")})
    await jane.create(bindings, {**binding, "roleRef": role_ref("Role", "missing")}, 404)


async def test_escalate_and_bind_allow_granting_more(api, jane):
    rule = {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"]}
    bind = {**rule, "verbs": ["bind"], "resources": ["clusterroles"], "resourceNames": ["view"]}
    await grant(api, WRITE_ROLES, {**rule, "verbs": ["escalate"]}, bind)
    await jane.create(ROLES, {"metadata": {"name": "more"}, "rules": [READ_PODS]})
    bindings = f"{RBAC}/namespaces/default/rolebindings"
    await jane.create(bindings, {"metadata": {"name": "v"}, "roleRef": role_ref("ClusterRole", "view")})
    await jane.create(bindings, {"metadata": {"name": "e"}, "roleRef": role_ref("ClusterRole", "edit")}, 403)


@cases(
    "path, body, problem",
    {
        "no verbs": ("clusterroles", {"rules": [{}]}, "rules[0].verbs: Required value"),
        "resources and paths": (
            "clusterroles",
            {"rules": [{**READ_PODS, "nonResourceURLs": ["/x"]}]},
            "rules cannot apply to both regular resources and non-resource URLs",
        ),
        "unknown operator in a selector": (
            "clusterroles",
            {"aggregationRule": {"clusterRoleSelectors": [{"matchExpressions": [{"key": "a", "operator": "Like"}]}]}},
            "aggregationRule.clusterRoleSelectors[0].matchExpressions[0].operator: Invalid value",
        ),
        "paths in a role": (
            "namespaces/default/roles",
            {"rules": [{"verbs": ["get"], "nonResourceURLs": ["/x"]}]},
            "namespaced rules cannot apply to non-resource URLs",
        ),
        "role in a cluster role binding": (
            "clusterrolebindings",
            {"roleRef": {"kind": "Role", "name": "r"}},
            'roleRef.kind: Unsupported value: "Role": supported values: "ClusterRole"',
        ),
        "account without namespace": (
            "clusterrolebindings",
            {"roleRef": role_ref("ClusterRole", "r"), "subjects": [{"kind": "ServiceAccount", "name": "a"}]},
            "subjects[0].namespace: Required value",
        ),
        "unknown kind of subject": (
            "clusterrolebindings",
            {"roleRef": role_ref("ClusterRole", "r"), "subjects": [{"kind": "Robot", "name": "a"}]},
            'subjects[0].kind: Unsupported value: "Robot"',
        ),
    },
)
async def test_invalid_roles_and_bindings_are_rejected(api, path, body, problem):
    assert problem in (await api.create(f"{RBAC}/{path}", {"metadata": {"name": "x"}, **body}, 422))["message"]


async def test_binding_has_a_default_api_group_and_an_immutable_role(api):
    await grant(api, READ_PODS)
    binding = await api.get(f"{RBAC}/clusterrolebindings/test")
    assert binding["subjects"] == [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "jane"}]
    changed = {"roleRef": role_ref("ClusterRole", "view")}
    message = (await api.patch(f"{RBAC}/clusterrolebindings/test", changed, 422))["message"]
    assert message.endswith("cannot change roleRef")


async def test_audit_callback_is_called_for_every_request(server, jane):
    calls = []
    server.access.audit.append(lambda user, request, verdict: calls.append((user.name, request.verb, verdict.allowed)))
    await jane.get(NODES, 403)
    await jane.get("/version")
    assert calls == [("jane", "list", False), ("jane", "get", True)]


async def test_everything_is_allowed_without_rbac(make_requests):
    async with ApiServer() as open_server, aiohttp.ClientSession(open_server.url) as session:
        api = make_requests(session)
        await api.get(PODS)
        await api.get(PODS, Authorization="Bearer of something")
        assert (await api.get(f"{RBAC}/clusterroles"))["items"] == []
        denied = {"spec": {"user": "unprivileged", "resourceAttributes": {"verb": "list", "resource": "pods"}}}
        assert (await api.create(f"{REVIEWS}/subjectaccessreviews", denied))["status"] == {"allowed": True}
        account = {"metadata": {"name": "bob"}}
        await api.create("/api/v1/namespaces/default/serviceaccounts", account)
        issued = await api.create("/api/v1/namespaces/default/serviceaccounts/bob/token", {})
        token = {"spec": {"token": issued["status"]["token"]}}
        answer = await api.create("/apis/authentication.k8s.io/v1/tokenreviews", token)
        assert answer["status"]["user"]["username"] == "system:serviceaccount:default:bob"

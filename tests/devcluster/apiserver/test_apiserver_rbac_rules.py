"""The requests that rules allow and cover, and the permissions of the default roles."""

from urllib.parse import parse_qsl

import pytest
from tests.support.tables import cases

from bayplan_devcluster.apiserver.authorization.attributes import Attributes, attributes_of, forbidden_request
from bayplan_devcluster.apiserver.authorization.bootstrap_policy import bootstrap_policy
from bayplan_devcluster.apiserver.authorization.rules import Rule, not_covered
from bayplan_devcluster.apiserver.authorization.users import ADMIN, ANONYMOUS, User, service_account_of
from bayplan_devcluster.apiserver.http.request_info import read_request_info

READ_PODS = {"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"]}


def attributes(verb="get", resource="pods", group="", subresource="", name=""):
    return Attributes(verb, group, resource, subresource, "default", name)


@cases(
    "rule, what, allowed",
    {
        "exact match": ({}, attributes(), True),
        "another verb": ({}, attributes("delete"), False),
        "all verbs": ({"verbs": ["*"]}, attributes("approve"), True),
        "another group": ({}, attributes(group="apps"), False),
        "all groups": ({"apiGroups": ["*"]}, attributes(group="apps"), True),
        "another resource": ({}, attributes(resource="nodes"), False),
        "all resources and subresources": ({"resources": ["*"]}, attributes(subresource="status"), True),
        "resource without subresource": ({}, attributes(subresource="status"), False),
        "subresource without resource": ({"resources": ["pods/status"]}, attributes(), False),
        "subresource": ({"resources": ["pods/status"]}, attributes(subresource="status"), True),
        "subresource of all resources": ({"resources": ["*/status"]}, attributes(subresource="status"), True),
        "another subresource": ({"resources": ["*/status"]}, attributes(subresource="log"), False),
        "no wildcard for subresources": ({"resources": ["pods/*"]}, attributes(subresource="log"), False),
        "name": ({"resourceNames": ["a"]}, attributes(name="a"), True),
        "another name": ({"resourceNames": ["a"]}, attributes(name="b"), False),
        "list without a name": ({"resourceNames": ["a"]}, attributes("list"), False),
        "path for a resource rule": ({}, Attributes("get", path="/pods"), False),
        "path": ({"nonResourceURLs": ["/metrics"]}, Attributes("get", path="/metrics"), True),
        "subpath": ({"nonResourceURLs": ["/metrics"]}, Attributes("get", path="/metrics/slis"), False),
        "prefix": ({"nonResourceURLs": ["/m*"]}, Attributes("get", path="/metrics/slis"), True),
        "all paths": ({"nonResourceURLs": ["*"]}, Attributes("get", path="/anything"), True),
        "path with another verb": ({"nonResourceURLs": ["*"]}, Attributes("put", path="/x"), False),
    },
)
def test_rule_allows(rule, what, allowed):
    whole = rule if "nonResourceURLs" in rule else {**READ_PODS, **rule}
    assert Rule.of({"verbs": ["get"], **whole}).allows(what) is allowed


@cases(
    "owned, wanted, missing",
    {
        "equal": ([READ_PODS], READ_PODS, []),
        "no rules": ([], READ_PODS, ['{APIGroups:[""], Resources:["pods"], Verbs:["get" "list"]}']),
        "missing verb": (
            [{**READ_PODS, "verbs": ["get"]}],
            READ_PODS,
            ['{APIGroups:[""], Resources:["pods"], Verbs:["list"]}'],
        ),
        "several rules": ([{**READ_PODS, "verbs": ["get"]}, {**READ_PODS, "verbs": ["list"]}], READ_PODS, []),
        "one name for all": (
            [{**READ_PODS, "resourceNames": ["a"]}],
            {**READ_PODS, "verbs": ["get"]},
            ['{APIGroups:[""], Resources:["pods"], Verbs:["get"]}'],
        ),
        "all for one name": ([READ_PODS], {**READ_PODS, "resourceNames": ["a"]}, []),
        "subresource of all resources": (
            [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*/scale"]}],
            {"verbs": ["get"], "apiGroups": ["apps"], "resources": ["deployments/scale", "deployments"]},
            ['{APIGroups:["apps"], Resources:["deployments"], Verbs:["get"]}'],
        ),
        "paths": (
            [{"verbs": ["get"], "nonResourceURLs": ["/healthz/*"]}],
            {"verbs": ["get"], "nonResourceURLs": ["/healthz/ping", "/livez"]},
            ['{NonResourceURLs:["/livez"], Verbs:["get"]}'],
        ),
    },
)
def test_rules_do_not_cover(owned, wanted, missing):
    assert [str(rule) for rule in not_covered([*map(Rule.of, owned)], [Rule.of(wanted)])] == missing


@pytest.mark.parametrize(
    ("method", "target", "expected"),
    [
        ("GET", "/api/v1/namespaces/a/pods/p", Attributes("get", "", "pods", "", "a", "p")),
        ("GET", "/api/v1/namespaces/a", Attributes("get", "", "namespaces", "", "a", "a")),
        ("PUT", "/api/v1/namespaces/a/finalize", Attributes("update", "", "namespaces", "finalize", "a", "a")),
        ("POST", "/api/v1/namespaces/a/pods/p/binding", Attributes("create", "", "pods", "binding", "a", "p")),
        ("GET", "/apis/apps/v1/deployments?watch=1", Attributes("watch", "apps", "deployments")),
        (
            "GET",
            "/api/v1/namespaces/a/configmaps?watch=true&fieldSelector=metadata.name%3Dm",
            Attributes("watch", "", "configmaps", "", "a", "m"),
        ),
        ("GET", "/api/v1/pods?fieldSelector=spec.nodeName%3Dn", Attributes("list", "", "pods")),
        ("DELETE", "/api/v1/namespaces/a/pods", Attributes("deletecollection", "", "pods", "", "a")),
        ("GET", "/livez?verbose", Attributes("get", path="/livez")),
    ],
)
def test_attributes_of_a_request(method, target, expected):
    path, _, text = target.partition("?")
    query = dict(parse_qsl(text, keep_blank_values=True))
    assert attributes_of(read_request_info(method, path, query), query) == expected


@cases(
    "what, message, details",
    {
        "namespaced": (
            Attributes("list", "", "pods", "", "default"),
            'pods is forbidden: User "jane" cannot list resource "pods" in API group "" in the namespace "default"',
            {"kind": "pods"},
        ),
        "subresource": (
            Attributes("get", "apps", "deployments", "scale", "shop", "web"),
            (
                'deployments.apps "web" is forbidden: User "jane" cannot get resource "deployments/scale" '
                'in API group "apps" in the namespace "shop"'
            ),
            {"name": "web", "group": "apps", "kind": "deployments"},
        ),
        "cluster-scoped": (
            Attributes("watch", "", "nodes"),
            'nodes is forbidden: User "jane" cannot watch resource "nodes" in API group "" at the cluster scope',
            {"kind": "nodes"},
        ),
        "escaped path": (
            Attributes("get", path="/a<b>&c"),
            'forbidden: User "jane" cannot get path "/a&lt;b&gt;&amp;c"',
            {},
        ),
    },
)
def test_message_of_a_forbidden_request(what, message, details):
    error = forbidden_request(User("jane"), what, "")
    assert (error.code, error.reason, error.message, error.details) == (403, "Forbidden", message, details)
    assert forbidden_request(User("jane"), what, "RBAC: why").message == f"{message}: RBAC: why"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("system:serviceaccount:a:b", ("a", "b")),
        ("system:serviceaccount:a", None),
        ("system:serviceaccount::b", None),
        ("system:serviceaccount:a:b:c", None),
        ("jane", None),
    ],
)
def test_names_of_service_accounts(name, expected):
    assert service_account_of(name) == expected


ROLES = {obj["metadata"]["name"]: obj.get("rules") for obj in bootstrap_policy() if obj["kind"] == "ClusterRole"}


def allows(role, verb, resource, group="", name=""):
    resource, _, subresource = resource.partition("/")
    what = Attributes(verb, group, resource, subresource, "", name)
    return any(Rule.of(rule).allows(what) for rule in ROLES[role])


SCHEDULER, VOLUMES = "system:kube-scheduler", "system:volume-scheduler"


@pytest.mark.parametrize(
    ("role", "verb", "resource", "group", "allowed"),
    [
        (SCHEDULER, "create", "pods/binding", "", True),
        (SCHEDULER, "patch", "pods/status", "", True),
        (SCHEDULER, "delete", "pods", "", True),
        (SCHEDULER, "create", "pods", "", False),
        (SCHEDULER, "update", "pods", "", False),
        (SCHEDULER, "update", "nodes", "", False),
        (SCHEDULER, "list", "secrets", "", False),
        (SCHEDULER, "list", "configmaps", "", False),
        (SCHEDULER, "patch", "events", "events.k8s.io", True),
        (SCHEDULER, "list", "events", "events.k8s.io", False),
        (SCHEDULER, "create", "leases", "coordination.k8s.io", True),
        (SCHEDULER, "update", "leases", "coordination.k8s.io", False),
        (SCHEDULER, "patch", "resourceclaims/status", "resource.k8s.io", True),
        (SCHEDULER, "update", "resourceclaims/binding", "resource.k8s.io", True),
        (SCHEDULER, "list", "storageclasses", "storage.k8s.io", False),
        (VOLUMES, "list", "storageclasses", "storage.k8s.io", True),
        (VOLUMES, "patch", "persistentvolumeclaims", "", True),
        (VOLUMES, "update", "persistentvolumes", "", True),
        (VOLUMES, "delete", "persistentvolumes", "", False),
        ("system:auth-delegator", "create", "subjectaccessreviews", "authorization.k8s.io", True),
        ("system:basic-user", "create", "subjectaccessreviews", "authorization.k8s.io", False),
        ("system:aggregate-to-edit", "create", "serviceaccounts/token", "", True),
        ("system:aggregate-to-view", "list", "secrets", "", False),
    ],
)
def test_default_role_allows(role, verb, resource, group, allowed):
    assert allows(role, verb, resource, group) is allowed


def test_scheduler_updates_its_own_lease_only():
    lease = ("update", "leases", "coordination.k8s.io")
    assert allows(SCHEDULER, *lease, "kube-scheduler")
    assert not allows(SCHEDULER, *lease, "another")


def test_default_bindings_refer_to_existing_roles():
    objects = list(bootstrap_policy())
    there = {(obj["kind"], obj["metadata"]["name"]) for obj in objects}
    refs = [obj["roleRef"] for obj in objects if "roleRef" in obj]
    assert refs
    assert {(ref["kind"], ref["name"]) for ref in refs} <= there


def test_admin_is_master_and_anonymous_is_not():
    assert ADMIN.is_master
    assert not ANONYMOUS.is_master

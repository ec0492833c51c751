"""The default roles and bindings of a cluster. Mirrors plugin/pkg/auth/authorizer/rbac/bootstrappolicy of Kubernetes,
without the roles of controllers, which are administrators here.
"""

from __future__ import annotations

from collections.abc import Iterator

from bayplan.api.kinds import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, ROLE, ROLE_BINDING, Kind
from bayplan.devcluster.apiserver.authorization.users import AUTHENTICATED, MASTERS, UNAUTHENTICATED
from bayplan.devcluster.apiserver.schema import Object

READ = "get list watch"
WRITE = "create update patch delete deletecollection"
READ_WRITE = f"{READ} {WRITE}"
READ_UPDATE = f"{READ} update patch"

CORE = ""
AUTHENTICATION = "authentication.k8s.io"
AUTHORIZATION = "authorization.k8s.io"
CERTIFICATES = "certificates.k8s.io"
COORDINATION = "coordination.k8s.io"
CORE_AND_EVENTS = " events.k8s.io"
DISCOVERY = "discovery.k8s.io"
NETWORKING = "networking.k8s.io"
RESOURCE = "resource.k8s.io"
SCHEDULING = "scheduling.k8s.io"
STORAGE = "storage.k8s.io"

AGGREGATE = "rbac.authorization.k8s.io/aggregate-to-"
SYSTEM = "kube-system"


def _rule(verbs: str, groups: str, resources: str, names: str = "") -> Object:
    """A rule. Each argument is a list, separated by spaces."""
    rule: Object = {"verbs": verbs.split(), "apiGroups": groups.split(" "), "resources": resources.split()}
    return rule | ({"resourceNames": names.split()} if names else {})


def _urls(verbs: str, urls: str) -> Object:
    return {"verbs": verbs.split(), "nonResourceURLs": urls.split()}


_EVENTS = _rule("create update patch", CORE_AND_EVENTS, "events")

CLUSTER_ROLES: dict[str, tuple[Object, ...]] = {
    "cluster-admin": (
        _rule("*", "*", "*"),
        _urls("*", "*"),
    ),
    "system:aggregate-to-admin": (
        _rule("create", AUTHORIZATION, "localsubjectaccessreviews"),
        _rule(READ_WRITE, "rbac.authorization.k8s.io", "rolebindings roles"),
    ),
    "system:aggregate-to-edit": (
        _rule(READ, CORE, "pods/attach pods/exec pods/portforward pods/proxy secrets services/proxy"),
        _rule("impersonate", CORE, "serviceaccounts"),
        _rule(WRITE, CORE, "pods pods/attach pods/exec pods/portforward pods/proxy"),
        _rule("create", CORE, "pods/eviction"),
        _rule(
            WRITE,
            CORE,
            "configmaps persistentvolumeclaims replicationcontrollers replicationcontrollers/scale secrets "
            "serviceaccounts services services/proxy",
        ),
        _rule("create", CORE, "serviceaccounts/token"),
        _rule(WRITE, CORE_AND_EVENTS, "events"),
        _rule(
            WRITE,
            "apps",
            "daemonsets deployments deployments/rollback deployments/scale replicasets replicasets/scale "
            "statefulsets statefulsets/scale",
        ),
        _rule(WRITE, "autoscaling", "horizontalpodautoscalers"),
        _rule(WRITE, "batch", "cronjobs jobs"),
        _rule(
            WRITE,
            "extensions",
            "daemonsets deployments deployments/rollback deployments/scale ingresses networkpolicies "
            "replicasets replicasets/scale replicationcontrollers/scale",
        ),
        _rule(WRITE, "policy", "poddisruptionbudgets"),
        _rule(WRITE, NETWORKING, "ingresses networkpolicies"),
        _rule(READ_WRITE, COORDINATION, "leases"),
        _rule(WRITE, RESOURCE, "resourceclaims resourceclaimtemplates"),
    ),
    "system:aggregate-to-view": (
        _rule(
            READ,
            CORE,
            "configmaps endpoints persistentvolumeclaims persistentvolumeclaims/status pods "
            "replicationcontrollers replicationcontrollers/scale serviceaccounts services services/status",
        ),
        _rule(
            READ,
            CORE,
            "bindings limitranges namespaces/status pods/log pods/status replicationcontrollers/status "
            "resourcequotas resourcequotas/status",
        ),
        _rule(READ, CORE, "namespaces"),
        _rule(READ, CORE_AND_EVENTS, "events"),
        _rule(READ, DISCOVERY, "endpointslices"),
        _rule(
            READ,
            "apps",
            "controllerrevisions daemonsets daemonsets/status deployments deployments/scale "
            "deployments/status replicasets replicasets/scale replicasets/status statefulsets "
            "statefulsets/scale statefulsets/status",
        ),
        _rule(READ, "autoscaling", "horizontalpodautoscalers horizontalpodautoscalers/status"),
        _rule(READ, "batch", "cronjobs cronjobs/status jobs jobs/status"),
        _rule(
            READ,
            "extensions",
            "daemonsets daemonsets/status deployments deployments/scale deployments/status ingresses "
            "ingresses/status networkpolicies replicasets replicasets/scale replicasets/status "
            "replicationcontrollers/scale",
        ),
        _rule(READ, "policy", "poddisruptionbudgets poddisruptionbudgets/status"),
        _rule(READ, NETWORKING, "ingresses ingresses/status networkpolicies"),
        _rule(READ, RESOURCE, "resourceclaims resourceclaims/status resourceclaimtemplates"),
    ),
    "system:auth-delegator": (
        _rule("create", AUTHENTICATION, "tokenreviews"),
        _rule("create", AUTHORIZATION, "subjectaccessreviews"),
    ),
    "system:basic-user": (
        _rule("create", AUTHORIZATION, "selfsubjectaccessreviews selfsubjectrulesreviews"),
        _rule("create", AUTHENTICATION, "selfsubjectreviews"),
    ),
    "system:certificates.k8s.io:certificatesigningrequests:nodeclient": (
        _rule("create", CERTIFICATES, "certificatesigningrequests/nodeclient"),
    ),
    "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient": (
        _rule("create", CERTIFICATES, "certificatesigningrequests/selfnodeclient"),
    ),
    "system:certificates.k8s.io:kube-apiserver-client-approver": (
        _rule("approve", CERTIFICATES, "signers", names="kubernetes.io/kube-apiserver-client"),
    ),
    "system:certificates.k8s.io:kube-apiserver-client-kubelet-approver": (
        _rule("approve", CERTIFICATES, "signers", names="kubernetes.io/kube-apiserver-client-kubelet"),
    ),
    "system:certificates.k8s.io:kubelet-serving-approver": (
        _rule("approve", CERTIFICATES, "signers", names="kubernetes.io/kubelet-serving"),
    ),
    "system:certificates.k8s.io:legacy-unknown-approver": (
        _rule("approve", CERTIFICATES, "signers", names="kubernetes.io/legacy-unknown"),
    ),
    "system:discovery": (
        _urls("get", "/api /api/* /apis /apis/* /healthz /livez /openapi /openapi/* /readyz /version /version/"),
    ),
    "system:kube-aggregator": (_rule(READ, CORE, "endpoints services"),),
    "system:kube-controller-manager": (
        _EVENTS,
        _rule("create", COORDINATION, "leases"),
        _rule("get update", COORDINATION, "leases", names="kube-controller-manager"),
        _rule("create", CORE, "secrets serviceaccounts"),
        _rule("delete", CORE, "secrets"),
        _rule("get", CORE, "configmaps namespaces secrets serviceaccounts"),
        _rule("update", CORE, "secrets serviceaccounts"),
        _rule("create", AUTHENTICATION, "tokenreviews"),
        _rule("create", AUTHORIZATION, "subjectaccessreviews"),
        _rule("list watch", "*", "*"),
        _rule("create", CORE, "serviceaccounts/token"),
    ),
    "system:kube-dns": (_rule("list watch", CORE, "endpoints services"),),
    "system:kube-scheduler": (
        _EVENTS,
        _rule("create", COORDINATION, "leases"),
        _rule("get list watch update", COORDINATION, "leases", names="kube-scheduler"),
        _rule(READ_WRITE, COORDINATION, "leasecandidates"),
        _rule(READ, CORE, "nodes"),
        _rule("get list watch delete", CORE, "pods"),
        _rule("create", CORE, "bindings pods/binding"),
        _rule("update patch", CORE, "pods/status"),
        _rule(READ, CORE, "replicationcontrollers services"),
        _rule(READ, "apps extensions", "replicasets"),
        _rule(READ, "apps", "statefulsets"),
        _rule(READ, "policy", "poddisruptionbudgets"),
        _rule(READ, CORE, "persistentvolumeclaims persistentvolumes"),
        _rule("create", AUTHENTICATION, "tokenreviews"),
        _rule("create", AUTHORIZATION, "subjectaccessreviews"),
        _rule(READ, STORAGE, "csinodes"),
        _rule(READ, STORAGE, "volumeattachments"),
        _rule(READ, CORE, "namespaces"),
        _rule(READ, STORAGE, "csidrivers"),
        _rule(READ, STORAGE, "csistoragecapacities"),
        _rule(READ, RESOURCE, "deviceclasses"),
        _rule(READ_UPDATE, RESOURCE, "resourceclaims"),
        _rule(READ_UPDATE, RESOURCE, "resourceclaims/status"),
        _rule("update", CORE, "pods/finalizers"),
        _rule(READ, RESOURCE, "resourceslices"),
        _rule("create delete", RESOURCE, "resourceclaims"),
        _rule("update patch", RESOURCE, "resourceclaims/binding"),
    ),
    "system:kubelet-api-admin": (
        _rule(READ, CORE, "nodes"),
        _rule("proxy", CORE, "nodes"),
        _rule("*", CORE, "nodes/log nodes/metrics nodes/proxy nodes/stats"),
        _rule("*", CORE, "nodes/configz nodes/healthz nodes/pods"),
    ),
    "system:monitoring": (
        _urls("get", "/flagz /healthz /healthz/* /livez /livez/* /metrics /metrics/slis /readyz /readyz/* /statusz"),
        _rule("get", CORE, "nodes/metrics"),
    ),
    "system:node": (
        _rule("create", AUTHENTICATION, "tokenreviews"),
        _rule("create", AUTHORIZATION, "localsubjectaccessreviews subjectaccessreviews"),
        _rule(READ, CORE, "services"),
        _rule("get list watch create", CORE, "nodes"),
        _rule("update patch", CORE, "nodes/status"),
        _rule("update patch", CORE, "nodes"),
        _EVENTS,
        _rule(READ, CORE, "pods"),
        _rule("create delete", CORE, "pods"),
        _rule("update patch", CORE, "pods/status"),
        _rule("create", CORE, "pods/eviction"),
        _rule(READ, CORE, "configmaps secrets"),
        _rule("get", CORE, "persistentvolumeclaims persistentvolumes"),
        _rule("get", CORE, "endpoints"),
        _rule("get list watch create", CERTIFICATES, "certificatesigningrequests"),
        _rule("get create update patch delete", COORDINATION, "leases"),
        _rule("get", STORAGE, "volumeattachments"),
        _rule("create", CORE, "serviceaccounts/token"),
        _rule("get update patch", CORE, "persistentvolumeclaims/status"),
        _rule(READ, STORAGE, "csidrivers"),
        _rule("get create update patch delete", STORAGE, "csinodes"),
        _rule(READ, "node.k8s.io", "runtimeclasses"),
        _rule("get", RESOURCE, "resourceclaims"),
        _rule("deletecollection", RESOURCE, "resourceslices"),
        _rule("get", CORE, "serviceaccounts"),
    ),
    "system:node-bootstrapper": (_rule("get list watch create", CERTIFICATES, "certificatesigningrequests"),),
    "system:node-problem-detector": (
        _rule("get", CORE, "nodes"),
        _rule("patch", CORE, "nodes/status"),
        _EVENTS,
    ),
    "system:node-proxier": (
        _rule("list watch", CORE, "endpoints services"),
        _rule(READ, CORE, "nodes"),
        _EVENTS,
        _rule("list watch", NETWORKING, "servicecidrs"),
        _rule("list watch", DISCOVERY, "endpointslices"),
    ),
    "system:persistent-volume-provisioner": (
        _rule("get list watch create delete", CORE, "persistentvolumes"),
        _rule("get list watch update", CORE, "persistentvolumeclaims"),
        _rule(READ, STORAGE, "storageclasses"),
        _rule("watch", CORE, "events"),
        _EVENTS,
    ),
    "system:public-info-viewer": (_urls("get", "/healthz /livez /readyz /version /version/"),),
    "system:service-account-issuer-discovery": (
        _urls(
            "get",
            "/.well-known/openid-configuration /.well-known/openid-configuration/ /openid/v1/jwks /openid/v1/jwks/",
        ),
    ),
    "system:volume-scheduler": (
        _rule(READ_UPDATE, CORE, "persistentvolumes"),
        _rule(READ, STORAGE, "storageclasses"),
        _rule(READ_UPDATE, CORE, "persistentvolumeclaims"),
    ),
}
"""The rules of each default cluster role, by name."""

AGGREGATED = {"admin": "", "edit": "admin", "view": "edit"}
"""The cluster roles that aggregate others, and the role that each of them is itself aggregated to."""
_LABELLED = {f"system:aggregate-to-{role}": role for role in AGGREGATED} | AGGREGATED

CLUSTER_ROLE_BINDINGS: dict[str, tuple[str, ...]] = {
    "cluster-admin": (f"Group {MASTERS}",),
    "system:basic-user": (f"Group {AUTHENTICATED}",),
    "system:discovery": (f"Group {AUTHENTICATED}",),
    "system:kube-controller-manager": ("User system:kube-controller-manager",),
    "system:kube-dns": ("ServiceAccount kube-dns",),
    "system:kube-scheduler": ("User system:kube-scheduler",),
    "system:monitoring": ("Group system:monitoring",),
    "system:node": (),
    "system:node-proxier": ("User system:kube-proxy",),
    "system:public-info-viewer": (f"Group {AUTHENTICATED}", f"Group {UNAUTHENTICATED}"),
    "system:service-account-issuer-discovery": ("Group system:serviceaccounts",),
    "system:volume-scheduler": ("User system:kube-scheduler",),
}
"""The groups and users that default cluster roles are bound to. Each binding has the name of its role."""

_LEASES = (
    _rule("get list watch create update", COORDINATION, "leases"),
    _rule("get list watch create update", COORDINATION, "leasecandidates"),
)
ROLES: dict[str, tuple[tuple[Object, ...], tuple[str, ...]]] = {
    "extension-apiserver-authentication-reader": (
        (_rule(READ, CORE, "configmaps", names="extension-apiserver-authentication"),),
        ("User system:kube-controller-manager", "User system:kube-scheduler"),
    ),
    "system::leader-locking-kube-controller-manager": (
        _LEASES,
        (
            "User system:kube-controller-manager",
            "ServiceAccount kube-controller-manager",
            "ServiceAccount leader-election-controller",
        ),
    ),
    "system::leader-locking-kube-scheduler": (
        _LEASES,
        ("User system:kube-scheduler", "ServiceAccount kube-scheduler"),
    ),
}
"""Roles of kube-system: their rules and subjects. A binding is named after its role, with the prefix `system::`."""


ALPHA_RULES: dict[str, tuple[Object, ...]] = {
    "system:aggregate-to-edit": (_rule(WRITE, SCHEDULING, "podgroups workloads"),),
    "system:aggregate-to-view": (_rule(READ, SCHEDULING, "podgroups podgroups/status workloads"),),
    "system:kube-scheduler": (
        _rule(READ, SCHEDULING, "podgroups"),
        _rule("patch update", SCHEDULING, "podgroups/status"),
    ),
}
"""The rules that the feature gate GenericWorkload adds to cluster roles, by name of the role."""


def bootstrap_policy(*, alpha: bool = False) -> Iterator[Object]:
    """The default roles and bindings as objects to create. `alpha`: with the rules for kinds behind feature gates."""
    for name, rules in CLUSTER_ROLES.items():
        more = ALPHA_RULES.get(name, ()) if alpha else ()
        yield {**_head(CLUSTER_ROLE, name), "rules": [*rules, *more]}
    for name in AGGREGATED:
        selector = {"matchLabels": {f"{AGGREGATE}{name}": "true"}}
        yield {**_head(CLUSTER_ROLE, name), "aggregationRule": {"clusterRoleSelectors": [selector]}, "rules": []}
    for name, subjects in CLUSTER_ROLE_BINDINGS.items():
        yield {**_head(CLUSTER_ROLE_BINDING, name), **_bound(CLUSTER_ROLE, name, subjects)}
    for name, (rules, subjects) in ROLES.items():
        yield {**_head(ROLE, name), "rules": list(rules)}
        binding = f"system::{name.removeprefix('system::')}"
        yield {**_head(ROLE_BINDING, binding), **_bound(ROLE, name, subjects)}


def _head(kind: Kind, name: str) -> Object:
    labels = {"kubernetes.io/bootstrapping": "rbac-defaults"}
    if part_of := _LABELLED.get(name) if kind is CLUSTER_ROLE else None:
        labels[f"{AGGREGATE}{part_of}"] = "true"
    metadata: Object = {
        "name": name,
        "labels": labels,
        "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"},
    }
    if kind.namespaced:
        metadata["namespace"] = SYSTEM
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata}


def _bound(role: Kind, name: str, subjects: tuple[str, ...]) -> Object:
    bound = []
    for subject in subjects:
        kind, _, who = subject.partition(" ")
        own = {"namespace": SYSTEM} if kind == "ServiceAccount" else {"apiGroup": role.group}
        bound.append({"kind": kind, "name": who, **own})
    return {"roleRef": {"apiGroup": role.group, "kind": role.kind, "name": name}, "subjects": bound}

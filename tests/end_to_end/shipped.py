"""Applies the shipped manifests to a cluster, with the scheduler's account and permissions."""

import json
from functools import cache
from pathlib import Path

from tests.support.waiting import until
from workloads import NAME

from bayplan.client import HttpClient
from bayplan.core.api.kinds import DEPLOYMENT, SERVICE_ACCOUNT
from bayplan_devcluster.apiserver.authorization.users import service_account_name
from bayplan_devcluster.manifests import Manifest, create, read

FOLDER = Path(__file__).parents[2] / "deploy"
NAMESPACE = "kube-system"
ACCOUNT = service_account_name(NAMESPACE, NAME)
SUBJECT = {"kind": "ServiceAccount", "name": NAME, "namespace": NAMESPACE}
"""The account as a user name, and as the subject of bindings."""
EXAMPLES = (
    ("list", "nodes"),
    ("list", "storageclasses.storage.k8s.io"),
    ("update", "leases.coordination.k8s.io", NAME),
)
"""A permission of each role of the account that the other roles do not grant."""
REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


@cache
def manifests(file: str) -> tuple[Manifest, ...]:
    """The objects of a file of deploy/. Deployments have no replicas, because tests run the scheduler themselves."""
    found = tuple(read([FOLDER / file]))
    for manifest in found:
        if manifest.kind == DEPLOYMENT:
            manifest.document["spec"]["replicas"] = 0
    return found


async def deploy(client: HttpClient, *files: str) -> None:
    """Apply files of deploy/, and wait until the permissions in deploy/bayplan.yaml are effective."""
    for file in files:
        await create(client, manifests(file))
    for permission in EXAMPLES:
        await until_allowed(client, *permission)


async def until_allowed(client: HttpClient, verb: str, resource: str, name: str = "") -> None:
    """Wait until the account has a permission, because a server may apply new roles with a delay."""
    combined, _, group = resource.partition(".")
    plural, _, subresource = combined.partition("/")
    attributes = {"verb": verb, "group": group, "resource": plural, "subresource": subresource}
    if name:
        attributes |= {"namespace": NAMESPACE, "name": name}
    review = json.dumps({"spec": {"user": ACCOUNT, "resourceAttributes": attributes}}).encode()

    async def allowed() -> bool:
        return bool(json.loads(await client.request("POST", REVIEWS, body=review))["status"]["allowed"])

    await until(allowed)


async def token(client: HttpClient, name: str = NAME, namespace: str = NAMESPACE) -> str:
    """A token of a service account, by default the shipped one."""
    path = SERVICE_ACCOUNT.path(namespace, name, "token")
    answer = json.loads(await client.request("POST", path, body=b"{}"))
    return str(answer["status"]["token"])

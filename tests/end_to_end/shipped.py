"""What Bayplan ships to run in a cluster, applied to one as its administrator would: its account, and its rights."""

from __future__ import annotations

import asyncio
import json
from functools import cache
from pathlib import Path

from workloads import NAME

from bayplan.api.kinds import DEPLOYMENT, SERVICE_ACCOUNT
from bayplan.client import HttpClient
from bayplan.devcluster.apiserver.authorization.users import service_account_name
from bayplan.devcluster.manifests import Manifest, create, read

FOLDER = Path(__file__).parents[2] / "deploy"
NAMESPACE = "kube-system"
ACCOUNT = service_account_name(NAMESPACE, NAME)
SUBJECT = {"kind": "ServiceAccount", "name": NAME, "namespace": NAMESPACE}
"""The account as the API server calls it, and as bindings name it."""
SIGNS = (
    ("list", "nodes"),
    ("list", "storageclasses.storage.k8s.io"),
    ("update", "leases.coordination.k8s.io", NAME),
)
"""A right of each role that it has, which the others do not give."""
REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


@cache
def manifests(file: str) -> tuple[Manifest, ...]:
    """The objects of a file of deploy/.

    Deployments have no pods: a test runs the scheduler itself, in their place.
    """
    found = tuple(read([FOLDER / file]))
    for manifest in found:
        if manifest.kind == DEPLOYMENT:
            manifest.document["spec"]["replicas"] = 0
    return found


async def deploy(client: HttpClient, *files: str) -> None:
    """Apply files of deploy/, and wait until the account has the rights that deploy/bayplan.yaml gives it."""
    for file in files:
        await create(client, manifests(file))
    for right in SIGNS:
        await until_allowed(client, *right)


async def until_allowed(client: HttpClient, verb: str, resource: str, name: str = "") -> None:
    """Wait until the server lets the account do something: it may take it a moment to heed what was granted."""
    combined, _, group = resource.partition(".")
    plural, _, subresource = combined.partition("/")
    asked = {"verb": verb, "group": group, "resource": plural, "subresource": subresource}
    if name:
        asked |= {"namespace": NAMESPACE, "name": name}
    review = json.dumps({"spec": {"user": ACCOUNT, "resourceAttributes": asked}}).encode()
    async with asyncio.timeout(10):
        while not json.loads(await client.request("POST", REVIEWS, body=review))["status"]["allowed"]:  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def token(client: HttpClient, name: str = NAME, namespace: str = NAMESPACE) -> str:
    """A token of a service account, the shipped one's if nobody says."""
    path = SERVICE_ACCOUNT.path(namespace, name, "token")
    answer = json.loads(await client.request("POST", path, body=b"{}"))
    return str(answer["status"]["token"])

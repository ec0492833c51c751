"""What Bayplan ships to run in a cluster, applied to one as its administrator would: its account, and its rights."""

from __future__ import annotations

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
"""The account as the API server calls it, and as bindings name it."""
SUBJECT = {"kind": "ServiceAccount", "name": NAME, "namespace": NAMESPACE}


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
    """Apply files of deploy/."""
    for file in files:
        await create(client, manifests(file))


async def token(client: HttpClient, name: str = NAME, namespace: str = NAMESPACE) -> str:
    """A token of a service account, the shipped one's if nobody says."""
    path = SERVICE_ACCOUNT.path(namespace, name, "token")
    answer = json.loads(await client.request("POST", path, body=b"{}"))
    return str(answer["status"]["token"])

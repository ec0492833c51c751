"""Failed lists and watches are reported by cause, and missing permissions all at once."""

import asyncio
import json
import logging

import yaml
from tests.support.tables import cases

from bayplan.client import ApiError, TransportError
from bayplan.core.api.kinds import NODE, POD, SERVICE, STORAGE_CLASS
from bayplan.running.client.permissions import denied_by, grant
from bayplan.running.service.watch_failures import REPEAT, WatchFailures
from bayplan.testing.virtual_time import VirtualTime

READERS = {NODE: {"NodeName"}, POD: set(), SERVICE: {"PodTopologySpread"}, STORAGE_CLASS: {"VolumeBinding"}}


def refused(kind):
    return TransportError(f"GET http://server{kind.path()}: connection refused", sent=False, cause="connection refused")


def forbidden(kind, verb="list", user="jane"):
    message = f'{kind.resource} is forbidden: User "{user}" cannot {verb} resource "{kind.plural}" in API group ""'
    return ApiError(403, "Forbidden", message)


class Reviewer:
    """Answers access reviews: `denied` has (resource, verb). None: there are no reviews."""

    def __init__(self, denied):
        self.denied = denied
        self.reviews = 0

    async def request(self, method, path, *, body):
        self.reviews += 1
        if self.denied is None:
            raise ApiError(404, "NotFound")
        asked = json.loads(body)["spec"]["resourceAttributes"]
        return json.dumps({"status": {"allowed": (asked["resource"], asked["verb"]) not in self.denied}}).encode()


def reported(caplog, *failures, denied=None, synced=False):
    """The lines logged for (time, kind, error) failures, and the number of access reviews."""
    reviewer = Reviewer(denied)

    async def run():
        watched = WatchFailures(reviewer, READERS, lambda: synced)
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(watched.run())
            began = asyncio.get_running_loop().time()
            for at, kind, error in failures:
                await asyncio.sleep(began + at - asyncio.get_running_loop().time())
                watched.failed(kind, error, 1.0)
            await asyncio.sleep(10)
            running.cancel()

    caplog.set_level(logging.WARNING)
    with asyncio.Runner(loop_factory=VirtualTime) as runner:
        runner.run(run())
    return [record.getMessage() for record in caplog.records], reviewer.reviews


@cases(
    "failures, lines",
    {
        "one kind": ([(0, NODE)], ["nodes: GET http://server/api/v1/nodes: connection refused; retrying"]),
        "an outage": (
            [(0, POD), (0.1, NODE), (0.5, SERVICE), (2, NODE), (4, POD), (8, SERVICE)],
            ["3 kinds (nodes, pods, services): GET http://server/api/v1/pods: connection refused; retrying"],
        ),
        "another kind": (
            [(0, POD), (5, NODE)],
            [
                "pods: GET http://server/api/v1/pods: connection refused; retrying",
                "2 kinds (nodes, pods): GET http://server/api/v1/pods: connection refused; retrying",
            ],
        ),
        "a long outage": (
            [(0, POD), (10, POD), (REPEAT + 5, POD)],
            2 * ["pods: GET http://server/api/v1/pods: connection refused; retrying"],
        ),
    },
)
def test_cause_is_reported_once_with_all_kinds(caplog, failures, lines):
    assert reported(caplog, *((at, kind, refused(kind)) for at, kind in failures)) == (lines, 0)


def test_causes_are_reported_separately(caplog):
    lines, _ = reported(caplog, (0, POD, refused(POD)), (0, NODE, ApiError(503, "ServiceUnavailable", "starting")))
    assert lines == [
        "pods: GET http://server/api/v1/pods: connection refused; retrying",
        "nodes: 503 ServiceUnavailable: starting; retrying",
    ]


def test_missing_permissions_are_reported_at_once_with_the_rule_that_grants_them(caplog):
    denied = {("nodes", "list"), ("nodes", "watch"), ("services", "list"), ("storageclasses", "watch")}
    failures = [(at, NODE, forbidden(NODE)) for at in (0, 1, 3, 7, 15, REPEAT + 5)]
    lines, reviews = reported(caplog, *failures, denied=denied)
    report, repeated = lines
    text, _, documents = report.partition("kubectl apply -f this grants them:\n")
    assert text.splitlines() == [
        f"permissions are missing for 3 of 4 kinds ({forbidden(NODE)}):",
        "  nodes: no list or watch; no pod is scheduled until it is listed; needed by every decision",
        "  services: no list; no pod is scheduled until it is listed; needed by PodTopologySpread",
        "  storageclasses.storage.k8s.io: no watch; changes go unnoticed; needed by VolumeBinding",
    ]
    role, binding = yaml.safe_load_all(documents)
    assert role["rules"] == [
        {"apiGroups": [""], "resources": ["services"], "verbs": ["list"]},
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["list", "watch"]},
        {"apiGroups": ["storage.k8s.io"], "resources": ["storageclasses"], "verbs": ["watch"]},
    ]
    assert binding["subjects"] == [{"kind": "User", "name": "jane", "apiGroup": "rbac.authorization.k8s.io"}]
    assert repeated == ("permissions are still missing: 3 kinds (nodes, services, storageclasses.storage.k8s.io)")
    assert reviews == 2 * 2 * len(READERS)


def test_denied_requests_are_reported_without_access_reviews(caplog):
    lines, _ = reported(caplog, (0, NODE, forbidden(NODE)), (0, POD, forbidden(POD, "watch")), denied=None, synced=True)
    assert len(lines) == 2
    report = lines[-1]
    assert "  nodes: no list; changes go unnoticed; needed by every decision\n" in report
    assert "  pods: no watch; changes go unnoticed; needed by every decision\n" in report


def test_denied_request_without_details_names_both_verbs():
    assert denied_by({NODE: ApiError(403, "", "no")}) == {NODE: ("list", "watch")}


def test_service_account_is_granted_as_one():
    role, binding = grant({NODE: ("list",)}, "system:serviceaccount:kube-system:mine")
    assert binding["subjects"] == [{"kind": "ServiceAccount", "namespace": "kube-system", "name": "mine"}]
    assert binding["roleRef"]["name"] == role["metadata"]["name"] == "mine:missing-permissions"

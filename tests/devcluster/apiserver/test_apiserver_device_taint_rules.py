"""DeviceTaintRules, which Kubernetes 1.37 serves in v1."""

import pytest
from tests.support.tables import cases

from bayplan.client import ApiError, ClusterAccess, HttpClient
from bayplan.core.api.kinds import DEVICE_TAINT_RULE
from bayplan.core.versions import DEFAULT_GATES
from bayplan_devcluster.apiserver import ApiServer
from bayplan_devcluster.apiserver.authorization.bootstrap_policy import bootstrap_policy

TAINT = {"key": "example.com/broken", "value": "yes", "effect": "NoExecute"}


@pytest.fixture
async def client():
    async with ApiServer(version="1.37") as server, HttpClient(ClusterAccess(server=server.url)) as client:
        yield client


def rule(taint=TAINT, **selector):
    return {"metadata": {"name": "broken"}, "spec": {"deviceSelector": selector, "taint": taint}}


async def test_they_are_not_served_in_1_36():
    async with ApiServer() as server, HttpClient(ClusterAccess(server=server.url)) as client:
        with pytest.raises(ApiError, match="could not find the requested resource"):
            await client.list(DEVICE_TAINT_RULE)


async def test_a_taint_gets_the_time_of_its_rule(client):
    created = await client.create(DEVICE_TAINT_RULE, rule(driver="d.io", pool="p", device="gpu-0"))
    assert created.spec.taint.timeAdded == created.metadata.creationTimestamp
    assert (created.spec.deviceSelector.pool, created.metadata.generation) == ("p", 1)


async def test_the_spec_can_be_changed(client):
    await client.create(DEVICE_TAINT_RULE, rule())
    patch = {"spec": {"taint": {"effect": "None"}}}
    changed = await client.patch(DEVICE_TAINT_RULE, "broken", patch)
    assert (changed.spec.taint.effect, changed.metadata.generation) == ("None", 2)


@cases(
    "document, why",
    {
        "no effect": (rule({"key": "broken"}), "spec.taint.effect: Required value"),
        "unknown effect": (
            rule({"key": "broken", "effect": "Never"}),
            'spec.taint.effect: Unsupported value: "Never": supported values: "NoExecute", "NoSchedule", "None"',
        ),
        "no key": (rule({"effect": "None"}), "spec.taint.key: Invalid value"),
        "invalid value": (rule({**TAINT, "value": "a b"}), "spec.taint.value: Invalid value"),
        "invalid driver": (rule(driver="D_IO"), "spec.deviceSelector.driver: Invalid value"),
        "invalid device": (rule(device="a.b"), "spec.deviceSelector.device: Invalid value"),
    },
)
async def test_an_invalid_rule_is_rejected(client, document, why):
    with pytest.raises(ApiError) as rejected:
        await client.create(DEVICE_TAINT_RULE, document)
    assert why in str(rejected.value)


@cases("version, may", {"1.36": ("1.36", False), "1.37": ("1.37", True)})
def test_the_scheduler_may_read_them(version, may):
    role = next(each for each in bootstrap_policy(version) if each["metadata"]["name"] == "system:kube-scheduler")
    assert any("devicetaintrules" in rule["resources"] for rule in role["rules"]) is may


@cases("gates, served", {"on": (("DRADeviceTaintRules",), True), "off": ((), False)})
def test_1_36_serves_v1beta2_with_the_feature_gate(gates, served):
    server = ApiServer(address=None, gates=DEFAULT_GATES.but(*gates))
    versions = {each.kind.version for each in server.storage.served if each.kind.plural == "devicetaintrules"}
    assert versions == ({"v1beta2"} if served else set())

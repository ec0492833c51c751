"""Kubernetes' own PodGroups and Workloads, which the server has only with `alpha`."""

import pytest
from tests.support.tables import cases

from bayplan.client import ApiError, ClusterAccess, HttpClient, PatchType
from bayplan.core.api.kinds import POD_GROUP_V1ALPHA2, PRIORITY_CLASS, WORKLOAD_V1ALPHA2
from bayplan_devcluster.apiserver import ApiServer
from bayplan_devcluster.apiserver.authorization.bootstrap_policy import bootstrap_policy

GANG = {"schedulingPolicy": {"gang": {"minCount": 3}}}
BASIC = {"schedulingPolicy": {"basic": {}}}


@pytest.fixture
async def client():
    async with ApiServer(alpha=True) as server, HttpClient(ClusterAccess(server=server.url)) as client:
        yield client


def group(spec, name="red"):
    return {"metadata": {"name": name, "namespace": "default"}, "spec": spec}


def workload(*names, name="train"):
    templates = [{"name": each, **GANG} for each in names]
    return {"metadata": {"name": name, "namespace": "default"}, "spec": {"podGroupTemplates": templates}}


def of_template(template, workload_name="train"):
    reference = {"workload": {"workloadName": workload_name, "podGroupTemplateName": template}}
    return {**GANG, "podGroupTemplateRef": reference}


async def test_groups_are_not_served_without_alpha():
    async with ApiServer() as server, HttpClient(ClusterAccess(server=server.url)) as client:
        with pytest.raises(ApiError, match="could not find the requested resource"):
            await client.list(POD_GROUP_V1ALPHA2)


@cases("spec", {"gang": GANG, "basic": BASIC})
async def test_pod_group_defaults(client, spec):
    created = await client.create(POD_GROUP_V1ALPHA2, group(spec))
    assert created.metadata.generation == 1
    assert created.spec.disruptionMode == "Pod"
    assert created.spec.priority == 0
    assert (created.spec.schedulingPolicy.basic, created.status.conditions) == (
        spec["schedulingPolicy"].get("basic"),
        None,
    )


REJECTED = {
    "no policy": ({"schedulingPolicy": {}}, "must specify one of: `basic`, `gang`"),
    "two policies": ({"schedulingPolicy": {"basic": {}, "gang": {"minCount": 1}}}, "must specify exactly one of"),
    "no members": ({"schedulingPolicy": {"gang": {"minCount": 0}}}, "minCount: Required value"),
    "negative members": ({"schedulingPolicy": {"gang": {"minCount": -1}}}, "must be greater than or equal to 1"),
    "two topologies": (
        {**GANG, "schedulingConstraints": {"topology": [{"key": "rack"}, {"key": "zone"}]}},
        "topology: Too many: 2: must have at most 1 item",
    ),
    "topology without a key": ({**GANG, "schedulingConstraints": {"topology": [{"key": ""}]}}, "key: Required value"),
    "unknown disruption mode": ({**GANG, "disruptionMode": "All"}, 'disruptionMode: Unsupported value: "All"'),
    "explicit priority": ({**GANG, "priority": 7}, "must match the priority computed (0)"),
    "missing priority class": ({**GANG, "priorityClassName": "vip"}, "no PriorityClass with name vip"),
    "missing workload": (of_template("workers", "other"), 'Workload "other" not found'),
    "missing template": (of_template("drivers"), 'PodGroupTemplate "drivers" not found in Workload "train"'),
}


@cases("spec, why", REJECTED)
async def test_invalid_pod_group_is_rejected(client, spec, why):
    await client.create(WORKLOAD_V1ALPHA2, workload("workers"))
    with pytest.raises(ApiError) as rejected:
        await client.create(POD_GROUP_V1ALPHA2, group(spec))
    assert why in str(rejected.value)


async def test_pod_group_with_a_workload_template_is_created(client):
    await client.create(WORKLOAD_V1ALPHA2, workload("workers"))
    created = await client.create(POD_GROUP_V1ALPHA2, group(of_template("workers")))
    assert created.spec.podGroupTemplateRef.workload.workloadName == "train"


async def test_pod_group_gets_the_priority_of_its_class(client):
    await client.create(PRIORITY_CLASS, {"metadata": {"name": "vip"}, "value": 1000})
    await client.create(PRIORITY_CLASS, {"metadata": {"name": "usual"}, "value": 5, "globalDefault": True})
    vip = await client.create(POD_GROUP_V1ALPHA2, group({**GANG, "priorityClassName": "vip"}))
    usual = await client.create(POD_GROUP_V1ALPHA2, group(GANG, "blue"))
    assert (vip.spec.priority, usual.spec.priority, usual.spec.priorityClassName) == (1000, 5, "usual")


async def test_pod_group_spec_is_immutable(client):
    created = await client.create(POD_GROUP_V1ALPHA2, group(GANG))
    created.spec.schedulingPolicy.gang.minCount = 4
    with pytest.raises(ApiError, match=r"schedulingPolicy: .*field is immutable"):
        await client.update(POD_GROUP_V1ALPHA2, created)


async def test_patch_merges_conditions_by_type(client):
    await client.create(POD_GROUP_V1ALPHA2, group(GANG))
    condition = {"status": "True", "reason": "Because", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    for name in ("PodGroupScheduled", "DisruptionTarget"):
        patch = {"status": {"conditions": [{"type": name, **condition}]}}
        changed = await client.patch(
            POD_GROUP_V1ALPHA2, "red", patch, "default", type=PatchType.STRATEGIC, subresource="status"
        )
    assert {each.type for each in changed.status.conditions} == {"PodGroupScheduled", "DisruptionTarget"}
    assert changed.metadata.generation == 1


WORKLOADS = {
    "no templates": (workload(), "podGroupTemplates: Required value"),
    "too many": (workload(*"abcdefghi"), "Too many: 9: must have at most 8 items"),
    "duplicate name": (workload("a", "a"), "podGroupTemplates[1]: Duplicate value"),
    "one without a name": (workload(""), "podGroupTemplates[0].name: Required value"),
}


@cases("document, why", WORKLOADS)
async def test_invalid_workload_is_rejected(client, document, why):
    with pytest.raises(ApiError) as rejected:
        await client.create(WORKLOAD_V1ALPHA2, document)
    assert why in str(rejected.value)


async def test_workload_spec_is_immutable(client):
    created = await client.create(WORKLOAD_V1ALPHA2, workload("workers"))
    created.spec.podGroupTemplates[0].name = "others"
    with pytest.raises(ApiError, match=r"podGroupTemplates: .*field is immutable"):
        await client.update(WORKLOAD_V1ALPHA2, created)


def rules_of(name, *, alpha):
    role = next(each for each in bootstrap_policy(alpha=alpha) if each["metadata"]["name"] == name)
    return [rule for rule in role["rules"] if "scheduling.k8s.io" in rule["apiGroups"]]


def test_scheduler_role_covers_groups_with_alpha():
    """The rules are those of system:kube-scheduler upstream, with the feature gate and without."""
    assert rules_of("system:kube-scheduler", alpha=False) == []
    assert rules_of("system:kube-scheduler", alpha=True) == [
        {"verbs": ["get", "list", "watch"], "apiGroups": ["scheduling.k8s.io"], "resources": ["podgroups"]},
        {"verbs": ["patch", "update"], "apiGroups": ["scheduling.k8s.io"], "resources": ["podgroups/status"]},
    ]

"""PodGroups, Workloads and CompositePodGroups as Kubernetes 1.37 serves them."""

import pytest
from tests.support.tables import cases

from bayplan.client import ApiError, ClusterAccess, HttpClient
from bayplan.core.api.kinds import COMPOSITE_POD_GROUP, POD_GROUP, POD_GROUP_V1ALPHA2, PRIORITY_CLASS, WORKLOAD
from bayplan.core.versions import gates_of
from bayplan_devcluster.apiserver import ApiServer
from bayplan_devcluster.apiserver.kinds.gated_fields import CLAIMS_OF_GROUPS, PREEMPTION_OF_GROUPS

GANG = {"schedulingPolicy": {"gang": {"minCount": 3}}}
BASIC = {"schedulingPolicy": {"basic": {}}}
COMPOSITE = {"schedulingPolicy": {"gang": {"minGroupCount": 2}}}
REFERENCE = {"workloadRef": {"workloadName": "train", "templateName": "workers"}}


@pytest.fixture
async def client():
    async with (
        ApiServer(
            version="1.37",
            alpha=True,
            gates=gates_of("1.37").but(CLAIMS_OF_GROUPS, PREEMPTION_OF_GROUPS, "CompositePodGroup"),
        ) as server,
        HttpClient(ClusterAccess(server=server.url)) as client,
    ):
        yield client


def named(spec, name="red"):
    return {"metadata": {"name": name, "namespace": "default"}, "spec": spec}


def workload(*names, **fields):
    return named({"podGroupTemplates": [{"name": each, **GANG} for each in names], **fields}, "train")


def composite(**fields):
    return {"name": "replicas", **COMPOSITE, "podGroupTemplates": [{"name": "workers", **GANG}], **fields}


@cases("version, groups", {"1.36": ("1.36", {"v1", "v1alpha2"}), "1.37": ("1.37", {"v1", "v1beta1", "v1alpha3"})})
async def test_a_server_has_the_versions_of_its_release(version, groups):
    server = ApiServer(address=None, version=version, alpha=True)
    kinds = {resource.kind for resource in server.storage.served if resource.kind.group == "scheduling.k8s.io"}
    assert {kind.version for kind in kinds} == groups


async def test_another_version_is_not_served(client):
    with pytest.raises(ApiError, match="could not find the requested resource"):
        await client.list(POD_GROUP_V1ALPHA2)


@pytest.mark.parametrize("spec", [GANG, BASIC], ids=["gang", "basic"])
async def test_pod_group_defaults(client, spec):
    created = await client.create(POD_GROUP, named(spec))
    assert (created.metadata.generation, created.spec.priority) == (1, 0)
    assert (created.spec.disruptionMode.single, created.spec.disruptionMode.all) == ({}, None)


async def test_a_given_disruption_mode_stays(client):
    created = await client.create(POD_GROUP, named({**GANG, "disruptionMode": {"all": {}}}))
    assert (created.spec.disruptionMode.single, created.spec.disruptionMode.all) == (None, {})


@cases(
    "spec, why",
    {
        "no policy": ({"schedulingPolicy": {}}, "must specify one of: `basic`, `gang`"),
        "two policies": ({"schedulingPolicy": {"basic": {}, "gang": {"minCount": 1}}}, "must specify exactly one of"),
        "no members": ({"schedulingPolicy": {"gang": {"minCount": 0}}}, "minCount: Required value"),
        "negative members": ({"schedulingPolicy": {"gang": {"minCount": -1}}}, "must be greater than or equal to 1"),
        "no disruption mode": ({**GANG, "disruptionMode": {}}, "must specify one of: `single`, `all`"),
        "two disruption modes": (
            {**GANG, "disruptionMode": {"single": {}, "all": {}}},
            'disruptionMode: Invalid value: "{`single`, `all`}": must specify exactly one of: `single`, `all`',
        ),
        "the disruption mode of 1.36": ({**GANG, "disruptionMode": "PodGroup"}, "cannot unmarshal string"),
        "two topologies": (
            {**GANG, "schedulingConstraints": {"topology": [{"key": "rack"}, {"key": "zone"}]}},
            "topology: Too many: 2: must have at most 1 item",
        ),
        "explicit priority": ({**GANG, "priority": 7}, "must match the priority computed (0)"),
        "preemption policy": ({**GANG, "preemptionPolicy": "Sometimes"}, "must match the preemption policy computed"),
    },
)
async def test_invalid_pod_group_is_rejected(client, spec, why):
    with pytest.raises(ApiError) as rejected:
        await client.create(POD_GROUP, named(spec))
    assert why in str(rejected.value)


async def test_the_template_of_a_pod_group_need_not_exist(client):
    """#139008 removed the admission plugin of 1.36 that requires it."""
    created = await client.create(POD_GROUP, named({**GANG, **REFERENCE}))
    assert created.spec.workloadRef.templateName == "workers"


async def test_pod_groups_of_nested_templates_are_created(client):
    templates = {"compositePodGroupTemplates": [composite()]}
    await client.create(WORKLOAD, named(templates, "train"))
    root = await client.create(COMPOSITE_POD_GROUP, named({**COMPOSITE, **REFERENCE}, "root"))
    assert root.spec.disruptionMode.single == {}
    created = await client.create(POD_GROUP, named({**GANG, **REFERENCE, "parentCompositePodGroupName": "root"}))
    assert created.spec.parentCompositePodGroupName == "root"


async def test_pod_group_gets_the_priority_of_its_class(client):
    await client.create(PRIORITY_CLASS, {"metadata": {"name": "vip"}, "value": 1000})
    vip = await client.create(POD_GROUP, named({**GANG, "priorityClassName": "vip"}))
    assert vip.spec.priority == 1000


async def test_composite_pod_group_gets_the_priority_of_its_class(client):
    await client.create(PRIORITY_CLASS, {"metadata": {"name": "vip"}, "value": 1000})
    vip = await client.create(
        COMPOSITE_POD_GROUP, named({**COMPOSITE, **REFERENCE, "priorityClassName": "vip"}, "root")
    )
    assert vip.spec.priority == 1000
    why = r"priority set in the composite pod group \(5\) must match the priority computed \(0\)"
    with pytest.raises(ApiError, match=why):
        await client.create(COMPOSITE_POD_GROUP, named({**COMPOSITE, **REFERENCE, "priority": 5}, "other"))


async def test_min_count_can_be_changed(client):
    created = await client.create(POD_GROUP, named(GANG))
    created.spec.schedulingPolicy.gang.minCount = 4
    updated = await client.update(POD_GROUP, created)
    assert (updated.spec.schedulingPolicy.gang.minCount, updated.metadata.generation) == (4, 2)


@cases(
    "before, patch, why",
    {
        "no members": (GANG, {"schedulingPolicy": {"gang": {"minCount": 0}}}, "minCount: Required value"),
        "another policy": (
            GANG,
            {"schedulingPolicy": {"gang": None, "basic": {}}},
            "schedulingPolicy.gang: Invalid value: null: field cannot be cleared once set",
        ),
        "a policy in addition": (
            BASIC,
            {"schedulingPolicy": {"gang": {"minCount": 1}}},
            "schedulingPolicy.gang: Invalid value: null: field cannot be set once created",
        ),
        "another disruption mode": (
            GANG,
            {"disruptionMode": {"single": None, "all": {}}},
            "spec.disruptionMode: Invalid value",
        ),
        "another priority class": (GANG, {"priorityClassName": "vip"}, "spec.priorityClassName: Invalid value"),
    },
)
async def test_the_rest_of_a_pod_group_is_immutable(client, before, patch, why):
    await client.create(POD_GROUP, named(before))
    with pytest.raises(ApiError) as rejected:
        await client.patch(POD_GROUP, "red", {"spec": patch}, "default")
    assert why in str(rejected.value)


@cases(
    "spec, why",
    {
        "no templates": ({"podGroupTemplates": []}, "must specify one of: `podGroupTemplates`"),
        "both kinds of templates": (
            {"podGroupTemplates": [{"name": "a", **GANG}], "compositePodGroupTemplates": [composite()]},
            "must specify exactly one of: `podGroupTemplates`, `compositePodGroupTemplates`",
        ),
        "too many": (workload(*"abcdefghi")["spec"], "Too many: 9: must have at most 8 items"),
        "duplicate name": (workload("a", "a")["spec"], "podGroupTemplates[1]: Duplicate value"),
        "one without a name": (workload("")["spec"], "podGroupTemplates[0].name: Required value"),
        "a composite without groups": (
            {"compositePodGroupTemplates": [composite(podGroupTemplates=[])]},
            "compositePodGroupTemplates[0].podGroupTemplates: Required value",
        ),
        "a mistake inside a composite": (
            {"compositePodGroupTemplates": [composite(podGroupTemplates=[{"name": "a", "schedulingPolicy": {}}])]},
            "compositePodGroupTemplates[0].podGroupTemplates[0].schedulingPolicy: Invalid value",
        ),
    },
)
async def test_invalid_workload_is_rejected(client, spec, why):
    with pytest.raises(ApiError) as rejected:
        await client.create(WORKLOAD, named(spec, "train"))
    assert why in str(rejected.value)


def nested(names, **fields):
    """Composite templates, one inside the other, with a PodGroup in the innermost."""
    *parents, last = names
    inner = {"podGroupTemplates": [{"name": last, **GANG, **fields}]}
    for name in reversed(parents):
        inner = {"compositePodGroupTemplates": [{"name": name, **COMPOSITE, **inner, **fields}]}
    return inner


@cases(
    "spec, why",
    {
        "two priorities": (
            {"podGroupTemplates": [{"name": "a", **GANG, "priority": 1}, {"name": "b", **GANG, "priority": 2}]},
            'spec: Invalid value: "": detected multiple priority configurations',
        ),
        "a priority and none": (
            {"podGroupTemplates": [{"name": "a", **GANG, "priority": 1}, {"name": "b", **GANG}]},
            "detected multiple priority configurations",
        ),
        "two classes on two levels": (
            {
                "compositePodGroupTemplates": [
                    {
                        "name": "a",
                        **COMPOSITE,
                        "priorityClassName": "x",
                        "podGroupTemplates": [{"name": "b", **GANG, "priorityClassName": "y"}],
                    }
                ]
            },
            "detected multiple priority configurations",
        ),
        "a name on two levels": (nested("aba"), "podGroupTemplates[0].name: Duplicate value"),
        "five levels": (nested("abcde"), "must have at most 4 levels"),
        "a kind that is no path segment": (
            workload("a", controllerRef={"kind": "a/b", "name": "x"})["spec"],
            "spec.controllerRef.kind: Invalid value: \"a/b\": may not contain '/'",
        ),
        "no name of the controller": (
            workload("a", controllerRef={"kind": "Job"})["spec"],
            "spec.controllerRef.name: Required value",
        ),
    },
)
async def test_a_workload_is_valid_as_a_whole(client, spec, why):
    with pytest.raises(ApiError) as rejected:
        await client.create(WORKLOAD, named(spec, "train"))
    assert why in str(rejected.value)


@cases("names", {"four levels": "abcd", "two levels": "ab"})
async def test_nested_templates_with_one_priority(client, names):
    made = await client.create(WORKLOAD, named(nested(names, priority=5), "train"))
    assert made.spec.compositePodGroupTemplates[0].priority == 5


async def test_composite_templates_need_their_gate():
    async with (
        ApiServer(version="1.37", alpha=True) as server,
        HttpClient(ClusterAccess(server=server.url)) as client,
    ):
        with pytest.raises(ApiError, match=r"spec\.compositePodGroupTemplates: Forbidden"):
            await client.create(WORKLOAD, named(nested("ab"), "train"))


async def test_the_min_count_of_a_template_can_be_changed(client):
    created = await client.create(WORKLOAD, workload("workers"))
    created.spec.podGroupTemplates[0].schedulingPolicy.gang.minCount = 5
    assert (await client.update(WORKLOAD, created)).spec.podGroupTemplates[0].schedulingPolicy.gang.minCount == 5


@cases(
    "templates, why",
    {
        "one more": ([{"name": "a", **GANG}, {"name": "b", **GANG}], "podGroupTemplates[1]: Forbidden: item may not"),
        "another": ([{"name": "b", **GANG}], "podGroupTemplates: Forbidden: item may not be removed"),
        "another priority": ([{"name": "a", **GANG, "priority": 3}], "podGroupTemplates[0].priority: Invalid value"),
    },
)
async def test_the_rest_of_a_workload_is_immutable(client, templates, why):
    created = await client.create(WORKLOAD, workload("a"))
    document = named({"podGroupTemplates": templates}, "train")
    document["metadata"]["resourceVersion"] = created.metadata.resourceVersion
    with pytest.raises(ApiError) as rejected:
        await client.update(WORKLOAD, document)
    assert why in str(rejected.value)


async def test_a_composite_group_is_immutable_and_needs_a_workload(client):
    with pytest.raises(ApiError, match=r"workloadRef: Required value"):
        await client.create(COMPOSITE_POD_GROUP, named(COMPOSITE))
    created = await client.create(COMPOSITE_POD_GROUP, named({**COMPOSITE, **REFERENCE}))
    created.spec.schedulingPolicy.gang.minGroupCount = 1
    with pytest.raises(ApiError, match=r"schedulingPolicy: .*field is immutable"):
        await client.update(COMPOSITE_POD_GROUP, created)

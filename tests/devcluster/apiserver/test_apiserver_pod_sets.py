"""Defaults, validation and immutable fields of StatefulSets, DaemonSets and ControllerRevisions."""

from typing import Any

from tests.support.tables import cases

APPS = "/apis/apps/v1/namespaces/default"
SETS, DAEMONS, REVISIONS = f"{APPS}/statefulsets", f"{APPS}/daemonsets", f"{APPS}/controllerrevisions"


def document(**spec: Any) -> dict[str, Any]:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    return {"metadata": {"name": "w"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template, **spec}}


def rolling(**fields: Any) -> dict[str, Any]:
    return {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": fields}}


CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
UNNAMED_VOLUME = "spec.template.spec.volumes[0].name: Required value"
PERCENT = "a valid percent string must be a numeric string followed by an ending '%'"


@cases(
    "path, spec, problem",
    {
        "policy": (SETS, {"podManagementPolicy": "Any"}, "must be 'OrderedReady' or 'Parallel'"),
        "stateful strategy": (SETS, {"updateStrategy": {"type": "x"}}, "must be 'RollingUpdate' or 'OnDelete'"),
        "OnDelete with a partition": (
            SETS,
            {"updateStrategy": {"type": "OnDelete", "rollingUpdate": {"partition": 1}}},
            "only allowed for updateStrategy 'RollingUpdate'",
        ),
        "partition": (SETS, rolling(partition=-1), "must be greater than or equal to 0"),
        "stateful share": (SETS, rolling(maxUnavailable="a/b"), PERCENT),
        "no share": (SETS, rolling(maxUnavailable=0), "cannot be 0"),
        "too large a share": (SETS, rolling(maxUnavailable="101%"), "must not be greater than 100%"),
        "ordinals": (SETS, {"ordinals": {"start": -1}}, "must be greater than or equal to 0"),
        "retention": (
            SETS,
            {"persistentVolumeClaimRetentionPolicy": {"whenScaled": "Sell"}},
            'supported values: "Delete", "Retain"',
        ),
        "claim template": (
            SETS,
            {"volumeClaimTemplates": [{"metadata": {"name": "d"}, "spec": {"accessModes": ["ReadWriteOnce"]}}]},
            "spec.volumeClaimTemplates[0].spec.resources[storage]: Required value",
        ),
        "claim template without metadata": (SETS, {"volumeClaimTemplates": [{"spec": CLAIM}]}, UNNAMED_VOLUME),
        "claim template without a name": (
            SETS,
            {"volumeClaimTemplates": [{"metadata": {"labels": {"a": "b"}}, "spec": CLAIM}]},
            UNNAMED_VOLUME,
        ),
        "strategy": (DAEMONS, {"updateStrategy": {"type": "x"}}, 'supported values: "OnDelete", "RollingUpdate"'),
        "share": (DAEMONS, rolling(maxUnavailable="a/b"), PERCENT),
        "neither": (DAEMONS, rolling(maxUnavailable=0), "cannot be 0 when maxSurge is 0"),
        "both": (DAEMONS, rolling(maxSurge=1), "may not be set when maxUnavailable is non-zero"),
    },
)
async def test_invalid_spec_is_rejected(api, path, spec, problem):
    answer = await api.create(path, document(**spec), status=422)
    assert problem in answer["message"]


async def test_containers_may_mount_the_claims_of_a_stateful_set(api):
    stateful_set = document(volumeClaimTemplates=[{"metadata": {"name": "data"}, "spec": CLAIM}])
    pod = stateful_set["spec"]["template"]["spec"]
    pod["containers"][0]["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    created = await api.create(SETS, stateful_set)
    assert "volumes" not in created["spec"]["template"]["spec"]
    pod["containers"][0]["volumeMounts"][0]["name"] = "other"
    answer = await api.create(SETS, {**stateful_set, "metadata": {"name": "x"}}, status=422)
    assert 'spec.template.spec.containers[0].volumeMounts[0].name: Not found: "other"' in answer["message"]


async def test_claim_templates_with_equal_names_are_one_volume(api):
    template = {"metadata": {"name": "data"}, "spec": CLAIM}
    await api.create(SETS, document(volumeClaimTemplates=[template, template]))


async def test_name_of_a_stateful_set_is_a_label(api):
    answer = await api.create(SETS, {**document(), "metadata": {"name": "a.b"}}, status=422)
    assert "must not contain dots" in answer["message"]
    await api.create(DAEMONS, {**document(), "metadata": {"name": "a.b"}})


async def test_only_some_fields_of_a_stateful_set_change(api):
    await api.create(SETS, document(serviceName="w"))
    changed = {"replicas": 3, "ordinals": {"start": 1}, "minReadySeconds": 5, **rolling(partition=2)}
    assert (await api.patch(f"{SETS}/w", {"spec": changed}))["spec"]["replicas"] == 3
    answer = await api.patch(f"{SETS}/w", {"spec": {"serviceName": "x"}}, status=422)
    assert "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template'" in answer["message"]


async def test_claim_templates_get_defaults(api):
    storage = {"requests": {"storage": "1Gi"}}
    template = {"metadata": {"name": "d"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": storage}}
    created = await api.create(SETS, document(volumeClaimTemplates=[template]))
    [claim] = created["spec"]["volumeClaimTemplates"]
    assert (claim["apiVersion"], claim["kind"], claim["status"]) == (
        "v1",
        "PersistentVolumeClaim",
        {"phase": "Pending"},
    )
    assert claim["spec"]["volumeMode"] == "Filesystem"


async def test_server_counts_the_templates_of_a_daemon_set(api):
    created = await api.create(DAEMONS, document())

    def number(daemon_set):
        return daemon_set["metadata"]["annotations"]["deprecated.daemonset.template.generation"]

    assert number(created) == "1"
    forged = {"metadata": {"annotations": {"deprecated.daemonset.template.generation": "7"}}}
    assert number(await api.patch(f"{DAEMONS}/w", forged)) == "1"
    assert number(await api.patch(f"{DAEMONS}/w", {"spec": {"minReadySeconds": 3}})) == "1"
    label = {"spec": {"template": {"metadata": {"annotations": {"x": "y"}}}}}
    assert number(await api.patch(f"{DAEMONS}/w", label)) == "2"


async def test_data_of_a_revision_stays(api):
    data = {"spec": {"template": {"$patch": "replace", "any": [1, None, {"x": 1.5}]}}}
    created = await api.create(REVISIONS, {"metadata": {"name": "r"}, "data": data, "revision": 1})
    assert created["data"] == data
    assert (await api.patch(f"{REVISIONS}/r", {"revision": 4}))["revision"] == 4
    answer = await api.patch(f"{REVISIONS}/r", {"data": {"spec": None}}, status=422)
    assert "data: Invalid value" in answer["message"]
    await api.patch(f"{REVISIONS}/r", {"revision": -1}, status=422)
    answer = await api.create(REVISIONS, {"metadata": {"name": "s"}, "revision": 1}, status=422)
    assert "data: Required value: data is mandatory" in answer["message"]
    answer = await api.create(REVISIONS, {"metadata": {"name": "s"}, "data": "x", "revision": 1}, status=422)
    assert "data: Required value: data must be a valid JSON object" in answer["message"]

"""CustomResourceDefinitions: validation, accepted names, and deletion."""

import json

import pytest

from bayplan_devcluster.apiserver import ApiServer, HttpRequest

PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
NAME = f"{PATH}/gangs.example.com"
GANGS = "/apis/example.com/v1/namespaces/default/gangs"
TEXT = {"type": "string"}
X = "x-kubernetes-"


def conditions(definition):
    return {one["type"]: (one["status"], one["reason"]) for one in definition["status"]["conditions"]}


async def test_definition_is_established(api, make_definition):
    created = await api.create(PATH, make_definition())
    assert created["status"]["storedVersions"] == ["v1"]
    assert created["metadata"]["generation"] == 1
    assert created["spec"]["names"] == {"kind": "Gang", "plural": "gangs", "singular": "gang", "listKind": "GangList"}
    assert created["spec"]["conversion"] == {"strategy": "None"}
    found = await api.get(NAME)
    assert found["status"]["acceptedNames"] == found["spec"]["names"]
    assert conditions(found) == {
        "NamesAccepted": ("True", "NoConflicts"),
        "Established": ("True", "InitialNamesAccepted"),
    }
    rows = (await api.get(PATH, Accept="application/json;as=Table;v=v1;g=meta.k8s.io"))["rows"]
    assert [row["cells"] for row in rows] == [["gangs.example.com", "2026-01-01T00:00:00Z"]]


async def test_dry_run_does_not_serve_resources(api, make_definition):
    await api.create(f"{PATH}?dryRun=All", make_definition())
    await api.get(GANGS, 404)


def spec(**changes):
    def change(definition):
        definition["spec"] |= changes

    return change


def names(**changes):
    def change(definition):
        definition["spec"]["names"] |= changes

    return change


def version(**changes):
    def change(definition):
        definition["spec"]["versions"][0] |= changes

    return change


def root(**changes):
    def change(definition):
        definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"] |= changes

    return change


def size(**schema):
    return root(properties={"size": schema})


SCHEMA = "spec.validation.openAPIV3Schema"
INVALID = {
    "name": (lambda definition: definition["metadata"].update(name="gang.example.com"),
             'metadata.name: Invalid value: "gang.example.com": must be spec.names.plural+"."+spec.group'),
    "group without a dot": (spec(group="example"), "should be a domain with at least one dot"),
    "protected group": (spec(group="example.k8s.io"), "annotations[api-approved.kubernetes.io]: Required value"),
    "scope": (spec(scope="Global"), 'spec.scope: Unsupported value: "Global": supported values: "Cluster", "Namespa'),
    "no kind": (names(kind=""), "spec.names.kind: Required value"),
    "short name": (names(shortNames=["G"]), 'spec.names.shortNames[0]: Invalid value: "G": a DNS-1035 label must'),
    "list kind": (names(listKind="Gang"), 'spec.names.listKind: Invalid value: "Gang": kind and listKind may not be'),
    "no versions": (spec(versions=[]), "must have exactly one version marked as storage version"),
    "no storage": (version(storage=False), "must have exactly one version marked as storage version"),
    "version": (version(name="1"), 'spec.versions[0].name: Invalid value: "1": a DNS-1035 label must'),
    "no schema": (version(schema=None), "spec.versions[0].schema.openAPIV3Schema: Required value"),
    "conversion": (spec(conversion={"strategy": "Magic"}), 'Unsupported value: "Magic": supported values: "None"'),
    "preservation": (spec(preserveUnknownFields=True), "spec.preserveUnknownFields: Invalid value: true: "),
    "warning": (version(deprecationWarning="old"), "can only be set for deprecated versions"),
    "column": (version(additionalPrinterColumns=[{"name": "N", "type": "text", "jsonPath": "a"}]),
               'additionalPrinterColumns[0].type: Invalid value: "text": must be one of boolean,date,integer'),
    "column's path": (version(additionalPrinterColumns=[{"name": "N", "type": "string", "jsonPath": "a"}]),
                      'additionalPrinterColumns[0].JSONPath: Invalid value: "a": must be a simple json path'),
    "scale": (version(subresources={"scale": {"specReplicasPath": ".status.n", "statusReplicasPath": ".status.n"}}),
              'spec.subresources.scale.specReplicasPath: Invalid value: ".status.n": should be a json path under'),
    "selectable field": (version(selectableFields=[{"jsonPath": ".spec"}]), "must point to a field of type string"),
    "no type at the root": (root(type=""), f"{SCHEMA}.type: Required value: must not be empty at the root"),
    "list at the root": (root(type="array"), "must be object at the root"),
    "no type": (size(), f"{SCHEMA}.properties[size].type: Required value: must not be empty for specified object fie"),
    "unknown type": (size(type="int"), f'{SCHEMA}.properties[size].type: Unsupported value: "int": supported values:'),
    "no items": (size(type="array"), f"{SCHEMA}.properties[size].items: Required value: must be specified"),
    "pattern": (size(type="string", pattern="("), "must be a valid regular expression, but isn't"),
    "properties and more": (size(type="object", properties={"a": TEXT}, additionalProperties=TEXT),
                            "additionalProperties and properties are mutual exclusive"),
    "reference": (size(**{"type": "object", "$ref": "#/x"}), "$ref: Forbidden: $ref is not supported"),
    "unique items": (size(type="array", items=TEXT, uniqueItems=True), "uniqueItems cannot be set to true since"),
    "nested type": (size(type="string", anyOf=[{"type": "string"}]),
                    f"{SCHEMA}.properties[size].anyOf[0].type: Forbidden: must be empty to be structural"),
    "nested property": (size(type="object", anyOf=[{"properties": {"a": {"minLength": 1}}}]),
                        f"properties[size].properties[a]: Required value: because it is defined in {SCHEMA}."),
    "metadata": (root(properties={"metadata": {"type": "object", "properties": {"labels": {"type": "object"}}}}),
                 "must not specify anything other than name and generateName, but metadata is implicitly specified"),
    "default": (size(type="integer", default="x"), f'{SCHEMA}.properties[size].default: Invalid value: "string"'),
    "pruned default": (size(type="object", default={"a": 1}), "must not have unknown fields"),
    "list map": (size(**{"type": "array", "items": {"type": "object", "properties": {"k": TEXT}},
                         f"{X}list-type": "map", f"{X}list-map-keys": ["k"]}),
                 "it must have a default or be a required property"),
    "list type": (size(**{"type": "object", f"{X}list-type": "set"}), "must be array if x-kubernetes-list-type is"),
    "map type": (size(**{"type": "object", f"{X}map-type": "odd"}), 'Unsupported value: "odd": supported values: "at'),
    "int or string": (size(**{f"{X}int-or-string": True, f"{X}preserve-unknown-fields": True}),
                      "must be false if x-kubernetes-int-or-string is true"),
    "embedded resource": (size(**{"type": "object", f"{X}embedded-resource": True}),
                          "must not be empty if x-kubernetes-embedded-resource is true without"),
}  # fmt: skip


@pytest.mark.parametrize("name", INVALID)
async def test_invalid_definition_is_rejected(api, make_definition, name):
    change, message = INVALID[name]
    definition = make_definition()
    change(definition)
    rejected = await api.create(PATH, definition, 422)
    assert rejected["reason"] == "Invalid"
    assert message in rejected["message"]
    assert rejected["details"]["causes"]
    assert (await api.get(PATH))["items"] == []


async def test_status_subresource_restricts_root_keywords(api, make_definition):
    definition = make_definition(v1={"subresources": {"status": {}}})
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["anyOf"] = [{"minProperties": 1}]
    assert "fields are allowed at the root" in (await api.create(PATH, definition, 422))["message"]


async def test_errors_name_the_version(api, make_definition, make_schema):
    definition = make_definition(v1=make_schema(a={"type": "string"}), v2=make_schema(a={"type": "text"}))
    rejected = await api.create(PATH, definition, 422)
    assert (
        'spec.versions[1].schema.openAPIV3Schema.properties[a].type: Unsupported value: "text"' in rejected["message"]
    )


async def test_conversion_webhooks_are_not_called(in_memory, make_definition):
    definition = make_definition(v1={}, v2={})
    definition["spec"]["conversion"] = {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"]}}
    response = await in_memory.handle(HttpRequest("POST", PATH, body=json.dumps(definition).encode()))

    assert (response.status, len(response.warnings)) == (201, 1)
    assert response.warnings[0].startswith('299 - "stored; conversion webhooks are not called')


async def test_definition_without_conversion_has_no_warning(in_memory, make_definition):
    response = await in_memory.handle(HttpRequest("POST", PATH, body=json.dumps(make_definition()).encode()))

    assert (response.status, response.warnings) == (201, [])


async def test_unknown_fields_of_a_schema_are_reported(api, make_definition):
    definition = make_definition()
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["colour"] = "red"
    rejected = await api.create(f"{PATH}?fieldValidation=Strict", definition, 400)
    assert 'unknown field "spec.versions[0].schema.openAPIV3Schema.properties.spec.colour"' in rejected["message"]


async def test_established_definition_keeps_its_names(api, make_definition):
    await api.create(PATH, make_definition())
    found = await api.get(NAME)
    found["spec"]["names"]["kind"] = "Crew"
    found["spec"]["scope"] = "Cluster"
    rejected = await api.put(NAME, found, 422)
    assert 'spec.scope: Invalid value: "Cluster": field is immutable' in rejected["message"]
    assert 'spec.names.kind: Invalid value: "Crew": field is immutable' in rejected["message"]


async def test_stored_version_cannot_be_removed(api, make_definition):
    await api.create(PATH, make_definition(v1={}, v2={}))
    found = await api.get(NAME)
    found["spec"]["versions"][0]["storage"], found["spec"]["versions"][1]["storage"] = False, True
    found = await api.put(NAME, found)
    assert found["status"]["storedVersions"] == ["v1", "v2"]
    found["spec"]["versions"] = found["spec"]["versions"][1:]
    assert "missing from spec.versions; v1 was previously" in (await api.put(NAME, found, 422))["message"]


def crews(**names):
    schema = {"type": "object"}
    versions = [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}]
    spec = {"group": "example.com", "scope": "Cluster", "names": {"kind": "Crew", "plural": "crews", **names}}
    return {"metadata": {"name": "crews.example.com"}, "spec": {**spec, "versions": versions}}


@pytest.mark.parametrize(
    ("names", "reason", "message"),
    [
        ({"kind": "Gang", "listKind": "CrewList"}, "KindConflict", '"Gang" is already in use'),
        ({"listKind": "GangList"}, "ListKindConflict", '"GangList" is already in use'),
        ({"singular": "gang"}, "SingularConflict", '"gang" is already in use'),
        ({"shortNames": ["c", "gg"]}, "ShortNamesConflict", '"gg" is already in use'),
    ],
)
async def test_conflicting_names_are_not_accepted(api, make_definition, names, reason, message):
    first = make_definition()
    first["spec"]["names"]["shortNames"] = ["gg"]
    await api.create(PATH, first)
    await api.create(PATH, crews(**names))
    second = await api.get(f"{PATH}/crews.example.com")
    assert conditions(second) == {"NamesAccepted": ("False", reason), "Established": ("False", "NotAccepted")}
    assert second["status"]["conditions"][0]["message"] == message
    await api.get("/apis/example.com/v1/crews", 404)

    await api.delete(NAME)
    await api.gone(NAME)
    assert conditions(await api.get(f"{PATH}/crews.example.com"))["Established"][0] == "True"
    await api.get("/apis/example.com/v1/crews")


async def test_names_may_be_used_in_another_group(api, make_definition):
    await api.create(PATH, make_definition())
    other = make_definition()
    other["metadata"]["name"], other["spec"]["group"] = "gangs.example.org", "example.org"
    await api.create(PATH, other)
    assert conditions(await api.get(f"{PATH}/gangs.example.org"))["Established"][0] == "True"


async def test_built_in_resources_cannot_be_redefined(api, make_definition):
    other = make_definition()
    other["metadata"] = {
        "name": "leases.coordination.k8s.io",
        "annotations": {"api-approved.kubernetes.io": "unapproved"},
    }
    other["spec"] |= {"group": "coordination.k8s.io", "names": {"kind": "Lease", "plural": "leases"}}
    await api.create(PATH, other)
    leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
    await api.create(leases, {"metadata": {"name": "l"}, "spec": {"holderIdentity": "me"}})
    await api.delete(f"{PATH}/leases.coordination.k8s.io")
    await api.gone(f"{PATH}/leases.coordination.k8s.io")
    assert (await api.get(f"{leases}/l"))["spec"] == {"holderIdentity": "me"}


async def test_discovery_and_openapi_are_updated(api, make_definition):
    assert "example.com" not in [group["name"] for group in (await api.get("/apis"))["groups"]]
    definition = make_definition(v1={}, v2beta1={"subresources": {"status": {}}}, v2={"served": False})
    definition["spec"]["names"] |= {"shortNames": ["gg"], "categories": ["all"]}
    await api.create(PATH, definition)
    group = await api.get("/apis/example.com")
    assert [version["version"] for version in group["versions"]] == ["v1", "v2beta1"]
    assert group["preferredVersion"]["version"] == "v1"
    resources = (await api.get("/apis/example.com/v2beta1"))["resources"]
    assert [one["name"] for one in resources] == ["gangs", "gangs/status"]
    assert (resources[0]["shortNames"], resources[0]["categories"]) == (["gg"], ["all"])
    aggregated = await api.get("/apis", Accept="application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
    assert "example.com" in [item["metadata"]["name"] for item in aggregated["items"]]
    schemas = (await api.get("/openapi/v3/apis/example.com/v1"))["components"]["schemas"]
    gang = schemas["com.example.v1.Gang"]
    assert gang["x-kubernetes-group-version-kind"] == [{"group": "example.com", "version": "v1", "kind": "Gang"}]
    assert gang["properties"]["spec"]["properties"] == {"size": {"type": "integer"}}
    assert "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta" in schemas
    assert "com.example.v1.Gang" in (await api.get("/openapi/v2"))["definitions"]

    await api.delete(NAME)
    await api.gone(NAME)
    await api.gone("/apis/example.com")
    await api.get("/openapi/v3/apis/example.com/v1", 404)
    assert "com.example.v1.Gang" not in (await api.get("/openapi/v2"))["definitions"]


async def test_objects_are_deleted_with_their_definition(api, make_definition):
    version = (await api.create(PATH, make_definition()))["metadata"]["resourceVersion"]
    await api.create("/api/v1/namespaces", {"metadata": {"name": "team"}})
    await api.create(GANGS, {"metadata": {"name": "g"}})
    held = {"metadata": {"name": "held", "finalizers": ["example.com/hold"]}}
    await api.create(GANGS.replace("default", "team"), held)
    async with api.watch(f"{GANGS}?watch=1&resourceVersion={version}") as following:
        assert (await following())["type"] == "ADDED"
        deleting = await api.delete(NAME)
        assert deleting["metadata"]["finalizers"] == ["customresourcecleanup.apiextensions.k8s.io"]
        assert conditions(deleting)["Terminating"] == ("True", "InstanceDeletionPending")
        assert (await following())["type"] == "DELETED"
        await api.gone(f"{GANGS}/g")
        assert conditions(await api.get(NAME))["Terminating"] == ("True", "InstanceDeletionInProgress")
        rejected = await api.create(GANGS, {"metadata": {"name": "late"}}, 405)
        assert rejected["message"] == "create not allowed while custom resource definition is terminating"

        await api.patch(f"{GANGS.replace('default', 'team')}/held", {"metadata": {"finalizers": []}})
        await api.gone(NAME)
        assert await following() is None
    await api.get(GANGS, 404)

    await api.create(PATH, make_definition())
    assert (await api.get(GANGS))["items"] == []


async def test_many_objects_are_deleted_with_their_definition(api, make_definition):
    await api.create(PATH, make_definition())
    for number in range(120):
        await api.create(GANGS, {"metadata": {"name": f"g{number}"}})
    await api.delete(NAME)
    await api.gone(NAME)


async def test_definition_with_other_finalizers_stays(api, make_definition):
    definition = make_definition()
    definition["metadata"]["finalizers"] = ["example.com/hold"]
    await api.create(PATH, definition)
    await api.delete(NAME)
    await api.patch(NAME, {"metadata": {"finalizers": []}})
    await api.gone(NAME)


async def test_change_of_a_definition_ends_watches(api, make_definition, make_schema):
    await api.create(PATH, make_definition())
    async with api.watch(f"{GANGS}?watch=1") as following:
        await api.patch(NAME, {"metadata": {"labels": {"a": "b"}}})  # does not change the served resources
        await api.create(GANGS, {"metadata": {"name": "g"}})
        assert (await following())["type"] == "ADDED"
        versions = make_definition(v1=make_schema(spec={"type": "object"}))["spec"]["versions"]
        await api.patch(NAME, {"spec": {"versions": versions}})
        assert await following() is None


async def test_definition_accepts_all_patch_types(api, make_definition):
    await api.create(PATH, make_definition())
    for kind, body in {
        "merge": {"spec": {"names": {"shortNames": ["gg"]}}},
        "strategic": {"spec": {"names": {"categories": ["all"]}}},
        "json": [{"op": "replace", "path": "/spec/versions/0/served", "value": False}],
    }.items():
        await api.patch(NAME, body, kind=kind)
    found = await api.get(NAME)
    assert found["status"]["acceptedNames"]["shortNames"] == ["gg"]
    assert found["status"]["acceptedNames"]["categories"] == ["all"]
    assert found["metadata"]["generation"] == 4
    await api.get(GANGS, 404)


async def test_manifest_may_use_resources_that_it_defines(make_definition):
    server = ApiServer()
    written = {**make_definition(), "status": {"conditions": [], "storedVersions": []}}
    head = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    gang = {"apiVersion": "example.com/v1", "kind": "Gang", "metadata": {"name": "g"}, "spec": {"size": 3}}
    server.load([{**head, **written}, gang])
    assert server.store.collection("gangs.example.com").objects["default/g"].load()["spec"] == {"size": 3}


async def test_pattern_of_go_is_accepted_and_enforced(api, make_definition):
    definition = make_definition()
    spec = {"type": "object", "properties": {"strategy": {"type": "string", "pattern": "^(?i)(abort|warn)?$"}}}
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"] = spec
    await api.create(PATH, definition)

    await api.create(GANGS, {"metadata": {"name": "a"}, "spec": {"strategy": "Abort"}})
    rejected = await api.create(GANGS, {"metadata": {"name": "b"}, "spec": {"strategy": "stop"}}, 422)
    assert "should match '^(?i)(abort|warn)?$'" in rejected["message"]

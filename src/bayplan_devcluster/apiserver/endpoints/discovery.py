"""Discovery: the served groups, versions and resources, as separate documents and aggregated in one.

Mirrors apiserver's pkg/endpoints/discovery.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from bayplan.core.api.kinds import Kind
from bayplan_devcluster.apiserver.endpoints.subresource_catalog import subresources_of
from bayplan_devcluster.apiserver.endpoints.virtual_resources import VIRTUAL
from bayplan_devcluster.apiserver.schema import Object
from bayplan_devcluster.apiserver.storage.resource import Resource

VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
STATUS_VERBS = ["get", "patch", "update"]


PREFERRED = ("", "apps", "events.k8s.io", "authentication.k8s.io", "authorization.k8s.io", "batch", "policy")
"""The groups that come first, in this order; kubectl resolves an ambiguous name to the first group that has it."""


_VERSION = re.compile(r"v([1-9][0-9]*)(?:(alpha|beta)([1-9][0-9]*))?")
_STABILITY = {"alpha": 2, "beta": 1, None: 0}


def version_document(release: str) -> Object:
    """Returns the document at /version for a release such as v1.36.2. Its platform shows that this isn't Kubernetes."""
    major, minor, _ = release.removeprefix("v").split(".")
    return {
        "major": major,
        "minor": minor,
        "gitVersion": release,
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "",
        "platform": "bayplan/embedded",
    }


def version_rank(version: str) -> tuple[int, int, int, str]:
    """A sort key for the versions of a group, the preferred one first: v2, v1, v1beta1, v1alpha1, then other names.

    Mirrors CompareKubeAwareVersionStrings of apimachinery's pkg/version.
    """
    match = _VERSION.fullmatch(version)
    if match is None:
        return (3, 0, 0, version)
    major, stability, minor = match.groups()
    return (_STABILITY[stability], -int(major), -int(minor or 0), version)


class Discovery:
    """The discovery documents of a set of resources."""

    def __init__(self, resources: Iterable[Resource]) -> None:
        found: dict[tuple[str, str], list[Resource]] = {}
        for resource in resources:
            kind = resource.kind
            found.setdefault((kind.group, kind.version), []).append(resource)
        for group, version, _ in VIRTUAL:
            found.setdefault((group, version), [])
        order = sorted(found, key=lambda name: version_rank(name[1]))
        self._resources = {name: found[name] for name in order}

    def document(self, path: str, *, aggregated: bool, address: str) -> Object | None:
        """Returns the document at a path below /api or /apis, None if there is none."""
        parts = path.strip("/").split("/")
        match parts:
            case ["api"] if aggregated:
                return self._aggregated([""])
            case ["api"]:
                return {
                    "kind": "APIVersions",
                    "versions": ["v1"],
                    "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
                }
            case ["apis"] if aggregated:
                return self._aggregated(self._groups())
            case ["apis"]:
                groups = [self._group(group) for group in self._groups()]
                return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
            case ["apis", group] if group in self._groups():
                return {"kind": "APIGroup", "apiVersion": "v1", **self._group(group)}
            case ["api", version] if ("", version) in self._resources:
                return self._resource_list("", version)
            case ["apis", group, version] if (group, version) in self._resources:
                return self._resource_list(group, version)
            case _:
                return None

    def _groups(self) -> list[str]:
        known = {group for group, _ in self._resources if group}
        first = [group for group in PREFERRED if group in known]
        return first + sorted(known - set(first))

    def versions(self) -> list[tuple[str, str]]:
        """Returns the served (group, version) pairs."""
        return list(self._resources)

    def resources(self, group: str, version: str) -> list[Resource]:
        """Returns the stored resources of a version."""
        return self._resources.get((group, version), [])

    def _group(self, group: str) -> Object:
        known = [version for one, version in self._resources if one == group]
        versions = [{"groupVersion": f"{group}/{version}", "version": version} for version in known]
        return {"name": group, "versions": versions, "preferredVersion": versions[0]}

    def _resource_list(self, group: str, version: str) -> Object:
        resources: list[Object] = []
        for one in self._resources[group, version]:
            kind = one.kind
            resources.append(_described(one))
            scope = {"singularName": "", "namespaced": kind.namespaced}
            for name, subresource in _subresources(one).items():
                resources.append({"name": f"{kind.plural}/{name}", **scope, **subresource})
        resources.extend(_virtual(group, version))
        return {
            "kind": "APIResourceList",
            "apiVersion": "v1",
            "groupVersion": f"{group}/{version}" if group else version,
            "resources": sorted(resources, key=lambda resource: str(resource["name"])),
        }

    def _aggregated(self, groups: list[str]) -> Object:
        items = []
        for group in groups:
            versions = [
                {"version": version, "freshness": "Current", "resources": self._aggregated_resources(group, version)}
                for one, version in self._resources
                if one == group
            ]
            items.append({"metadata": {"name": group} if group else {}, "versions": versions})
        return {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items}

    def _aggregated_resources(self, group: str, version: str) -> list[Object]:
        resources: list[Object] = []
        for served in self._resources[group, version]:
            kind = served.kind
            resource: Object = {
                "resource": kind.plural,
                "responseKind": {"group": group, "version": version, "kind": kind.kind},
                "scope": "Namespaced" if kind.namespaced else "Cluster",
                "singularResource": kind.singular,
                "verbs": VERBS,
            }
            if kind.short_names:
                resource["shortNames"] = list(kind.short_names)
            if kind.categories:
                resource["categories"] = list(kind.categories)
            subresources = [_aggregated_subresource(kind, name, one) for name, one in _subresources(served).items()]
            if subresources:
                resource["subresources"] = subresources
            resources.append(resource)
        resources += [
            {
                "resource": virtual["name"],
                "responseKind": {"group": group, "version": version, "kind": virtual["kind"]},
                "scope": "Namespaced" if virtual["namespaced"] else "Cluster",
                "singularResource": virtual["singularName"],
                "verbs": ["create"],
            }
            for virtual in _virtual(group, version)
        ]
        return sorted(resources, key=lambda resource: str(resource["resource"]))


def _described(resource: Resource) -> Object:
    kind = resource.kind
    described: Object = {
        "name": kind.plural,
        "singularName": kind.singular,
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": VERBS,
    }
    if kind.short_names:
        described["shortNames"] = list(kind.short_names)
    if kind.categories:
        described["categories"] = list(kind.categories)
    return described


def _subresources(resource: Resource) -> dict[str, Object]:
    """Returns the fields of the APIResources of a resource's subresources, by name."""
    kind = resource.kind
    found: dict[str, Object] = {"status": {"kind": kind.kind, "verbs": STATUS_VERBS}} if kind.status else {}
    for name, subresource in subresources_of(resource).items():
        group, _, version = subresource.api_version.rpartition("/")
        own = {"group": group, "version": version} if subresource.api_version else {}
        found[name] = {**own, "kind": subresource.kind, "verbs": sorted(subresource.verbs)}
    return dict(sorted(found.items()))


def _aggregated_subresource(kind: Kind, name: str, subresource: Mapping[str, Any]) -> Object:
    response = {
        "group": subresource.get("group", kind.group),
        "version": subresource.get("version", kind.version),
        "kind": subresource["kind"],
    }
    return {"subresource": name, "responseKind": response, "verbs": subresource["verbs"]}


def _virtual(group: str, version: str) -> list[Object]:
    return [
        {
            "name": plural,
            "singularName": virtual.kind.lower(),
            "namespaced": virtual.namespaced,
            "kind": virtual.kind,
            "verbs": ["create"],
        }
        for (one, its_version, plural), virtual in VIRTUAL.items()
        if (one, its_version) == (group, version)
    ]

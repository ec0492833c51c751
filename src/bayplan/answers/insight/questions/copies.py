"""Copies of the pods of manifests, with the claims and groups that each copy has for itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bayplan.core.api.coscheduling import POD_GROUP_LABEL
from bayplan.core.api.kinds import STATEFUL_SET
from bayplan.core.api.objects import Document
from bayplan.core.expansion.expansion import Expansion


class Copies:
    """Makes copies of all pods of an expansion.

    Claims that controllers make for a pod, and PodGroups, are copied with the pods; `shared` are the other objects.
    """

    def __init__(self, expansion: Expansion) -> None:
        self.pods: Sequence[Document] = expansion.pods
        uids = {_uid(pod): pod["metadata"]["name"] for pod in expansion.pods}
        made = {claim for pod in expansion.pods for claim in _claims_of_ordinal(pod)}
        self._groups = {_name(each) for each in expansion.objects if each["kind"] == "PodGroup"}
        self._renamed: dict[str, str] = {}
        """The names of the claims that are copied, as formats for the suffix."""
        self._own: list[Document] = []
        self.shared: list[Document] = []
        for document in expansion.objects:
            name = _name(document)
            owner = next((uids[each["uid"]] for each in _owners(document) if each["uid"] in uids), None)
            if owner is None and name not in made and document["kind"] != "PodGroup":
                self.shared.append(document)
                continue
            self._own.append(document)
            if owner is not None and document["kind"] == "PersistentVolumeClaim":
                self._renamed[name] = f"{owner}%s{name.removeprefix(owner)}"
            else:
                self._renamed[name] = f"{name}%s"

    @property
    def alone(self) -> bool:
        """Whether a copy is one pod, without objects of its own."""
        return len(self.pods) == 1 and not self._own

    def objects(self, number: str) -> Iterable[Document]:
        """Return the objects of one copy, without its pods."""
        suffix = f".{number}"
        for document in self._own:
            metadata = {**document["metadata"], "name": self._renamed[_name(document)] % suffix}
            metadata["uid"] = f"{_uid(document)}{suffix}"
            if owners := _owners(document):
                metadata["ownerReferences"] = [
                    {**owner, "name": f"{owner['name']}{suffix}", "uid": f"{owner['uid']}{suffix}"} for owner in owners
                ]
            yield {**document, "metadata": metadata}

    def identity(self, number: str) -> tuple[str, str]:
        """Return the name and the uid of the only pod of one copy."""
        pod, suffix = self.pods[0], f".{number}"
        return f"{_name(pod)}{suffix}", f"{_uid(pod)}{suffix}"

    def copies(self, number: str) -> Iterable[Document]:
        """Return the pods of one copy."""
        suffix = f".{number}"
        for pod in self.pods:
            metadata = {**pod["metadata"], "name": f"{_name(pod)}{suffix}", "uid": f"{_uid(pod)}{suffix}"}
            copy = {**pod, "metadata": metadata}
            if self._own:
                self._rename_references(copy, suffix)
            yield copy

    def _rename_references(self, pod: Document, suffix: str) -> None:
        spec = pod["spec"] = dict(pod["spec"])
        labels = pod["metadata"].get("labels") or {}
        pod["metadata"]["labels"] = {
            key: f"{value}{suffix}" if key == POD_GROUP_LABEL and value in self._groups else value
            for key, value in labels.items()
        }
        group = spec.get("schedulingGroup") or {}
        if group.get("podGroupName") in self._groups:
            spec["schedulingGroup"] = {**group, "podGroupName": group["podGroupName"] + suffix}
        if spec.get("volumes"):
            spec["volumes"] = [self._renamed_volume(each, suffix) for each in spec["volumes"]]
        statuses = (pod.get("status") or {}).get("resourceClaimStatuses")
        if statuses:
            renamed = [{**status, "resourceClaimName": f"{status['resourceClaimName']}{suffix}"} for status in statuses]
            pod["status"] = {**pod["status"], "resourceClaimStatuses": renamed}

    def _renamed_volume(self, volume: Mapping[str, Any], suffix: str) -> Mapping[str, Any]:
        source = volume.get("persistentVolumeClaim") or {}
        name = source.get("claimName")
        if name not in self._renamed:
            return volume
        return {**volume, "persistentVolumeClaim": {**source, "claimName": self._renamed[name] % suffix}}


def _claims_of_ordinal(pod: Document) -> Iterable[str]:
    """The names of the claims that a StatefulSet makes for one of its pods."""
    if any(owner["kind"] == STATEFUL_SET.kind for owner in _owners(pod)):
        for volume in pod["spec"].get("volumes") or ():
            name = (volume.get("persistentVolumeClaim") or {}).get("claimName")
            if name == f"{volume['name']}-{_name(pod)}":
                yield name


def _name(document: Mapping[str, Any]) -> str:
    return str(document["metadata"]["name"])


def _uid(document: Mapping[str, Any]) -> str:
    metadata = document["metadata"]
    return str(metadata.get("uid") or f"{metadata.get('namespace')}/{metadata['name']}")


def _owners(document: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    return document["metadata"].get("ownerReferences") or ()

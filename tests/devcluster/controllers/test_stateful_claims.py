"""The owners of a claim by the retention policy of its StatefulSet."""

from typing import Any

import pytest
from lightkube.models import apps_v1, core_v1
from lightkube.models.apps_v1 import (
    StatefulSetOrdinals,
    StatefulSetPersistentVolumeClaimRetentionPolicy,
    StatefulSetSpec,
)
from lightkube.models.core_v1 import PodTemplateSpec
from lightkube.models.meta_v1 import LabelSelector, ObjectMeta, OwnerReference
from tests.support.tables import cases

from bayplan_devcluster.controllers.stateful_claims import has_other_controller, owners

POD_OWNER = ("v1", "Pod", "db-1", "pod-uid", True)
SET_OWNER = ("apps/v1", "StatefulSet", "db", "set-uid", True)


def reference(owner: tuple[str, str, str, str, bool]) -> OwnerReference:
    api_version, kind, name, uid, controller = owner
    return OwnerReference(apiVersion=api_version, kind=kind, name=name, uid=uid, controller=controller)


def decided(deleted: str, scaled: str, given: list[Any], *, replicas: int = 2) -> list[tuple[str, str]] | None:
    """The kinds and uids of the owners to write for the claim of db-1; None for no change."""
    policy = StatefulSetPersistentVolumeClaimRetentionPolicy(whenDeleted=deleted, whenScaled=scaled)
    spec = StatefulSetSpec(
        selector=LabelSelector(),
        template=PodTemplateSpec(),
        replicas=replicas,
        ordinals=StatefulSetOrdinals(start=0),
        persistentVolumeClaimRetentionPolicy=policy,
    )
    stateful_set = apps_v1.StatefulSet(metadata=ObjectMeta(name="db", uid="set-uid"), spec=spec)
    pod = core_v1.Pod(metadata=ObjectMeta(name="db-1", uid="pod-uid"))
    metadata = ObjectMeta(name="data-db-1", ownerReferences=[reference(one) for one in given])
    wanted = owners(core_v1.PersistentVolumeClaim(metadata=metadata), stateful_set, pod)
    return None if wanted is None else [(one.kind, one.uid) for one in wanted]


@cases(
    "deleted, scaled, given, replicas, wanted",
    {
        "none and none wanted": ("Retain", "Retain", [], 2, None),
        "policy became Retain": ("Retain", "Retain", [SET_OWNER], 2, []),
        "set": ("Delete", "Retain", [], 2, [("StatefulSet", "set-uid")]),
        "set, also of a surplus pod": ("Delete", "Retain", [SET_OWNER], 1, None),
        "none while the pod is wanted": ("Retain", "Delete", [], 2, None),
        "surplus pod": ("Retain", "Delete", [], 1, [("Pod", "pod-uid")]),
        "from the set to the surplus pod": ("Delete", "Delete", [SET_OWNER], 1, [("Pod", "pod-uid")]),
        "and back": ("Delete", "Delete", [POD_OWNER], 2, [("StatefulSet", "set-uid")]),
        "owner, no controller": ("Delete", "Retain", [(*SET_OWNER[:4], False)], 2, [("StatefulSet", "set-uid")]),
        "others stay": (
            "Delete",
            "Retain",
            [("v1", "Node", "n", "node-uid", False)],
            2,
            [("Node", "node-uid"), ("StatefulSet", "set-uid")],
        ),
        "another controller": ("Delete", "Retain", [("v1", "X", "x", "x-uid", True)], 2, None),
        "two controllers": ("Delete", "Retain", [("v1", "X", "x", "x-uid", True), SET_OWNER], 2, [("X", "x-uid")]),
        "former pod": ("Delete", "Delete", [("v1", "Pod", "db-1", "old", True)], 2, None),
        "former set": ("Delete", "Delete", [("apps/v1", "StatefulSet", "db", "old", True)], 2, None),
    },
)
def test_owners_follow_the_retention_policy(deleted, scaled, given, replicas, wanted):
    assert decided(deleted, scaled, given, replicas=replicas) == wanted


@pytest.mark.parametrize(("deleted", "conflicting"), [("Delete", True), ("Retain", False)])
def test_another_controller_conflicts_with_a_policy_that_deletes(deleted, conflicting):
    policy = StatefulSetPersistentVolumeClaimRetentionPolicy(whenDeleted=deleted)
    spec = StatefulSetSpec(
        selector=LabelSelector(), template=PodTemplateSpec(), persistentVolumeClaimRetentionPolicy=policy
    )
    stateful_set = apps_v1.StatefulSet(metadata=ObjectMeta(name="db", uid="set-uid"), spec=spec)
    claim = core_v1.PersistentVolumeClaim(
        metadata=ObjectMeta(name="data-db-1", ownerReferences=[reference(("v1", "X", "x", "x-uid", True))])
    )
    pod = core_v1.Pod(metadata=ObjectMeta(name="db-1", uid="pod-uid"))
    assert has_other_controller(claim, stateful_set, pod) is conflicting

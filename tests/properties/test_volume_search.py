"""Compares the volume search over all nodes at once with a plain loop over nodes, claims and volumes, as upstream's."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.documents import of_kind

from bayplan.core.api.kinds import (
    CSI_DRIVER,
    CSI_NODE,
    CSI_STORAGE_CAPACITY,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    STORAGE_CLASS,
)
from bayplan.core.api.objects import convert
from bayplan.core.cluster.objects import ObjectStore
from bayplan.core.plugins.volume_binding.candidates import VolumesByClass
from bayplan.core.plugins.volume_binding.capacity import Capacities
from bayplan.core.plugins.volume_binding.claims import PodClaims, sort_claims
from bayplan.core.plugins.volume_binding.scoring import scores
from bayplan.core.plugins.volume_binding.search import VolumeSearch
from bayplan.testing.builders import make_cluster, make_node, make_pod

pytestmark = pytest.mark.feature("VolumeBinding: all nodes at once against a plain loop")

NODES = ["n0", "n1", "n2", "n3"]
LATE, MADE = "late", "made"
SELECTED = "volume.kubernetes.io/selected-node"


def a_claim(rng, number):
    annotations, volume_name = {}, ""
    if rng.random() < 0.2:
        annotations["pv.kubernetes.io/bind-completed"], volume_name = "yes", f"v{rng.randint(0, 7)}"
    elif rng.random() < 0.15:
        annotations[SELECTED] = rng.choice([*NODES, "gone"])
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": f"c{number}", "namespace": "default", "uid": f"c{number}", "annotations": annotations},
        "spec": {
            "accessModes": rng.sample(["ReadWriteOnce", "ReadOnlyMany"], rng.randint(1, 2)),
            "storageClassName": rng.choice([LATE, MADE]),
            "resources": {"requests": {"storage": f"{rng.randint(1, 3)}Gi"}},
            **({"volumeName": volume_name} if volume_name else {}),
            **({"selector": {"matchLabels": {"k": "1"}}} if rng.random() < 0.2 else {}),
        },
    }


def a_volume(rng, number, size):
    reachable = rng.sample(NODES, rng.randint(0, 3))
    expression = {"key": "kubernetes.io/hostname", "operator": "In", "values": reachable or ["nowhere"]}
    affinity = {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}
    reference = {"namespace": "default", "name": f"c{rng.randint(0, 3)}"}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"v{number}", "labels": {"k": rng.choice("12")}},
        "spec": {
            "accessModes": rng.sample(["ReadWriteOnce", "ReadOnlyMany"], rng.randint(1, 2)),
            "storageClassName": rng.choice([LATE, MADE]),
            "capacity": {"storage": f"{size}Mi"},
            **({"nodeAffinity": affinity} if rng.random() < 0.8 else {}),
            **({"claimRef": reference} if rng.random() < 0.2 else {}),
        },
        "status": {"phase": rng.choice(["Available", "Available", "Available", "Bound"])},
    }


def a_room(rng, number):
    selector = {"matchLabels": {"kubernetes.io/hostname": rng.choice(NODES)}}
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSIStorageCapacity",
        "metadata": {"name": f"r{number}", "namespace": "default"},
        "storageClassName": MADE,
        "capacity": f"{rng.randint(1, 3)}Gi",
        "nodeTopology": selector,
    }


def a_class(name, provisioner, **fields):
    return of_kind("StorageClass", name, provisioner=provisioner, volumeBindingMode="WaitForFirstConsumer", **fields)


def plain(claims, volumes, rooms, topologies, node):
    """Upstream's FindPodVolumes for one node: reasons, volumes by claim, and claims to provision volumes for."""
    reasons, bindings, made = [], {}, []
    for claim in (each for each in claims if each["spec"].get("volumeName")):
        volume = volumes.get(claim["spec"]["volumeName"])
        if volume is None or not reaches(volume, node):
            reasons.append("missing" if volume is None else "conflict")
            break
    waiting = [each for each in claims if not each["spec"].get("volumeName")]
    selected = [each for each in waiting if SELECTED in each["metadata"]["annotations"]]
    if any(each["metadata"]["annotations"][SELECTED] != node for each in selected):
        return {*reasons, "bind"}, {}, []
    to_make = list(selected)
    for claim in sorted((each for each in waiting if each not in selected), key=size):
        best = plain_match(claim, volumes, set(bindings.values()), node)
        if best is None:
            to_make.append(claim)
        else:
            bindings[claim["metadata"]["name"]] = best
    for claim in to_make:
        if claim["spec"]["storageClassName"] == LATE or node not in topologies:
            return {*reasons, "bind"}, bindings, made
        if rooms is not None and not any(
            room["nodeTopology"]["matchLabels"]["kubernetes.io/hostname"] == node
            and int(room["capacity"][:-2]) * 1024 >= size(claim)
            for room in rooms
        ):
            return {*reasons, "space"}, bindings, made
        made.append(claim["metadata"]["name"])
    return set(reasons), bindings, made


def plain_match(claim, volumes, taken, node):
    best, best_size = None, 0
    for name, volume in volumes.items():
        spec, reference = volume["spec"], volume["spec"].get("claimRef")
        capacity = int(spec["capacity"]["storage"][:-2])
        if name in taken or (reference and reference["name"] != claim["metadata"]["name"]):
            continue
        if spec["storageClassName"] != claim["spec"]["storageClassName"] or capacity < size(claim):
            continue
        if reference:
            return name if reaches(volume, node) else None
        if volume["status"]["phase"] != "Available" or not reaches(volume, node):
            continue
        if "selector" in claim["spec"] and volume["metadata"]["labels"]["k"] != "1":
            continue
        if not set(claim["spec"]["accessModes"]) <= set(spec["accessModes"]):
            continue
        if best is None or capacity < best_size:
            best, best_size = name, capacity
    return best


def reaches(volume, node):
    affinity = volume["spec"].get("nodeAffinity")
    if affinity is None:
        return True
    (term,) = affinity["required"]["nodeSelectorTerms"]
    return node in term["matchExpressions"][0]["values"]


def size(claim):
    return int(claim["spec"]["resources"]["requests"]["storage"][:-2]) * 1024


def plain_score(on_node):
    """Upstream's Score with the shape that gives 100 points to unused volumes and none to full ones."""
    used = {}
    if on_node.bindings:
        for each in on_node.bindings:
            there = used.setdefault(each.volume.spec.storageClassName, [0, 0])
            there[0] += int(each.claim.spec.resources.requests["storage"][:-2]) * 1024
            there[1] += int(each.volume.spec.capacity["storage"][:-2])
    else:
        for each in on_node.provisions:
            if each.capacity is not None:
                there = used.setdefault(each.claim.spec.storageClassName, [0, 0])
                there[0] += int(each.claim.spec.resources.requests["storage"][:-2])
                there[1] = int(each.capacity.capacity[:-2])
    points = [0 if asked > there else 100 - asked * 100 // there for asked, there in used.values()]
    return int(sum(points) / len(points) + 0.5) if points else 0


WORDS = {
    "node(s) didn't match PersistentVolume's node affinity": "conflict",
    "node(s) didn't find available persistent volumes to bind": "bind",
    "node(s) did not have enough free storage": "space",
    "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)": "missing",
}


@settings(max_examples=200)
@given(st.integers(0, 2**32))
def test_every_verdict_equals_a_plain_loop(seed):
    rng = random.Random(seed)
    claims = [a_claim(rng, number) for number in range(rng.randint(1, 4))]
    sizes = rng.sample(range(900, 4000), 7)  # no two volumes are equal: upstream chooses among equal ones at random
    volumes = {f"v{number}": a_volume(rng, number, each) for number, each in enumerate(sizes)}
    tells = rng.random() < 0.5
    rooms = [a_room(rng, number) for number in range(4)] if tells else None
    topologies = rng.sample(NODES, 3)
    expression = {"key": "kubernetes.io/hostname", "values": topologies}
    driver = {"metadata": {"name": "d"}, "apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver"}
    objects = [
        a_class(LATE, "kubernetes.io/no-provisioner"),
        a_class(MADE, "d", allowedTopologies=[{"matchLabelExpressions": [expression]}]),
        {**driver, "spec": {"storageCapacity": tells}},
    ]
    state = make_cluster(*map(make_node, NODES), *objects, *claims, *volumes.values(), *(rooms or ())).state
    pod_volumes = [
        {"name": each["metadata"]["name"], "persistentVolumeClaim": {"claimName": each["metadata"]["name"]}}
        for each in claims
    ]
    stores = [state.objects[kind] for kind in (PERSISTENT_VOLUME_CLAIM, PERSISTENT_VOLUME, STORAGE_CLASS)]
    sorted_claims = sort_claims(make_pod("p", spec={"volumes": pod_volumes}), *stores)
    assert isinstance(sorted_claims, PodClaims)
    capacities = Capacities(state.objects[CSI_DRIVER], state.objects[CSI_STORAGE_CAPACITY])
    search = VolumeSearch(stores[1], stores[2], state.objects[CSI_NODE], capacities)
    found = search.find(sorted_claims, state.nodes)
    rejections = found.rejections()
    scored = scores(found, np.arange(100, -1, -1, dtype=np.int64))
    for position, node in enumerate(NODES):
        reasons, bindings, made = plain(claims, volumes, rooms, topologies, node)
        code = 0 if rejections is None else int(rejections.index[position])
        said = rejections.statuses[code - 1].reasons if rejections is not None and code else ()
        assert {WORDS[reason] for reason in said} == reasons, node
        if not said:
            on_node = found.at(position)
            assert {each.claim.metadata.name: each.volume.metadata.name for each in on_node.bindings} == bindings
            assert [each.claim.metadata.name for each in on_node.provisions] == made
            assert scored[position] == plain_score(on_node), node


@settings(max_examples=100)
@given(st.randoms(use_true_random=False))
def test_candidates_after_events_match_those_of_a_new_store(rng):
    store, claim = ObjectStore(), convert(PERSISTENT_VOLUME_CLAIM.type, a_claim(rng, 0))
    by_class = store.view(VolumesByClass)
    for _ in range(40):
        number = rng.randint(0, 4)
        key, volume = f"v{number}", convert(PERSISTENT_VOLUME.type, a_volume(rng, number, rng.randint(900, 4000)))
        step = rng.choice(["set", "set", "remove", "assume", "restore"])
        if step == "set":
            store.set(key, volume)
        elif step == "assume" and key in store:
            store.assume(key, volume)
        elif step == "restore":
            store.restore(key)
        elif step == "remove":
            store.remove(key)
        assert by_class.candidates(claim) == VolumesByClass(store).candidates(claim)
    for key in tuple(store):
        store.remove(key)
    assert not vars(by_class)["_classes"]

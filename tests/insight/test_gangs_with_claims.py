"""Gangs whose members need devices and volumes are bound whole or wait whole, as `fit` and a slow reference foretell.

BAYPLAN_TRUTH_CLUSTERS=500 runs each test on so many clusters.
"""

import asyncio
import os
from collections import Counter
from functools import partial
from pathlib import Path

import pytest
import yaml
from gang_clusters import AS_A_WHOLE, IN_ONE_ZONE, KUBERNETES, LABELS, PLUGINS, PRIORITY, GangMaker, gang_labels
from real_runs import QUIET, FirstChoice, running
from tests.support.tables import cases

from bayplan.core.api import quantity
from bayplan.core.api.kinds import PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, POD, RESOURCE_CLAIM, RESOURCE_SLICE
from bayplan.core.cluster.objects import version_of
from bayplan.core.config.loading import parse_configuration
from bayplan.core.config.profiles import build_profile
from bayplan.core.devices.allocations import ClaimAllocations
from bayplan.core.versions import OLDEST, VERSIONS, gates_of, with_gangs
from bayplan.insight import Insight, Snapshot
from bayplan.testing.in_memory import load, stored
from bayplan.testing.virtual_time import VirtualTime
from bayplan_devcluster.controllers.csi_provisioner import CsiProvisioner

MOST_ATTEMPTS = 12
"""Of a pod within QUIET seconds, for the arrival of other members, for preemption and for volumes that appear."""


def configuration(form):
    plugins = {"multiPoint": {"enabled": [{"name": name} for name in PLUGINS[form]]}}
    if form == LABELS:
        plugins["queueSort"] = {"enabled": [{"name": "Coscheduling"}], "disabled": [{"name": "*"}]}
    version = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    return parse_configuration({**version, "profiles": [{"plugins": plugins}]})


def seeds(start, count):
    return range(start, start + int(os.environ.get("BAYPLAN_TRUTH_CLUSTERS", count)))


def asked(objects, form, version=OLDEST):
    insight = Insight(Snapshot.of(objects), configuration(form), gates=with_gangs(gates_of(version)))
    insight.world.rng = FirstChoice()
    return insight


def really(objects, unit, form, least, version=OLDEST):
    """What a scheduler does with a gang. Returns the nodes of the pods that are left, after checking the invariants."""

    async def story():
        profile = configuration(form).profiles[0]
        build = partial(build_profile, profile, gates=with_gangs(gates_of(version)))
        async with running(objects, CsiProvisioner, build=build) as (client, scheduler):
            await asyncio.sleep(QUIET)
            load(client.server, *unit)
            await asyncio.sleep(QUIET)
            attempts = {queued.uid: queued.attempts for queued in scheduler.queue}
            assert all(number <= MOST_ATTEMPTS for number in attempts.values()), attempts
            await asyncio.sleep(2 * QUIET)
            if version == OLDEST or form == LABELS:  # PodGroups of 1.37 are retried after each backoff
                assert attempts == {queued.uid: queued.attempts for queued in scheduler.queue}, "endless retry"
            check_nothing_is_reserved(scheduler)
            check_written(client.server, least)
            return {pod["metadata"]["name"]: pod["spec"].get("nodeName") for pod in stored(client.server, POD)}

    with asyncio.Runner(loop_factory=VirtualTime) as runner:
        return runner.run(story())


def check_nothing_is_reserved(scheduler):
    state = scheduler.state
    assert state.assumed_count == 0
    assert len(scheduler.waiting) == 0
    assert scheduler.queue.pending_pods().in_flight == 0
    assert not state.objects[RESOURCE_CLAIM].view(ClaimAllocations)._in_flight
    for kind in (RESOURCE_CLAIM, PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM):
        store = state.objects[kind]
        assert [key for key in store if version_of(store[key]) != version_of(store.known(key))] == []


def check_written(server, least):
    """All or none of a gang is bound, each member where its devices and volumes are, and no device is taken twice."""
    pods = {pod["metadata"]["name"]: pod for pod in stored(server, POD)}
    members = [pod for name, pod in pods.items() if not name.startswith("old")]
    bound = [pod for pod in members if pod["spec"].get("nodeName")]
    assert not bound or len(bound) >= least, f"{len(bound)} of {least} are bound"
    claims, volumes = stored(server, RESOURCE_CLAIM), stored(server, PERSISTENT_VOLUME)
    allocated = [claim for claim in claims if (claim.get("status") or {}).get("allocation")]
    taken = [volume for volume in volumes if volume["spec"].get("claimRef")]
    nodes_selected = [
        each
        for each in stored(server, PERSISTENT_VOLUME_CLAIM)
        if "volume.kubernetes.io/selected-node" in (each["metadata"].get("annotations") or {})
    ]
    if not bound:
        assert (allocated, taken, nodes_selected) == ([], [], []), "something was written for a gang that does not fit"
    for claim in allocated:
        users = [pods[each["name"]] for each in claim["status"].get("reservedFor") or ()]
        results = claim["status"]["allocation"]["devices"]["results"]
        for user in users:
            assert {result["pool"].partition("-")[0] for result in results} == {user["spec"]["nodeName"]}
    check_devices(allocated, stored(server, RESOURCE_SLICE))
    check_volumes(
        bound, {claim["metadata"]["name"]: claim for claim in stored(server, PERSISTENT_VOLUME_CLAIM)}, volumes
    )


def check_devices(allocated, slices):
    devices = {
        (each["spec"]["pool"]["name"], device["name"]): device
        for each in slices
        for device in each["spec"].get("devices") or ()
    }
    uses, memory = Counter(), Counter()
    for claim in allocated:
        for result in claim["status"]["allocation"]["devices"]["results"]:
            key = result["pool"], result["device"]
            uses[key] += 1
            memory[key] += quantity.parse((result.get("consumedCapacity") or {}).get("memory", "0"))
    slots = Counter()
    for key, number in uses.items():
        device = devices[key]
        if device.get("allowMultipleAllocations"):
            assert memory[key] <= quantity.parse(device["capacity"]["memory"]["value"])
        else:
            assert number == 1, f"{key} is allocated {number} times"
        for counters in device.get("consumesCounters") or ():
            slots[key[0]] += int(counters["counters"]["slots"]["value"])
    for each in slices:
        for counters in each["spec"].get("sharedCounters") or ():
            assert slots[each["spec"]["pool"]["name"]] <= int(counters["counters"]["slots"]["value"])


def check_volumes(bound, claims, volumes):
    by_claim = {volume["spec"]["claimRef"]["name"]: volume for volume in volumes if volume["spec"].get("claimRef")}
    assert len(by_claim) == sum(bool(volume["spec"].get("claimRef")) for volume in volumes)
    users = Counter()
    for pod in bound:
        for volume in pod["spec"].get("volumes") or ():
            name = volume["persistentVolumeClaim"]["claimName"]
            users[name] += 1
            assert claims[name]["spec"]["volumeName"] == by_claim[name]["metadata"]["name"]
            terms = by_claim[name]["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
            assert pod["spec"]["nodeName"] in terms[0]["matchExpressions"][0]["values"]
    for name, number in users.items():
        assert number == 1 or "ReadWriteOncePod" not in claims[name]["spec"]["accessModes"]


GANGS = Path(__file__).parent.parent / "data" / "gangs"
NO_VOLUME = "node(s) didn't find available persistent volumes to bind"


def gang_of(name, form):
    """The cluster and the gang of a file in tests/data/gangs, in one of the forms."""
    documents = list(yaml.safe_load_all((GANGS / f"{name}.yaml").read_text(encoding="utf-8")))
    cluster, members = [], []
    for document in documents:
        if document["kind"] == "Pod":
            metadata, spec = document["metadata"], document["spec"]
            metadata |= {"namespace": "default", "uid": metadata["name"], "labels": {}}
            spec["terminationGracePeriodSeconds"] = 0
            if form == LABELS:
                metadata["labels"] = gang_labels(2)
            else:
                spec["schedulingGroup"] = {"podGroupName": "crew"}
            members.append(document)
        elif document["kind"] != "PodGroup":
            cluster.append(document)
            if document["kind"] == "PersistentVolume":
                document["status"] = {"phase": "Available"}
    group = [] if form == LABELS else [GangMaker(0, form).group(2, 0)]
    return cluster, [*members, *group]


@pytest.mark.parametrize("form", [KUBERNETES, LABELS])
@cases(
    "name, nodes, message",
    {
        "a claim each, one device on each node": ("own-claims", ["big", "small"], ""),
        "a claim each, one volume": (
            "one-volume",
            [None, None],
            f"gang crew: 1 of 2 members fit; the next one: 0/1 nodes are available: 1 {NO_VOLUME}.",
        ),
    },
)
def test_gangs_of_reports(name, form, nodes, message):
    cluster, unit = gang_of(name, form)

    answer = asked(cluster, form).fit(unit)

    assert [each.node for each in answer.pods] == nodes
    assert not message or {each.message for each in answer.pods} == {message}
    assert really(cluster, unit, form, 2) == dict(zip(["w-0", "w-1"], nodes, strict=True))


def test_a_gated_member_is_named():
    cluster, unit = gang_of("gated-member", KUBERNETES)
    insight = asked([*cluster, *unit], KUBERNETES)
    pod = insight.world.pending["default/w-0"]

    plan = insight.world.attempt(insight.world.unit_of(pod))

    assert plan.message == "gang crew: 1 of 2 members: w-1 waits for the scheduling gate acme.io/quota"
    assert plan.shortfall is not None
    assert (plan.shortfall.fitting, plan.shortfall.needed, plan.shortfall.next) == (0, 2, None)
    assert [member.name for member in plan.shortfall.gang.gated] == ["w-1"]


def test_the_failing_member_is_named_with_its_reasons():
    cluster, unit = gang_of("one-volume", KUBERNETES)
    insight = asked([*cluster, *unit], KUBERNETES)
    pod = insight.world.pending["default/w-0"]

    shortfall = insight.world.attempt(insight.world.unit_of(pod)).shortfall

    assert (shortfall.fitting, shortfall.needed, shortfall.next.pod.name) == (1, 2, "w-1")
    assert shortfall.next.diagnosis.status_of("n1").reasons == (NO_VOLUME,)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("form", [KUBERNETES, IN_ONE_ZONE, LABELS])
@pytest.mark.parametrize("seed", seeds(0, 10))
def test_a_gang_is_bound_whole_or_waits_whole(seed, form, version):
    make = GangMaker(seed, form)
    cluster, unit = make.cluster(), make.gang()

    foretold = {each.pod.partition("/")[2]: each.node for each in asked(cluster, form, version).fit(unit).pods}

    nodes = really(cluster, unit, form, len(foretold), version)
    assert {name: node for name, node in nodes.items() if "crew" in name} == foretold


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("form", [KUBERNETES, AS_A_WHOLE, LABELS])
@pytest.mark.parametrize("seed", seeds(1000, 6))
def test_a_gang_that_preempts_is_bound_whole_or_waits_whole(seed, form, version):
    make = GangMaker(seed, form)
    cluster, unit = make.cluster(occupied=True), make.gang(priority=PRIORITY)

    answer = asked(cluster, form, version).fit(unit)

    nodes = really(cluster, unit, form, len(answer.pods), version)
    foretold = {each.pod.partition("/")[2]: each.node for each in answer.pods}
    assert {name: node for name, node in nodes.items() if "crew" in name} == foretold
    victims = {victim.partition("/")[2] for each in answer.pods for victim in each.victims}
    assert {each["metadata"]["name"] for each in cluster if each["kind"] == "Pod"} - nodes.keys() == victims


@pytest.mark.parametrize("seed", seeds(2000, 40))
def test_a_gang_is_placed_as_if_its_members_were_bound_one_after_the_other(seed):
    """The slow reference: each member by itself, bound with its claims before the next one is decided."""
    make = GangMaker(seed, LABELS, capacities=False)
    cluster, unit = make.cluster(), make.gang()
    alone = [{**each, "metadata": {**each["metadata"], "labels": {}}} for each in unit]

    together = {each.pod: each.node for each in asked(cluster, LABELS).fit(unit).pods}
    expected = {each.pod: each.node for each in asked(cluster, LABELS).fit(alone).pods}

    assert together == (expected if all(expected.values()) else dict.fromkeys(expected))

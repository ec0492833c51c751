"""Facts about a pending pod in addition to its verdicts: gates, gangs, claims, nominations."""

from __future__ import annotations

from collections.abc import Iterator

from bayplan.answers.insight.answers import listed
from bayplan.answers.insight.nodes import no_node, node_of, pods_on
from bayplan.answers.insight.questions.blockers import gates_of
from bayplan.answers.insight.questions.claim_templates import template_notes
from bayplan.answers.insight.questions.gangs import gang_notes
from bayplan.answers.insight.questions.held_room import held_room_notes
from bayplan.answers.insight.questions.progress import NOMINATED, chosen_node, recorded
from bayplan.answers.simulation.results import Result
from bayplan.answers.simulation.world import World
from bayplan.core.api.kinds import NODE, PERSISTENT_VOLUME_CLAIM, RESOURCE_CLAIM, STORAGE_CLASS
from bayplan.core.api.pod_conditions import GATED
from bayplan.core.api.volumes import (
    SELECTED_NODE,
    WAIT_FOR_FIRST_CONSUMER,
    annotations_of,
    claim_name,
    class_of_claim,
    is_fully_bound,
)
from bayplan.core.api.well_known_labels import HOSTNAME
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.devices.claims import allocation_of, made_claim_names


def message_of(result: Result) -> str:
    """Return the text of the scheduler's event; for a pod with scheduling gates, that of its PodScheduled condition.

    The scheduler does not attempt a gated pod, so the API server writes that condition.
    """
    return str(GATED["message"]) if result.gated and result.pod.scheduling_gates else result.message


def notes_of(world: World, pod: PodInfo) -> list[str]:
    """Return what else there is to know of a pending pod."""
    notes = [
        f"gated by {gate.plugin}: {gate.text}; the scheduler does not attempt the pod" for gate in gates_of(world, pod)
    ]
    if pod.terminating:
        notes.append("the pod is being deleted, so the scheduler skips it")
    nominated = pod.nominated_node_name
    if nominated and node_of(world, nominated) is None:
        missing = no_node(nominated, world.state.objects[NODE])
        notes.append(f"nominated to node {nominated}, but {missing}: the scheduler chooses again at its next attempt")
    elif nominated and chosen_node(world, pod) is None:
        leaving = [other.key for other in pods_on(world, nominated) if other.terminating]
        waits = f"waits for {listed(leaving)} to terminate" if leaving else NOMINATED
        notes.append(f"nominated to node {nominated}; it {waits}")
    notes += gang_notes(world, pod)
    notes += _claim_notes(world, pod)
    notes += held_room_notes(world, pod)
    return notes


def bypassing_notes(world: World, pod: PodInfo) -> Iterator[str]:
    """Yield the claims of a pod with a node that wait until a scheduler chooses it, which none does any more."""
    condition = recorded(pod)
    if condition is not None and condition.status == "True":
        return
    for volume in pod.volumes:
        name = claim_name(pod.name, volume)
        claim = world.state.objects[PERSISTENT_VOLUME_CLAIM].get(f"{pod.namespace}/{name}")
        if claim is None or is_fully_bound(claim) or annotations_of(claim).get(SELECTED_NODE):
            continue
        storage_class = world.state.objects[STORAGE_CLASS].get(class_of_claim(claim))
        if storage_class is not None and storage_class.volumeBindingMode == WAIT_FOR_FIRST_CONSUMER:
            yield (
                f"persistentvolumeclaim {name} is not bound and has no selected node, and gets none: the pod has its "
                "node by spec.nodeName, without a scheduler's decision, and its class waits for one. Use nodeSelector "
                f"{HOSTNAME}={pod.node_name} in place of nodeName"
            )


def _claim_notes(world: World, pod: PodInfo) -> Iterator[str]:
    """The claims of the pod that do not exist, or are not bound or allocated yet."""
    claims = world.state.objects[PERSISTENT_VOLUME_CLAIM]
    for volume in pod.volumes:
        name = claim_name(pod.name, volume)
        claim = claims.get(f"{pod.namespace}/{name}")
        if name is not None and claim is None:
            yield f"persistentvolumeclaim {name} does not exist"
        elif claim is not None and not is_fully_bound(claim):
            yield f"persistentvolumeclaim {name} is not bound; its storage class is {class_of_claim(claim) or 'unset'}"
    yield from template_notes(world, pod)
    for name in made_claim_names(pod.object):
        device_claim = world.state.objects[RESOURCE_CLAIM].get(f"{pod.namespace}/{name}")
        if device_claim is None:
            yield f"resourceclaim {name} does not exist"
        elif allocation_of(device_claim) is None:
            yield f"resourceclaim {name} is not allocated"

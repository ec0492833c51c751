"""The identity of a StatefulSet's pods: names, ordinals, claims and revisions, without effects.

Mirrors pkg/controller/statefulset/stateful_set_utils.go.
"""

from __future__ import annotations

import re

from lightkube.models.core_v1 import PersistentVolumeClaimVolumeSource, PodTemplateSpec, Volume
from lightkube.models.meta_v1 import ObjectMeta

from bayplan.core.api.kinds import STATEFUL_SET
from bayplan.core.api.served import Metadata, PersistentVolumeClaim, Pod, StatefulSet
from bayplan.core.expansion import pods
from bayplan.core.expansion.pods import REVISION_HASH

POD_NAME = "statefulset.kubernetes.io/pod-name"
POD_INDEX = "apps.kubernetes.io/pod-index"

_NAME = re.compile(r"(.*)-([0-9]+)", re.DOTALL)
_LARGEST_ORDINAL = 2**31 - 1


def parent_and_ordinal(pod_name: str) -> tuple[str, int]:
    """The StatefulSet's name and the ordinal in a pod's name; ("", -1) for a name of another form."""
    match = _NAME.fullmatch(pod_name)
    if match is None or int(match[2]) > _LARGEST_ORDINAL:
        return "", -1
    return match[1], int(match[2])


def ordinal(pod: Pod) -> int:
    """The pod's ordinal, -1 for none."""
    return parent_and_ordinal(pod.metadata.name)[1]


def is_member(stateful_set: StatefulSet, pod: Pod) -> bool:
    """Whether the pod's name is one of the StatefulSet's."""
    return bool(parent_and_ordinal(pod.metadata.name)[0] == stateful_set.metadata.name)


def ordinals(stateful_set: StatefulSet) -> range:
    """The ordinals that the StatefulSet wants."""
    spec = stateful_set.spec
    start = (spec.ordinals.start if spec.ordinals else None) or 0
    return range(start, start + replicas(stateful_set))


def replicas(stateful_set: StatefulSet) -> int:
    """The number of pods that the StatefulSet wants."""
    wanted = stateful_set.spec.replicas
    return 1 if wanted is None else wanted


def revision_of(pod: Pod) -> str:
    """The name of the revision that the pod was made from, "" for none."""
    name: str = (pod.metadata.labels or {}).get(REVISION_HASH, "")
    return name


def partition(stateful_set: StatefulSet) -> int:
    """How many pods, from the first, a rolling update leaves alone."""
    strategy = stateful_set.spec.updateStrategy
    rolling = strategy.rollingUpdate if strategy else None
    return (rolling.partition if rolling else None) or 0


def is_rolling_update(stateful_set: StatefulSet) -> bool:
    """Whether the controller replaces pods of old revisions by itself."""
    strategy = stateful_set.spec.updateStrategy
    return strategy is None or strategy.type != "OnDelete"


def is_ordered(stateful_set: StatefulSet) -> bool:
    """Whether pods are created and deleted one after the other."""
    return bool(stateful_set.spec.podManagementPolicy != "Parallel")


def keeps_revision(stateful_set: StatefulSet, number: int) -> bool:
    """Whether a new pod with this ordinal is made from the current revision, and not from the update revision."""
    strategy = stateful_set.spec.updateStrategy
    start = ordinals(stateful_set).start
    if strategy is not None and strategy.rollingUpdate is not None:
        return bool(number < start + partition(stateful_set))
    current = (stateful_set.status.currentReplicas if stateful_set.status else None) or 0
    return is_rolling_update(stateful_set) and bool(number < start + current)


def new_pod(stateful_set: StatefulSet, template: PodTemplateSpec, revision: str, number: int) -> Pod:
    """The pod with this ordinal, as it is created."""
    pod = pods.from_template(template, STATEFUL_SET, stateful_set)
    name = f"{stateful_set.metadata.name}-{number}"
    pod.metadata.generateName = None
    pod.metadata.name = name
    pod.metadata.namespace = stateful_set.metadata.namespace
    pod.metadata.labels = {**(pod.metadata.labels or {}), **identity_labels(name), REVISION_HASH: revision}
    pod.spec.hostname = name
    pod.spec.subdomain = stateful_set.spec.serviceName or None
    pod.spec.volumes = volumes(stateful_set, pod) or None
    return pod


def identity_labels(pod_name: str) -> dict[str, str]:
    """The labels that name a pod and its ordinal."""
    return {POD_NAME: pod_name, POD_INDEX: str(parent_and_ordinal(pod_name)[1])}


def identity_matches(pod: Pod) -> bool:
    """Whether a member has the label with its name."""
    return bool((pod.metadata.labels or {}).get(POD_NAME) == pod.metadata.name)


def storage_matches(stateful_set: StatefulSet, pod: Pod) -> bool:
    """Whether the pod mounts the claims of its ordinal."""
    mounted = {
        one.name: one.persistentVolumeClaim.claimName for one in pod.spec.volumes or () if one.persistentVolumeClaim
    }
    return all(mounted.get(template) == name for template, name in claim_names(stateful_set, pod).items())


def volumes(stateful_set: StatefulSet, pod: Pod) -> list[Volume]:
    """The pod's volumes; those of the claim templates replace volumes of the same name."""
    names = claim_names(stateful_set, pod)
    claimed = [
        Volume(name=template, persistentVolumeClaim=PersistentVolumeClaimVolumeSource(claimName=name))
        for template, name in names.items()
    ]
    return [*claimed, *(one for one in pod.spec.volumes or () if one.name not in names)]


def claim_templates(stateful_set: StatefulSet) -> dict[str, PersistentVolumeClaim]:
    """The claim templates by name."""
    templates = stateful_set.spec.volumeClaimTemplates or ()
    return {(one.metadata.name if one.metadata else None) or "": one for one in templates}


def claim_names(stateful_set: StatefulSet, pod: Pod) -> dict[str, str]:
    """The name of the pod's claim for each claim template."""
    number = ordinal(pod)
    return {name: f"{name}-{stateful_set.metadata.name}-{number}" for name in claim_templates(stateful_set)}


def new_claims(stateful_set: StatefulSet, pod: Pod) -> list[PersistentVolumeClaim]:
    """The claims of a pod, as they are created: with the template's metadata and the labels of the selector."""
    selected = stateful_set.spec.selector.matchLabels or {}
    names = claim_names(stateful_set, pod)
    claims = []
    for template_name, template in claim_templates(stateful_set).items():
        given = template.metadata or ObjectMeta()
        metadata = Metadata(
            name=names[template_name],
            namespace=stateful_set.metadata.namespace,
            labels={**(given.labels or {}), **selected} or None,
            annotations=given.annotations,
            finalizers=given.finalizers,
        )
        claims.append(PersistentVolumeClaim(metadata=metadata, spec=template.spec))
    return claims

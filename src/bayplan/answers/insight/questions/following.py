"""What controllers do after a change of the cluster, besides replacing pods.

Pods of tainted devices are evicted, DaemonSets follow their nodes, and workloads that a quota kept from having all of
their pods create those that it allows now. A test compares the answers with what the embedded cluster does
(tests/insight/test_controllers_truth.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

from bayplan.answers.insight.owners import WORKLOADS
from bayplan.answers.insight.questions.device_evictions import DeviceEvictions
from bayplan.answers.insight.questions.draft import Draft
from bayplan.answers.simulation.owners import controller_of, references_in
from bayplan.answers.snapshots import Snapshot
from bayplan.core.api.kinds import (
    CRON_JOB,
    DAEMON_SET,
    DEVICE_TAINT_RULE,
    JOB,
    NODE,
    POD,
    REPLICA_SET,
    RESOURCE_CLAIM,
    RESOURCE_QUOTA,
    RESOURCE_SLICE,
    Kind,
)
from bayplan.core.api.objects import convert, decode
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.foundations.lazy import on_use

with on_use():
    from bayplan.answers.insight import manifests
    from bayplan.core.expansion import daemon_pods


if TYPE_CHECKING:
    from bayplan.core.api.served import Pod


def let_controllers_follow(draft: Draft, before: Snapshot) -> None:
    """Change a draft as controllers do after its changes. `before`: the snapshot without them."""
    _evict_from_devices(draft, before)
    _follow_nodes(draft, before)
    _use_quotas(draft, before)
    if draft.coming and not draft.coming.refused:
        ended = draft.after(draft.coming.ended(draft.snapshot))
        known = ended.snapshot.of_kind(POD)
        _use_quotas(ended, before)
        new = [ended.snapshot.document(POD, key) for key in ended.snapshot.of_kind(POD) if key not in known]
        draft.coming.later = [pod for pod in new if pod is not None]


# Devices


def _evict_from_devices(draft: Draft, before: Snapshot) -> None:
    """Evict the pods whose devices have new NoExecute taints that their claims don't tolerate for ever."""
    kinds = RESOURCE_SLICE, DEVICE_TAINT_RULE
    if not draft.world.state.objects[RESOURCE_CLAIM] or all(
        before.of_kind(kind) is draft.snapshot.of_kind(kind) for kind in kinds
    ):
        return
    old, new = (DeviceEvictions(draft.world, snapshot) for snapshot in (before, draft.snapshot))
    pods = draft.world.state.objects[POD].values()
    known = draft.snapshot.of_kind(POD)
    doomed = [pod for pod in pods if pod.node_name and pod.key in known and not pod.terminating]
    draft.displace([pod for pod in doomed if new.concern(pod) and not old.concern(pod)])


# Nodes


def _follow_nodes(draft: Draft, before: Snapshot) -> None:
    """Let DaemonSets get pods on nodes that they run on now, and lose those on nodes where they no longer may stay."""
    old, new = before.of_kind(NODE), draft.snapshot.of_kind(NODE)
    changed = {name: decode(NODE.type, raw) for name, raw in new.items() if old.get(name) is not raw}
    sets = draft.snapshot.of_kind(DAEMON_SET)
    if not changed or not sets:
        return

    pods = _daemon_pods(draft.snapshot)
    for key in sets:
        document = draft.snapshot.document(DAEMON_SET, key)
        assert document is not None
        namespace, _, name = key.partition("/")
        own = pods.get((namespace, name), {})
        eligible = daemon_pods.Eligibility.of(convert(DAEMON_SET.type, document))
        verdicts = {node: eligible.judge(obj) for node, obj in changed.items()}
        leaving = (pod for node, verdict in verdicts.items() if not verdict.stay for pod in own.get(node, ()))
        draft.remove([pod for pod in leaving if not pod.terminating])  # one that hangs stays until it is ended
        wanted = [node for node, verdict in verdicts.items() if verdict.run and node not in own]
        if wanted:
            draft.add(draft.manifests().daemon_pods(document, wanted))


def _daemon_pods(snapshot: Snapshot) -> Mapping[tuple[str, str], Mapping[str, list[PodInfo]]]:
    """The pods of each DaemonSet by node."""
    found: dict[tuple[str, str], dict[str, list[PodInfo]]] = {}
    for raw in snapshot.of_kind(POD).values():
        if b"DaemonSet" not in raw:
            continue
        try:
            pod = PodInfo.from_raw(raw)
        except ValueError:
            continue  # it is left out of every answer, with a warning
        owner, obj = controller_of(pod), cast("Pod", pod.object)
        node = daemon_pods.target_node(obj)
        if owner is not None and owner.kind == DAEMON_SET.kind and node is not None:
            found.setdefault((pod.namespace, owner.name), {}).setdefault(node, []).append(pod)
    return found


# Quotas


def _use_quotas(draft: Draft, before: Snapshot) -> None:
    """Let workloads create the pods that a quota refused before, and allows now."""
    namespaces = {key.partition("/")[0] for key in before.of_kind(RESOURCE_QUOTA)}
    for namespace in sorted(namespaces):
        if not _may_allow_more(before, draft.snapshot, namespace):
            continue

        refused = manifests.Manifests(before)
        allowed = draft.manifests()
        for kind, document in list(_workloads(draft.snapshot, namespace)):
            old = before.document(kind, f"{namespace}/{document['metadata']['name']}")
            lacked = refused.missing(kind, old).refused_pods if old is not None else []
            if lacked:
                more = allowed.missing(kind, document)
                more.pods[len(lacked) :] = []
                draft.add(more)


def _may_allow_more(before: Snapshot, now: Snapshot, namespace: str) -> bool:
    """Whether a quota of a namespace, or a pod that it counts, is another one or gone."""
    prefix = f"{namespace}/"
    return any(
        raw is not now.of_kind(kind).get(key)
        for kind in (RESOURCE_QUOTA, POD)
        if before.of_kind(kind) is not now.of_kind(kind)
        for key, raw in before.of_kind(kind).items()
        if key.startswith(prefix)
    )


def _workloads(snapshot: Snapshot, namespace: str) -> Iterator[tuple[Kind, dict[str, Any]]]:
    """The workloads of a namespace that no other one makes."""
    for kind in WORKLOADS:
        if kind is CRON_JOB:
            continue
        for key, raw in sorted(snapshot.of_kind(kind).items()):
            controlled = any(owner.controller for owner in references_in(raw))
            if key.startswith(f"{namespace}/") and not (controlled and kind in {REPLICA_SET, JOB}):
                document = snapshot.document(kind, key)
                assert document is not None
                yield kind, document

"""SySched: prefers nodes whose pods may make about the same system calls, so that none is exposed to calls of others.

Mirrors pkg/sysched/sysched.go of scheduler-plugins. The calls of a pod are those of its seccomp profiles, as the
Security Profiles Operator has them.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from bayplan.plugin import MAX_NODE_SCORE, CycleState, Handle, NodeColumn, NodeInfo, Nodes, Plugin, PluginArgs, PodInfo
from bayplan_plugins.go_arithmetic import Scores

_PROFILES = "seccompprofiles.v1beta1.security-profiles-operator.x-k8s.io"
_ANNOTATION = "seccomp.security.alpha.kubernetes.io"
_ALLOWED = frozenset({"SCMP_ACT_ALLOW", "SCMP_ACT_LOG"})
_SPEC, _POD = (__name__, "spec"), (__name__, "pod")
_MOST_KEPT = 20_000
_SMALL = 2**31 // (MAX_NODE_SCORE + 1)
Profiles = tuple[str, ...]
"""The keys of profiles: `namespace/name`."""
Calls = frozenset[str]


class SySchedArgs(PluginArgs, kw_only=True):
    """Arguments of SySched: the profile of pods that have none."""

    defaultProfileNamespace: str = "default"
    defaultProfileName: str = "all-syscalls"


class SySched(Plugin):
    """Scores a node by the calls that its pods, and the new one, would not make themselves but others there may."""

    name = "SySched"
    arguments = SySchedArgs
    permissions = (
        {
            "apiGroups": ["security-profiles-operator.x-k8s.io"],
            "resources": ["seccompprofiles"],
            "verbs": ["list", "watch"],
        },
    )

    def __init__(self, args: SySchedArgs, handle: Handle) -> None:
        self._profiles = handle.objects(_PROFILES)
        self._default = (f"{args.defaultProfileNamespace}/{args.defaultProfileName}",)
        self._version = -1
        self._calls: dict[Profiles, Calls] = {}
        self._unions: list[Calls] = []
        """The distinct sets of calls that nodes have."""
        self._code_of: dict[Calls, int] = {}
        self._codes = NodeColumn(self._code, np.int64)
        """For each node, the index of its set in `_unions`."""
        self._sums = NodeColumn(lambda node: sum(len(self._calls_of(pod)) for pod in node.pods), np.int64)
        self._shared: dict[Calls, list[int]] = {}
        """How many calls a pod's set has in common with each of `_unions`, as far as that was asked for."""

    def sign(self, pod: PodInfo) -> Hashable:
        """Return the names of the pod's profiles."""
        return profiles_of(pod)

    def rests_on(self, pod: PodInfo, nodes: Nodes) -> Hashable:
        """Return the version of the profiles."""
        return self._profiles.version

    def score_nodes(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Scores:
        """Count the calls of others that the new pod, and each pod of a node, would be exposed to."""
        self._update()
        calls = self._calls_of(pod)
        if not calls:
            return np.zeros(len(nodes), dtype=np.int64)
        codes, sums = self._codes.of(nodes), self._sums.of(nodes)
        union = np.array([len(each) for each in self._unions], dtype=np.int64)[codes]
        common = np.array(self._in_common(calls), dtype=np.int64)[codes]
        pods = nodes.pod_count
        # A pod's own calls are among those of its node, so that only sizes count.
        exposed = (union - common) + pods * (union + len(calls) - common) - sums
        return np.where(pods > 0, exposed, 0)

    def score(self, cycle: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        """Score one node: as `score_nodes`."""
        self._update()
        calls, pods = self._calls_of(pod), node.pod_count
        if not calls or not pods:
            return 0
        code = int(self._codes.at(node))
        union, common = len(self._unions[code]), self._in_common(calls)[code]
        return int((union - common) + pods * (union + len(calls) - common) - self._sums.at(node))

    def normalize_scores(self, cycle: CycleState, pod: PodInfo, scores: Scores, nodes: Nodes) -> Scores:
        """Scale the scores so that the highest one becomes 0, and a score of 0 becomes 100."""
        highest = scores.max(initial=1)
        if highest < _SMALL:  # small integers are divided faster
            scores, highest = scores.astype(np.int32), np.int32(highest)
        shares: Scores = (scores * MAX_NODE_SCORE // highest).astype(np.int64)
        return MAX_NODE_SCORE - shares

    def _update(self) -> None:
        """Read the profiles again if they have changed, or if what is kept has become too much."""
        if self._version != self._profiles.version or max(len(self._unions), len(self._calls)) > _MOST_KEPT:
            self._version = self._profiles.version
            for kept in (self._calls, self._unions, self._code_of, self._shared):
                kept.clear()
            self._codes.again()
            self._sums.again()

    def _calls_of(self, pod: PodInfo) -> Calls:
        """The calls of a pod's profiles, or those of the default profile if these have none."""
        names = profiles_of(pod)
        found = self._calls.get(names)
        if found is None:
            found = frozenset().union(*map(self._read, names)) or frozenset().union(*map(self._read, self._default))
            self._calls[names] = found
        return found

    def _read(self, key: str) -> Calls:
        return frozenset(calls_of(self._profiles.get(key)))

    def _code(self, node: NodeInfo) -> int:
        union = frozenset().union(*{self._calls_of(pod) for pod in node.pods})
        if union not in self._code_of:
            self._code_of[union] = len(self._unions)
            self._unions.append(union)
        return self._code_of[union]

    def _in_common(self, calls: Calls) -> list[int]:
        known = self._shared.setdefault(calls, [])
        known += [len(calls & union) for union in self._unions[len(known) :]]
        return known


def calls_of(profile: Mapping[str, Any] | None) -> Iterator[str]:
    """Yield the calls that a SeccompProfile allows, or logs. Fields of a wrong type are left out."""
    spec = profile.get("spec") if profile is not None else None
    rules = spec.get("syscalls") if isinstance(spec, Mapping) else None
    for rule in rules if isinstance(rules, list) else ():
        if isinstance(rule, Mapping) and str(rule.get("action")) in _ALLOWED and isinstance(rule.get("names"), list):
            yield from map(str, rule["names"])


def profiles_of(pod: PodInfo) -> Profiles:
    """Return the profiles that a pod names, in its spec and in an annotation."""
    found: Profiles | None = pod.cache.get(_POD)
    if found is None:
        annotations = sorted(key for key in pod.annotations if _ANNOTATION in key)
        annotated = [profile_at(pod.annotations[key]) for key in annotations[:1]]
        found = tuple(dict.fromkeys([*pod.of_spec(_SPEC, _in_spec), *filter(None, annotated)]))
        pod.cache[_POD] = found
    return found


def profile_at(path: str) -> str:
    """Return the key of the profile at a path such as `operator/<namespace>/<name>.json`; "" for another path."""
    folder, _, file = path.rpartition("/")
    namespace, name = folder.rpartition("/")[2], file.rpartition(".")[0] if "." in file else file
    return f"{namespace}/{name}" if namespace and name else ""


def _in_spec(pod: PodInfo) -> Profiles:
    contexts: Iterable[Any] = [pod.spec.securityContext, *(each.securityContext for each in pod.spec.containers or ())]
    profiles = [context.seccompProfile for context in contexts if context is not None]
    paths = [each.localhostProfile for each in profiles if each is not None and each.type == "Localhost"]
    return tuple(key for path in paths if path and (key := profile_at(path)))

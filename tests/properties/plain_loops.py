"""InterPodAffinity and PodTopologySpread as loops over nodes and pods, written for reading.

They work on manifests (dictionaries), so that they share no code with the plugins.
"""

import copy
import math
from collections import defaultdict

HOSTNAME = "kubernetes.io/hostname"
TOO_FAR = "node(s) didn't match pod affinity rules"
TOO_NEAR = "node(s) didn't match pod anti-affinity rules"
UNWELCOME = "node(s) didn't satisfy existing pods anti-affinity rules"
UNEVEN = "node(s) didn't match pod topology spread constraints"
NO_LABEL = "node(s) didn't match pod topology spread constraints (missing required label)"


class PlainCluster:
    """Nodes, each with its pods, and the labels of namespaces: all as manifests."""

    def __init__(self, nodes, pods, namespaces):
        self.nodes = nodes
        self.pods = pods
        self.namespaces = namespaces

    def on(self, node):
        return [pod for pod in self.pods if pod["spec"]["nodeName"] == name(node)]


def name(manifest):
    return manifest["metadata"]["name"]


def labels(manifest):
    return manifest["metadata"].get("labels") or {}


def namespace(manifest):
    return manifest["metadata"]["namespace"]


def selects(selector, of):
    """Whether a LabelSelector matches labels. None matches nothing, and an empty selector everything."""
    if selector is None:
        return False
    for key, value in (selector.get("matchLabels") or {}).items():
        if of.get(key) != value:
            return False
    for term in selector.get("matchExpressions") or ():
        key, values = term["key"], term.get("values") or ()
        met = {
            "In": key in of and of[key] in values,
            "NotIn": key not in of or of[key] not in values,
            "Exists": key in of,
            "DoesNotExist": key not in of,
        }
        if not met[term["operator"]]:
            return False
    return True


# InterPodAffinity


def terms(pod, kind, strength):
    """(term, weight) of one kind of affinity."""
    rules = (pod["spec"].get("affinity") or {}).get(kind) or {}
    found = rules.get(f"{strength}DuringSchedulingIgnoredDuringExecution") or ()
    return [(each, 1) if strength == "required" else (each["podAffinityTerm"], each["weight"]) for each in found]


def selects_pod(owner, term, other, cluster):
    """Whether an affinity term of `owner` selects another pod. An unknown namespace has no labels."""
    named, chosen = term.get("namespaces") or [], term.get("namespaceSelector")
    if not named and chosen is None:
        named = [namespace(owner)]
    of = cluster.namespaces.get(namespace(other), {})
    return (namespace(other) in named or selects(chosen, of)) and selects(term.get("labelSelector"), labels(other))


def selected_by_pending(pod, term, other, cluster):
    """Like `selects_pod`, but a namespace selector that no labels satisfy matches every namespace."""
    anywhere = selects(term.get("namespaceSelector"), {}) and selects(term.get("labelSelector"), labels(other))
    return anywhere or selects_pod(pod, term, other, cluster)


class AffinityCounts:
    """Pods by (topology key, value), as PreFilter counts them."""

    def __init__(self, pod, cluster):
        self.pod, self.cluster = pod, cluster
        self.near, self.away, self.kept_away = defaultdict(int), defaultdict(int), defaultdict(int)
        self.required = [term for term, _ in terms(pod, "podAffinity", "required")]
        self.required_anti = [term for term, _ in terms(pod, "podAntiAffinity", "required")]
        for node in cluster.nodes:
            for other in cluster.on(node):
                self.add(other, node, 1)
        self.skipped = not self.required and not self.required_anti and not any(self.kept_away.values())

    def add(self, other, node, sign):
        def count(counts, key):
            if key in labels(node):
                counts[key, labels(node)[key]] += sign

        if self.required and all(self.meets(term, other) for term in self.required):
            for term in self.required:
                count(self.near, term["topologyKey"])
        for term in self.required_anti:
            if self.meets(term, other):
                count(self.away, term["topologyKey"])
        for term, _ in terms(other, "podAntiAffinity", "required"):
            if selects_pod(other, term, self.pod, self.cluster):
                count(self.kept_away, term["topologyKey"])

    def meets(self, term, other):
        return selected_by_pending(self.pod, term, other, self.cluster)

    def verdict(self, node):
        of = labels(node)
        if any(term["topologyKey"] not in of for term in self.required):
            return TOO_FAR
        if any(self.near[term["topologyKey"], of[term["topologyKey"]]] <= 0 for term in self.required):
            no_match = not any(self.near.values())
            if not (no_match and all(self.meets(term, self.pod) for term in self.required)):
                return TOO_FAR
        for term in self.required_anti:
            key = term["topologyKey"]
            if key in of and self.away[key, of[key]] > 0:
                return TOO_NEAR
        if any(self.kept_away[key, value] > 0 for key, value in of.items()):
            return UNWELCOME
        return ""


def affinity_verdicts(pod, cluster, changes=None):
    """The rejection by node name, "" for a feasible node; None where the filter is skipped.

    `changes`: what-ifs by node name, as (added pods, removed pods). Each applies to its node alone.
    """
    counts = AffinityCounts(pod, cluster)
    if counts.skipped:
        return None
    verdicts = {}
    for node in cluster.nodes:
        what_if = copy.deepcopy(counts)
        added, removed = (changes or {}).get(name(node), ((), ()))
        for other in removed:
            what_if.add(other, node, -1)
        for other in added:
            what_if.add(other, node, 1)
        verdicts[name(node)] = what_if.verdict(node)
    return verdicts


def affinity_scores(pod, cluster, scored, hard_weight, *, ignore_existing):
    """The normalized scores of the `scored` nodes, by name; None where scoring is skipped."""
    own = [
        *((term, weight) for term, weight in terms(pod, "podAffinity", "preferred")),
        *((term, -weight) for term, weight in terms(pod, "podAntiAffinity", "preferred")),
    ]
    if ignore_existing and not own:
        return None
    worth = {}
    for node in cluster.nodes:
        for other in cluster.on(node):
            weighted = [(term, weight) for term, weight in own if selected_by_pending(pod, term, other, cluster)]
            of_other = [
                *((term, hard_weight) for term, _ in terms(other, "podAffinity", "required") if hard_weight > 0),
                *((term, weight) for term, weight in terms(other, "podAffinity", "preferred")),
                *((term, -weight) for term, weight in terms(other, "podAntiAffinity", "preferred")),
            ]
            weighted += [(term, weight) for term, weight in of_other if selects_pod(other, term, pod, cluster)]
            for term, weight in weighted:
                key = term["topologyKey"]
                if key in labels(node):
                    pair = key, labels(node)[key]
                    worth[pair] = worth.get(pair, 0) + weight
    if not worth:
        return None
    raw = {name(node): sum(worth.get(pair, 0) for pair in labels(node).items()) for node in scored}
    least, most = min(raw.values()), max(raw.values())
    return {each: int(100.0 * ((at - least) / (most - least))) if most > least else 0 for each, at in raw.items()}


# PodTopologySpread


def constraints(pod, action, defaults=()):
    """The constraints for one `whenUnsatisfiable`, with the pod's values of matchLabelKeys in their selectors."""
    found = []
    for each in pod["spec"].get("topologySpreadConstraints") or defaults:
        if each["whenUnsatisfiable"] != action:
            continue
        selector = copy.deepcopy(each.get("labelSelector"))
        if selector is not None:
            for key in each.get("matchLabelKeys") or ():
                if key in labels(pod):
                    expression = {"key": key, "operator": "In", "values": [labels(pod)[key]]}
                    selector.setdefault("matchExpressions", []).append(expression)
        found.append({**each, "labelSelector": selector})
    return found


def counts_for(constraint, pod, node):
    """Whether a constraint's node policies include a node."""
    selected = all(labels(node).get(key) == value for key, value in (pod["spec"].get("nodeSelector") or {}).items())
    if constraint.get("nodeAffinityPolicy", "Honor") == "Honor" and not selected:
        return False
    return constraint.get("nodeTaintsPolicy", "Ignore") != "Honor" or all(
        any(tolerates(toleration, taint) for toleration in pod["spec"].get("tolerations") or ())
        for taint in node["spec"].get("taints") or ()
        if taint["effect"] in {"NoSchedule", "NoExecute"}
    )


def tolerates(toleration, taint):
    return toleration["operator"] == "Exists" and toleration["key"] == taint["key"]


def matching_pods(constraint, pod, node, cluster):
    """The number of pods of a node that count: none that is being deleted, and none for an empty selector."""
    selector = constraint["labelSelector"]
    if selector is not None and not (selector.get("matchLabels") or selector.get("matchExpressions")):
        return 0
    return sum(
        namespace(other) == namespace(pod)
        and "deletionTimestamp" not in other["metadata"]
        and selects(selector, labels(other))
        for other in cluster.on(node)
    )


def has_all(of, node):
    return all(each["topologyKey"] in labels(node) for each in of)


def spread_verdicts(pod, cluster, changes=None, defaults=()):
    """The rejection by node name, "" for a feasible node; None where the filter is skipped.

    `changes` as for `affinity_verdicts`; they count pods that are being deleted.
    """
    hard = constraints(pod, "DoNotSchedule", defaults)
    if not hard:
        return None
    verdicts = {}
    for node in cluster.nodes:
        added, removed = (changes or {}).get(name(node), ((), ()))
        verdicts[name(node)] = ""
        for constraint in hard:
            key = constraint["topologyKey"]
            if key not in labels(node):
                verdicts[name(node)] = NO_LABEL
                break
            counted = {}
            for each in cluster.nodes:
                if has_all(hard, each) and counts_for(constraint, pod, each):
                    value = labels(each)[key]
                    counted[value] = counted.get(value, 0) + matching_pods(constraint, pod, each, cluster)
            if has_all(hard, node) and counts_for(constraint, pod, node):
                for sign, others in ((1, added), (-1, removed)):
                    for other in others:
                        if namespace(other) == namespace(pod) and selects(constraint["labelSelector"], labels(other)):
                            counted[labels(node)[key]] += sign
            least = min(counted.values()) if len(counted) >= constraint.get("minDomains", 1) else 0
            itself = int(selects(constraint["labelSelector"], labels(pod)))
            if counted.get(labels(node)[key], 0) + itself - least > constraint["maxSkew"]:
                verdicts[name(node)] = UNEVEN
                break
    return verdicts


def spread_scores(pod, cluster, scored, defaults=(), *, system=False):
    """The normalized scores of the `scored` nodes, by name; None where scoring is skipped.

    `system`: the constraints are the built-in defaults, which don't require all topology labels on a node.
    """
    soft = constraints(pod, "ScheduleAnyway", defaults)
    if not soft:
        return None
    ignored = [] if system else [node for node in scored if not has_all(soft, node)]
    raw = {}
    for node in scored:
        total = 0.0
        for constraint in soft:
            key = constraint["topologyKey"]
            if key not in labels(node):
                continue
            if key == HOSTNAME:
                size, count = len(scored) - len(ignored), matching_pods(constraint, pod, node, cluster)
            else:
                size = len({labels(each).get(key, "") for each in scored if each not in ignored})
                count = sum(
                    matching_pods(constraint, pod, each, cluster)
                    for each in cluster.nodes
                    if labels(each).get(key, "") == labels(node)[key]
                    and (system or has_all(soft, each))
                    and counts_for(constraint, pod, each)
                )
            total += count * math.log(size + 2) + (constraint["maxSkew"] - 1)
        raw[name(node)] = math.floor(total + 0.5)
    for node in ignored:
        del raw[name(node)]
    least, most = min(raw.values(), default=0), max(raw.values(), default=0)
    scores = {each: 100 * (most + least - at) // most if most else 100 for each, at in raw.items()}
    return {name(node): scores.get(name(node), 0) for node in scored}

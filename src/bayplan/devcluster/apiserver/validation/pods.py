"""Validates pods and pod templates.

Mirrors Kubernetes' pkg/apis/core/validation/validation.go; the details of volumes are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bayplan.api.field_errors import FieldError, duplicate, forbidden, invalid, not_supported, required
from bayplan.api.labels import label_key_errors, label_value_errors
from bayplan.devcluster.apiserver.schema import Object
from bayplan.devcluster.apiserver.validation.checks import one_of, problems
from bayplan.devcluster.apiserver.validation.containers import (
    validate_container,
    validate_host_ports,
    validate_pod_security,
)
from bayplan.devcluster.apiserver.validation.meta import name_errors, validate_labels_and_annotations
from bayplan.devcluster.apiserver.validation.probes import validate_probes
from bayplan.devcluster.apiserver.validation.resources import validate_amount, validate_resources
from bayplan.devcluster.apiserver.validation.selectors import (
    validate_label_selector,
    validate_node_affinity,
    validate_positive,
)

SHORTEST_TOKEN, LONGEST_TOKEN = 600, 2**32
"""Seconds."""
HOST_PATHS = ("", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket")
PROJECTIONS = frozenset({"configMap", "downwardAPI", "secret", "serviceAccountToken"})
"""The sources of projected volumes. kube-apiserver drops the others, which need feature gates."""
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def validate_pod(pod: Object) -> Iterator[FieldError]:
    """Rules for a pod."""
    yield from validate_pod_spec(pod["spec"], "spec")


def validate_new_pod(pod: Object) -> Iterator[FieldError]:
    """Rules for a new pod."""
    if pod["spec"].get("nodeName") and pod["spec"].get("schedulingGates"):
        yield forbidden("spec.nodeName", "cannot be set until all schedulingGates have been cleared")


def validate_template(template: Object, where: str) -> Iterator[FieldError]:
    """Rules for a pod template."""
    yield from validate_labels_and_annotations(template["metadata"], f"{where}.metadata")
    yield from validate_pod_spec(template["spec"], f"{where}.spec")


def validate_pod_spec(spec: Object, where: str) -> Iterator[FieldError]:
    """Rules that pods and pod templates share."""
    containers, inits = spec.get("containers") or [], spec.get("initContainers", [])
    volumes: list[str] = []
    for index, volume in enumerate(spec.get("volumes", ())):
        yield from _volume(volume, volumes, f"{where}.volumes[{index}]")
    yield from _resource_claims(spec.get("resourceClaims", ()), f"{where}.resourceClaims")
    claims = {claim.get("name", "") for claim in spec.get("resourceClaims", ())}
    if not containers:
        yield required(f"{where}.containers")
    grace = spec.get("terminationGracePeriodSeconds")
    names: list[str] = []
    for field, group in (("containers", containers), ("initContainers", inits)):
        for index, container in enumerate(group):
            at = f"{where}.{field}[{index}]"
            yield from validate_container(container, at, volumes, claims)
            yield from validate_probes(container, grace, at, init=field == "initContainers")
            if (name := container.get("name", "")) and name in names:
                yield duplicate(f"{at}.name", name)
            names.append(name)
    yield from validate_pod_security(spec["securityContext"], f"{where}.securityContext")
    yield from one_of(f"{where}.restartPolicy", spec["restartPolicy"], ("Always", "OnFailure", "Never"))
    policies = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
    if spec["dnsPolicy"] not in policies:
        yield not_supported(f"{where}.dnsPolicy", spec["dnsPolicy"], policies)
    for key, value in spec.get("nodeSelector", {}).items():
        yield from problems(f"{where}.nodeSelector", key, label_key_errors(key))
        yield from problems(f"{where}.nodeSelector", value, label_value_errors(value))
    for field in ("nodeName", "priorityClassName", "serviceAccountName", "hostnameOverride"):
        if spec.get(field):
            yield from _named(spec[field], f"{where}.{field}")
    for field in ("hostname", "subdomain"):
        for error in name_errors(spec[field], "label") if spec.get(field) else ():
            yield invalid(f"{where}.{field}", spec[field], error)
    if spec.get("activeDeadlineSeconds") is not None and not 1 <= spec["activeDeadlineSeconds"] < 2**31:
        detail = "must be between 1 and 2147483647, inclusive"
        yield invalid(f"{where}.activeDeadlineSeconds", spec["activeDeadlineSeconds"], detail)
    if "affinity" in spec:
        yield from _affinity(spec["affinity"], f"{where}.affinity")
    yield from validate_tolerations(spec.get("tolerations", ()), f"{where}.tolerations")
    yield from _spread(spec.get("topologySpreadConstraints", ()), f"{where}.topologySpreadConstraints")
    yield from _gates(spec.get("schedulingGates", ()), f"{where}.schedulingGates")
    if spec.get("preemptionPolicy", "Never") not in {"PreemptLowerPriority", "Never"}:
        yield not_supported(f"{where}.preemptionPolicy", spec["preemptionPolicy"], ("Never", "PreemptLowerPriority"))
    for name, amount in spec.get("overhead", {}).items():
        yield from validate_amount(name, amount, f"{where}.overhead")
    if "resources" in spec:
        yield from validate_resources(spec["resources"], claims, f"{where}.resources")
    yield from validate_host_ports(containers, f"{where}.containers", host_network=bool(spec.get("hostNetwork")))


def _named(name: str, where: str) -> Iterator[FieldError]:
    yield from problems(where, name, name_errors(name, "subdomain"))


def _volume(volume: Object, seen: list[str], where: str) -> Iterator[FieldError]:
    name = volume.get("name", "")
    if not name:
        yield required(f"{where}.name")
    elif name in seen:
        yield duplicate(f"{where}.name", name)
    else:
        yield from problems(f"{where}.name", name, name_errors(name, "label"))
    seen.append(name)
    sources = sorted(source for source in volume if source != "name")
    for extra in sources[1:]:
        yield forbidden(f"{where}.{extra}", "may not specify more than 1 volume type")
    if "persistentVolumeClaim" in volume and not volume["persistentVolumeClaim"].get("claimName"):
        yield required(f"{where}.persistentVolumeClaim.claimName")
    for index, source in enumerate(volume.get("projected", {}).get("sources") or ()):
        yield from _projection(source, f"{where}.projected", f"{where}.projected.sources[{index}]")
    yield from validate_host_path(volume.get("hostPath"), f"{where}.hostPath")


def validate_host_path(source: Object | None, where: str) -> Iterator[FieldError]:
    """Rules for a volume on the node's file system, if it is one."""
    if source is not None and not source.get("path"):
        yield required(f"{where}.path")
    if source is not None and source.get("type", "") not in HOST_PATHS:
        yield not_supported(f"{where}.type", source["type"], HOST_PATHS)


def _projection(source: Object, volume: str, where: str) -> Iterator[FieldError]:
    """Rules for a source of a projected volume. Upstream reports the path of a token at the volume."""
    for field in ("secret", "configMap"):
        if field in source and not source[field].get("name"):
            yield required(f"{where}.{field}.name")
    token = source.get("serviceAccountToken")
    if token is not None:
        seconds, path = token["expirationSeconds"], token.get("path", "")
        if seconds < SHORTEST_TOKEN:
            detail = "may not specify a duration less than 10 minutes"
            yield invalid(f"{where}.serviceAccountToken.expirationSeconds", seconds, detail)
        if seconds > LONGEST_TOKEN:
            detail = "may not specify a duration larger than 2^32 seconds"
            yield invalid(f"{where}.serviceAccountToken.expirationSeconds", seconds, detail)
        if not path:
            yield required(f"{volume}.path")
        if path.startswith("/"):
            yield invalid(f"{volume}.path", path, "must be a relative path")
        if ".." in path.split("/"):
            yield invalid(f"{volume}.path", path, "must not contain '..'")
        elif path.startswith(".."):
            yield invalid(f"{volume}.path", path, "must not start with '..'")
    if len(source.keys() & PROJECTIONS) > 1:
        yield forbidden(where, "may not specify more than 1 volume type per source")


def _resource_claims(claims: Sequence[Object], where: str) -> Iterator[FieldError]:
    names: set[str] = set()
    for index, claim in enumerate(claims):
        at, name = f"{where}[{index}]", claim.get("name", "")
        if not name:
            yield required(f"{at}.name")
        elif name in names:
            yield duplicate(f"{at}.name", name)
        else:
            yield from problems(f"{at}.name", name, name_errors(name, "label"))
        names.add(name)
        known = ("resourceClaimName", "resourceClaimTemplateName")
        sources = [source for source in known if source in claim]
        shown = {"Name": name, **{f"{source[0].upper()}{source[1:]}": claim.get(source) for source in known}}
        if len(sources) > 1:
            detail = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
            yield invalid(at, shown, detail)
        elif not sources:
            yield invalid(at, shown, "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`")
        for source in sources:
            yield from problems(f"{at}.{source}", claim[source], name_errors(claim[source], "subdomain"))


def _affinity(affinity: Object, where: str) -> Iterator[FieldError]:
    if "nodeAffinity" in affinity:
        yield from validate_node_affinity(affinity["nodeAffinity"], f"{where}.nodeAffinity")
    for kind in ("podAffinity", "podAntiAffinity"):
        rules = affinity.get(kind, {})
        needed, wanted = (
            "requiredDuringSchedulingIgnoredDuringExecution",
            "preferredDuringSchedulingIgnoredDuringExecution",
        )
        for index, term in enumerate(rules.get(needed, ())):
            yield from _pod_term(term, f"{where}.{kind}.{needed}[{index}]")
        for index, weighted in enumerate(rules.get(wanted, ())):
            at = f"{where}.{kind}.{wanted}[{index}]"
            if not 1 <= weighted["weight"] <= 100:
                yield invalid(f"{at}.weight", weighted["weight"], "must be in the range 1-100")
            yield from _pod_term(weighted["podAffinityTerm"], f"{at}.podAffinityTerm")


def _pod_term(term: Object, where: str) -> Iterator[FieldError]:
    yield from validate_label_selector(term.get("labelSelector"), f"{where}.labelSelector")
    yield from validate_label_selector(term.get("namespaceSelector"), f"{where}.namespaceSelector")
    for name in term.get("namespaces", ()):
        yield from problems(f"{where}.namespace", name, name_errors(name, "label"))
    yield from _label_keys(term, where)
    key = term.get("topologyKey", "")
    if not key:
        yield required(f"{where}.topologyKey", "can not be empty")
    yield from problems(f"{where}.topologyKey", key, label_key_errors(key))


def _label_keys(term: Object, where: str) -> Iterator[FieldError]:
    """Rules for matchLabelKeys and mismatchLabelKeys, whose values admission has added to the selector."""
    selector = term.get("labelSelector")
    keys, mismatched = term.get("matchLabelKeys", []), term.get("mismatchLabelKeys", [])
    for field, group in (("matchLabelKeys", keys), ("mismatchLabelKeys", mismatched)):
        if group and selector is None:
            yield forbidden(f"{where}.{field}", "must not be specified when labelSelector is not set")
        for index, key in enumerate(group):
            yield from problems(f"{where}.{field}[{index}]", key, label_key_errors(key))
    seen = set((selector or {}).get("matchLabels", {}))
    for expression in (selector or {}).get("matchExpressions", ()):
        key = expression["key"]
        if key in keys and key in seen:
            yield invalid(f"{where}[{keys.index(key)}]", key, "exists in both matchLabelKeys and labelSelector")
        seen.add(key)
    for index, key in enumerate(keys):
        if key in mismatched:
            detail = "exists in both matchLabelKeys and mismatchLabelKeys"
            yield invalid(f"{where}.matchLabelKeys[{index}]", key, detail)


def validate_tolerations(tolerations: Sequence[Object], where: str) -> Iterator[FieldError]:
    """Rules for tolerations."""
    for index, toleration in enumerate(tolerations):
        at = f"{where}[{index}]"
        key, operator, value = (toleration.get(field, "") for field in ("key", "operator", "value"))
        yield from problems(f"{at}.key", key, label_key_errors(key) if key else ())
        if not key and operator != "Exists":
            detail = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
            yield invalid(f"{at}.operator", operator, detail)
        if "tolerationSeconds" in toleration and toleration.get("effect") != "NoExecute":
            detail = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            yield invalid(f"{at}.effect", toleration.get("effect", ""), detail)
        if operator in {"", "Equal"}:
            yield from problems(f"{at}.operator", value, label_value_errors(value))
        elif operator == "Exists":
            if value:
                yield invalid(f"{at}.operator", value, "value must be empty when `operator` is 'Exists'")
        elif operator in {"Lt", "Gt"}:
            yield not_supported(f"{at}.operator", operator, ("Equal", "Exists", "Lt", "Gt"))
        else:
            yield not_supported(f"{at}.operator", operator, ("Equal", "Exists"))
        yield from one_of(f"{at}.effect", toleration.get("effect", EFFECTS[0]), EFFECTS)


def _spread(constraints: Sequence[Object], where: str) -> Iterator[FieldError]:
    for index, constraint in enumerate(constraints):
        at = f"{where}[{index}]"
        yield from validate_positive(constraint.get("maxSkew", 0), f"{at}.maxSkew")
        key, action = constraint.get("topologyKey", ""), constraint.get("whenUnsatisfiable", "")
        if not key:
            yield required(f"{at}.topologyKey", "can not be empty")
        yield from one_of(f"{at}.whenUnsatisfiable", action, ("DoNotSchedule", "ScheduleAnyway"))
        later = (
            (other.get("topologyKey", ""), other.get("whenUnsatisfiable", "")) for other in constraints[index + 1 :]
        )
        if (key, action) in later:
            yield duplicate(f"{at}.{{topologyKey, whenUnsatisfiable}}", f"{{{key}, {action}}}")
        if "minDomains" in constraint:
            yield from validate_positive(constraint["minDomains"], f"{at}.minDomains")
            if action != "DoNotSchedule":
                detail = "can only use minDomains if whenUnsatisfiable=DoNotSchedule, not ScheduleAnyway"
                yield invalid(f"{at}.minDomains", constraint["minDomains"], detail)
        for field in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            yield from one_of(f"{at}.{field}", constraint.get(field, "Honor"), ("Honor", "Ignore"))
        yield from _label_keys(constraint, at)
        yield from validate_label_selector(constraint.get("labelSelector"), f"{at}.labelSelector")


def _gates(gates: Sequence[Object], where: str) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, gate in enumerate(gates):
        yield from problems(f"{where}[{index}]", gate["name"], label_key_errors(gate["name"]))
        if gate["name"] in seen:
            yield duplicate(f"{where}[{index}]", gate["name"])
        seen.add(gate["name"])

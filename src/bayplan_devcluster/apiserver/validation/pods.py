"""Rules of pods that concern several fields. Mirrors Kubernetes' pkg/apis/core/validation/validation.go; the details of
volumes are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from bayplan.core.api import quantity
from bayplan.core.api.field_errors import FieldError, duplicate, forbidden, invalid, not_supported, quoted, required
from bayplan.core.api.labels import label_key_errors, label_value_errors
from bayplan.core.api.names import name_errors
from bayplan_devcluster.apiserver.schema import Object
from bayplan_devcluster.apiserver.validation.attributes import OVERHEAD_OF_DEVICES, native
from bayplan_devcluster.apiserver.validation.rules import At, problems

_CANONICAL = re.compile(r"0|-?[1-9][0-9]*", re.ASCII)

SHORTEST_TOKEN, LONGEST_TOKEN = 600, 2**32
"""Seconds."""
PROJECTIONS = frozenset({"configMap", "downwardAPI", "secret", "serviceAccountToken"})
"""The sources of projected volumes. kube-apiserver drops the others, which need feature gates."""


def gated_node(pod: Object, _at: At) -> Iterator[FieldError]:
    """A new pod with a node has no scheduling gates."""
    if pod["spec"].get("nodeName") and pod["spec"].get("schedulingGates"):
        yield forbidden("spec.nodeName", "cannot be set until all schedulingGates have been cleared")


def one_source(volume: Object, at: At) -> Iterator[FieldError]:
    """A volume has one source."""
    for extra in sorted(source for source in volume if source != "name")[1:]:
        yield forbidden(f"{at.path}.{extra}", "may not specify more than 1 volume type")


def token(token: Object, at: At) -> Iterator[FieldError]:
    """A projected token. Upstream reports its path at the volume."""
    seconds, path, volume = token["expirationSeconds"], token.get("path", ""), at.path.rpartition(".sources[")[0]
    yield from token_seconds(seconds, at)
    if not path:
        yield required(f"{volume}.path")
    if path.startswith("/"):
        yield invalid(f"{volume}.path", path, "must be a relative path")
    if ".." in path.split("/"):
        yield invalid(f"{volume}.path", path, "must not contain '..'")
    elif path.startswith(".."):
        yield invalid(f"{volume}.path", path, "must not start with '..'")


def token_seconds(seconds: int, at: At) -> Iterator[FieldError]:
    """The lifetime of a token."""
    if seconds < SHORTEST_TOKEN:
        yield invalid(f"{at.path}.expirationSeconds", seconds, "may not specify a duration less than 10 minutes")
    if seconds > LONGEST_TOKEN:
        yield invalid(f"{at.path}.expirationSeconds", seconds, "may not specify a duration larger than 2^32 seconds")


def one_projection(source: Object, at: At) -> Iterator[FieldError]:
    """A source of a projected volume is of one type."""
    if len(source.keys() & PROJECTIONS) > 1:
        yield forbidden(at.path, "may not specify more than 1 volume type per source")


def claim_source(claim: Object, at: At) -> Iterator[FieldError]:
    """A pod's reference to a resource claim names the claim or its template."""
    known = ("resourceClaimName", "resourceClaimTemplateName")
    sources = [source for source in known if source in claim]
    shown = {"Name": claim.get("name", ""), **{f"{each[0].upper()}{each[1:]}": claim.get(each) for each in known}}
    if len(sources) > 1:
        detail = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
        yield invalid(at.path, shown, detail)
    elif not sources:
        yield invalid(at.path, shown, "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`")
    for source in sources:
        yield from problems(f"{at.path}.{source}", claim[source], name_errors(claim[source], "subdomain"))


def claimed_resources(pod: Object, at: At) -> Iterator[FieldError]:
    """What the status says a pod takes of its node through claims, in the form of 1.36."""
    status = pod.get("status", {})
    claims = [*pod["spec"].get("resourceClaims", ()), *status.get("resourceClaimStatuses", ())]
    names = {each.get("resourceClaimName") for each in claims}
    claimed = () if OVERHEAD_OF_DEVICES in at.features else status.get("nodeAllocatableResourceClaimStatuses", ())
    for index, each in enumerate(claimed):
        path, name = f"status.nodeAllocatableResourceClaimStatuses[{index}]", each.get("resourceClaimName")
        if not name:
            yield required(f"{path}.resourceClaimName", "must not be empty")
        if name not in names:
            yield invalid(f"{path}.resourceClaimName", name or "", "no mapping found in pod reference")
        for field in ("containers", "resources"):
            if not each.get(field):
                yield required(f"{path}.{field}", "must not be empty")
        for resource, amount in sorted(each.get("resources", {}).items()):
            yield from native(resource, f"{path}.resources[{resource}]")
            if quantity.parse(amount) < 0:
                yield invalid(f"{path}.resources[{resource}]", amount, "must be non-negative")


def label_keys(term: Object, at: At) -> Iterator[FieldError]:
    """MatchLabelKeys and mismatchLabelKeys, whose values admission has added to the selector."""
    selector = term.get("labelSelector")
    keys, mismatched = term.get("matchLabelKeys", []), term.get("mismatchLabelKeys", [])
    for field, group in (("matchLabelKeys", keys), ("mismatchLabelKeys", mismatched)):
        if group and selector is None:
            yield forbidden(f"{at.path}.{field}", "must not be specified when labelSelector is not set")
        for index, key in enumerate(group):
            yield from problems(f"{at.path}.{field}[{index}]", key, label_key_errors(key))
    seen = set((selector or {}).get("matchLabels", {}))
    for expression in (selector or {}).get("matchExpressions", ()):
        key = expression["key"]
        if key in keys and key in seen:
            yield invalid(f"{at.path}[{keys.index(key)}]", key, "exists in both matchLabelKeys and labelSelector")
        seen.add(key)
    for index, key in enumerate(keys):
        if key in mismatched:
            detail = "exists in both matchLabelKeys and mismatchLabelKeys"
            yield invalid(f"{at.path}.matchLabelKeys[{index}]", key, detail)


def toleration(toleration: Object, at: At) -> Iterator[FieldError]:
    """The operator of a toleration fits its key, value and seconds."""
    key, operator, value = (toleration.get(field, "") for field in ("key", "operator", "value"))
    where = f"{at.path}.operator"
    if not key and operator != "Exists":
        detail = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        yield invalid(where, operator, detail)
    if "tolerationSeconds" in toleration and toleration.get("effect") != "NoExecute":
        detail = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        yield invalid(f"{at.path}.effect", toleration.get("effect", ""), detail)
    if operator in {"", "Equal"}:
        yield from problems(where, value, label_value_errors(value))
    elif operator in {"Lt", "Gt"}:
        if "TaintTolerationComparisonOperators" in at.features:
            yield from _decimal(f"{at.path}.value", value)
        else:
            yield not_supported(where, operator, ("Equal", "Exists", "Lt", "Gt"))
    elif operator != "Exists":
        yield not_supported(where, operator, ("Equal", "Exists"))
    elif value:
        yield invalid(where, value, "value must be empty when `operator` is 'Exists'")


def _decimal(path: str, value: str) -> Iterator[FieldError]:
    """A canonical decimal integer of 64 bits."""
    if not _CANONICAL.fullmatch(value):
        yield invalid(
            path, value, "must be a valid decimal integer in canonical form" if value else "must be non-empty"
        )
    syntax = re.fullmatch(r"[+-]?[0-9]+", value, re.ASCII)
    if not syntax or not -(2**63) <= int(value[:40]) < 2**63:
        why = "value out of range" if syntax else "invalid syntax"
        yield invalid(path, value, f"strconv.ParseInt: parsing {quoted(value)}: {why}")


def distinct_constraint(constraint: Object, at: At) -> Iterator[FieldError]:
    """No later spread constraint has the same key and action."""
    key, action = (constraint.get(field, "") for field in ("topologyKey", "whenUnsatisfiable"))
    for other in at.items[at.number + 1 :]:
        if (key, action) == (other.get("topologyKey", ""), other.get("whenUnsatisfiable", "")):
            yield duplicate(f"{at.path}.{{topologyKey, whenUnsatisfiable}}", f"{{{key}, {action}}}")
            return


def domains_needed(domains: int, at: At) -> Iterator[FieldError]:
    """A minimum of domains needs DoNotSchedule."""
    if at.above[0].get("whenUnsatisfiable", "") != "DoNotSchedule":
        detail = "can only use minDomains if whenUnsatisfiable=DoNotSchedule, not ScheduleAnyway"
        yield invalid(at.path, domains, detail)

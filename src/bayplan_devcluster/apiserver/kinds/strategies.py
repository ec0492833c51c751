"""The strategies of the built-in kinds: the rules of their types, and hooks that prepare them.

Most kinds are data: defaults in `defaults.json`, rules in `validation/rules.json`. A kind that is prepared by code has
a hook here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial

from bayplan.core.api import kinds
from bayplan.core.api.field_errors import FieldError
from bayplan.core.api.kinds import Kind
from bayplan_devcluster.apiserver.custom import definitions
from bayplan_devcluster.apiserver.custom.validation import validate_definition, validate_definition_update
from bayplan_devcluster.apiserver.kinds import admission, gated_fields, pods, preparation
from bayplan_devcluster.apiserver.schema import Object
from bayplan_devcluster.apiserver.storage.strategy import Strategy
from bayplan_devcluster.apiserver.validation.devices import prepare_resource_claim_status
from bayplan_devcluster.apiserver.validation.rules import At, check, has_rules


def strategy_of(kind: Kind, features: frozenset[str] = frozenset()) -> Strategy:
    """The hooks of a kind, with the sets of rules that its type has. `features`: the feature gates that are on."""
    hooks, model = HOOKS.get(kind, Strategy()), kind.model
    if kind == kinds.POD:
        hooks = _of_pods(hooks, features)
    hooks = gated_fields.without_disabled(hooks, kind, features)
    return replace(
        hooks,
        validate=_of_objects(model, features) or hooks.validate,
        validate_create=_of_objects(f"{model} create", features) or hooks.validate_create,
        validate_update=_of_changes(f"{model} update", features) or hooks.validate_update,
        validate_status_update=_of_changes(f"{model} status", features) or hooks.validate_status_update,
    )


def _of_objects(name: str, features: frozenset[str]) -> Callable[[Object], Iterable[FieldError]] | None:
    return (lambda new: check(name, new, At("", features=features))) if has_rules(name) else None


def _of_changes(name: str, features: frozenset[str]) -> Callable[[Object, Object], Iterable[FieldError]] | None:
    return (lambda new, old: check(name, new, At("", old=old, features=features))) if has_rules(name) else None


def _of_pods(hooks: Strategy, features: frozenset[str]) -> Strategy:
    if "ClaimStatusesOfPods" in features:
        keep = partial(pods.prepare_pod_status, kept=pods.KEPT + pods.KEPT_CLAIMS)
        hooks = replace(hooks, prepare_for_status_update=keep)
    if "NodeNamesOfBindings" in features:
        hooks = replace(hooks, validate_binding=pods.validate_node_name)
    return hooks


HOOKS: Mapping[Kind, Strategy] = {
    kinds.CUSTOM_RESOURCE_DEFINITION: Strategy(
        prepare_for_create=definitions.prepare_definition,
        prepare_for_update=definitions.prepare_definition_update,
        prepare_for_delete=definitions.mark_definition_deleted,
        warn=definitions.definition_warnings,
        validate_create=validate_definition,
        validate_update=validate_definition_update,
    ),
    kinds.POD: Strategy(
        prepare_for_create=pods.prepare_pod,
        prepare_for_update=admission.readmit_pod,
        prepare_for_status_update=pods.prepare_pod_status,
        grace_period=pods.grace_period,
    ),
    kinds.NAMESPACE: Strategy(prepare_for_create=preparation.prepare_namespace),
    kinds.SERVICE: Strategy(prepare_for_update=admission.keep_address),
    kinds.LIMIT_RANGE: Strategy(prepare_for_create=preparation.prepare_limit_range),
    kinds.DAEMON_SET: Strategy(
        prepare_for_create=preparation.prepare_daemon_set, prepare_for_update=preparation.prepare_daemon_set_update
    ),
    kinds.JOB: Strategy(prepare_for_create=preparation.prepare_job),
    kinds.PERSISTENT_VOLUME: Strategy(prepare_for_create=preparation.prepare_volume),
    kinds.PERSISTENT_VOLUME_CLAIM: Strategy(prepare_for_create=preparation.prepare_claim),
    kinds.RESOURCE_CLAIM: Strategy(prepare_for_status_update=prepare_resource_claim_status),
    kinds.DEVICE_TAINT_RULE: Strategy(prepare_for_create=preparation.prepare_device_taint_rule),
    kinds.DEVICE_TAINT_RULE_V1BETA2: Strategy(prepare_for_create=preparation.prepare_device_taint_rule),
}
"""The kinds that are prepared by code."""

"""The table of validation rules: each rule names a function, and sets that exist."""

import pytest

from bayplan.core.api.kinds import VERSIONED_KINDS
from bayplan_devcluster.apiserver.kinds.catalog import catalog
from bayplan_devcluster.apiserver.validation import rules


@pytest.mark.parametrize("name", rules.sets())
def test_set_of_rules_is_complete(name):
    for line in rules.lines(name):
        assert line.rule is not rules.rules or rules.has_rules(line.arguments), line


def test_sets_for_writes_are_of_served_types():
    served = {resource.kind.model for resource in catalog(VERSIONED_KINDS)}

    assert {name.split()[0] for name in rules.sets() if " " in name} <= served


@pytest.mark.parametrize(
    ("pod", "problems"),
    [
        ({}, []),
        ({"tolerations": [{"operator": "Exists", "effect": "Never"}]}, ["spec.tolerations[0].effect"]),
        ({"nodeName": "-"}, ["spec.nodeName"]),
        ({"schedulingGates": [{"name": "a"}, {"name": "a"}]}, ["spec.schedulingGates[1]"]),
        (
            {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "a b"}]}}},
            ["spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey"],
        ),
    ],
    ids=["valid", "item of a list", "name", "twice the same", "nested"],
)
def test_errors_have_the_paths_of_fields(pod, problems):
    container = {"name": "a", "image": "a", "resources": {}, "imagePullPolicy": "Always"}
    container |= {"terminationMessagePolicy": "File"}
    spec = {"containers": [container], "restartPolicy": "Always", "dnsPolicy": "Default", "securityContext": {}}

    assert [error.path for error in rules.check("core_v1.Pod", {"spec": spec | pod})] == problems

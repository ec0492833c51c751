"""A Policy is rejected with a configuration that replaces it: each entry is converted, or named."""

import json
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from bayplan.core.config import ConfigurationError, KubeSchedulerConfiguration, read_configuration
from bayplan.core.config.decoding import decode
from bayplan.core.config.policies import PREDICATES, policy_error
from bayplan.core.config.policy_priorities import LEAST, MOST, PLUGINS, SPREADING

HEAD = {"kind": "Policy", "apiVersion": "v1"}
FIRST = "policy.json:1: kind: a Policy is no longer supported. Write instead:"


def refusal(policy, folder, monkeypatch):
    monkeypatch.chdir(folder)
    Path("policy.json").write_text(json.dumps(HEAD | policy))
    with pytest.raises(ConfigurationError) as error:
        read_configuration(Path("policy.json"))
    first, _, rest = str(error.value).partition("\n")
    assert first == FIRST
    return "\n".join(line.removeprefix("    ") for line in rest.splitlines()) + "\n"


def replacement(policy):
    """The notes and the profile of the replacement, which must be valid."""
    text = policy_error(HEAD | policy).message.partition("\n")[2]
    lines = [line.removeprefix("    ") for line in text.splitlines()]
    notes = [line.removeprefix("# ") for line in lines if line.startswith("# ")]
    document = yaml.safe_load("\n".join(lines))
    configuration, faults = decode(document, KubeSchedulerConfiguration)
    assert not faults
    return notes, document["profiles"][0], configuration


def weights(profile):
    return {each["name"]: each["weight"] for each in profile["plugins"]["score"].get("enabled", ())}


def arguments(profile):
    return {each["name"]: each["args"] for each in profile.get("pluginConfig", ())}


def test_the_replacement_of_a_published_policy(tmp_path, monkeypatch):
    policy = {
        "predicates": [
            {"name": "GeneralPredicates"},
            {"name": "MatchInterPodAffinity"},
            {"name": "CheckVolumeBinding"},
        ],
        "priorities": [{"name": "MostRequestedPriority", "weight": 2}, {"name": "EqualPriority", "weight": 1}],
        "extenders": [
            {
                "urlPrefix": "http://127.0.0.1:12346/scheduler",
                "filterVerb": "filter",
                "weight": 1,
                "enableHttps": False,
                "httpTimeout": 1000000000,
                "colour": "red",
            }
        ],
        "alwaysCheckAllPredicates": False,
    }
    expected = """\
# priority EqualPriority: not needed: it scored all nodes alike
# predicates not listed in the Policy are on: NodeVolumeLimits, PodTopologySpread, VolumeRestrictions, VolumeZone; \
to turn one off, list it under disabled of preFilter and filter
# extender http://127.0.0.1:12346/scheduler: colour: no equivalent
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    score:
      disabled:
      - name: '*'
      enabled:
      - name: NodeResourcesFit
        weight: 2
  pluginConfig:
  - name: NodeResourcesFit
    args:
      scoringStrategy:
        type: MostAllocated
        resources:
        - name: cpu
          weight: 1
        - name: memory
          weight: 1
extenders:
- urlPrefix: http://127.0.0.1:12346/scheduler
  filterVerb: filter
  weight: 1
  enableHTTPS: false
  httpTimeout: 1s
"""
    found = refusal(policy, tmp_path, monkeypatch)
    assert found == expected
    Path("replacement.yaml").write_text(found)
    assert read_configuration(Path("replacement.yaml")).warning_lines() == []


def priority(name, weight=1, **argument):
    return {"name": name, "weight": weight} | ({"argument": argument} if argument else {})


def fit(weight):
    return {"NodeResourcesFit": weight}


SHAPE = [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]
SHAPED = {"requestedToCapacityRatioArguments": {"shape": SHAPE}}
RATIO = "RequestedToCapacityRatio"
TABLE = {
    "least": ([priority(LEAST, 3)], fit(3), None, []),
    "most": ([priority(MOST, 3)], fit(3), "MostAllocated", []),
    "least and most alike": ([priority(LEAST), priority(MOST)], {}, None, ["nothing remains"]),
    "more least": ([priority(LEAST, 5), priority(MOST, 2)], fit(3), None, ["LeastAllocated (3) remains"]),
    "more most": ([priority(LEAST, 2), priority(MOST, 5)], fit(3), "MostAllocated", ["MostAllocated (3) remains"]),
    "a shape": ([priority("Any", 2, **SHAPED)], fit(2), RATIO, []),
    "two strategies": (
        [priority("Any", 2, **SHAPED), priority(LEAST, 1)],
        fit(2),
        RATIO,
        ["LeastAllocated (1): no equivalent"],
    ),
    "no arguments": ([priority("RequestedToCapacityRatioPriority", 2)], fit(2), RATIO, []),
    "a label": (
        [priority("Disk", 2, labelPreference={"label": "ssd", "presence": True})],
        {},
        None,
        ["priority Disk", "ssd"],
    ),
    "spread by a label": (
        [priority("Rack", 2, serviceAntiAffinity={"label": "rack"})],
        {},
        None,
        ["priority Rack", "defaultConstraints"],
    ),
    "avoid": ([priority("NodePreferAvoidPodsPriority", 10000)], {}, None, ["PreferNoSchedule"]),
    "an unknown one": ([priority("Mine", 2)], {}, None, ["priority Mine: no equivalent"]),
    "a weight of zero": ([priority("ImageLocalityPriority", 0)], {"ImageLocality": 1}, None, ["not 0"]),
    "spread twice": (
        [priority("SelectorSpreadPriority", 7), priority("EvenPodsSpreadPriority", 2)],
        {"PodTopologySpread": 2},
        None,
        [],
    ),
}


@pytest.mark.parametrize("case", TABLE, ids=str)
def test_priorities_are_converted_or_named(case):
    priorities, expected, strategy, said = TABLE[case]
    notes, profile, _ = replacement({"priorities": priorities})
    assert weights(profile) == expected
    assert arguments(profile).get("NodeResourcesFit", {}).get("scoringStrategy", {}).get("type") == strategy
    assert all(any(part in note for note in notes) for part in said)
    assert bool(notes) == bool(said)


def test_the_shape_and_the_resources_are_kept():
    given = {"shape": SHAPE, "resources": [{"name": "cpu", "weight": 3}]}
    _, profile, _ = replacement({"priorities": [priority("Any", requestedToCapacityRatioArguments=given)]})
    strategy = arguments(profile)["NodeResourcesFit"]["scoringStrategy"]
    assert strategy["requestedToCapacityRatio"] == {"shape": SHAPE}
    assert strategy["resources"] == [{"name": "cpu", "weight": 3}]


@pytest.mark.parametrize(("name", "plugin"), PLUGINS.items())
def test_other_priorities_have_a_plugin(name, plugin):
    notes, profile, _ = replacement({"priorities": [priority(name, 4)]})
    assert (weights(profile), notes) == ({plugin: 4}, [])


def test_spread_without_selector_spread_has_no_default_constraints():
    _, profile, _ = replacement({"priorities": [priority(SPREADING[0])]})
    assert arguments(profile) == {"PodTopologySpread": {"defaultingType": "List"}}


def test_a_policy_without_priorities_has_the_default_ones_of_its_time():
    notes, profile, _ = replacement({})
    assert weights(profile) == {
        "PodTopologySpread": 2,
        "InterPodAffinity": 1,
        "NodeResourcesFit": 1,
        "NodeResourcesBalancedAllocation": 1,
        "NodeAffinity": 1,
        "TaintToleration": 1,
        "ImageLocality": 1,
    }
    assert notes == ["the Policy lists no priorities: these are the default ones of its time"]


def test_hard_pod_affinity_symmetric_weight_is_an_argument():
    _, profile, _ = replacement({"priorities": [], "hardPodAffinitySymmetricWeight": 50})
    assert arguments(profile) == {"InterPodAffinity": {"hardPodAffinityWeight": 50}}


def test_labels_that_nodes_need_become_added_affinity():
    predicates = [
        {"name": "Disk", "argument": {"labelsPresence": {"labels": ["ssd", "nvme"], "presence": True}}},
        {"name": "Old", "argument": {"labelsPresence": {"labels": ["retiring"], "presence": False}}},
        {"name": "Rack", "argument": {"serviceAffinity": {"labels": ["rack"]}}},
        {"name": "Mine"},
    ]
    notes, profile, _ = replacement({"priorities": [], "predicates": predicates})
    required = arguments(profile)["NodeAffinity"]["addedAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert required["nodeSelectorTerms"] == [
        {
            "matchExpressions": [
                {"key": "ssd", "operator": "Exists"},
                {"key": "nvme", "operator": "Exists"},
                {"key": "retiring", "operator": "DoesNotExist"},
            ]
        }
    ]
    assert notes[0] == "predicate Disk: now addedAffinity in the arguments of NodeAffinity"
    assert notes[2:4] == [
        "predicate Rack: no equivalent: give the pods of each service a pod affinity",
        "predicate Mine: no equivalent",
    ]


@pytest.mark.parametrize("name", PREDICATES)
def test_a_predicate_with_a_plugin_needs_no_note(name):
    notes, _, _ = replacement({"priorities": [], "predicates": [{"name": name}]})
    (note,) = notes
    assert note.startswith("predicates not listed in the Policy are on: ")
    assert not any(f"{plugin}," in note or f"{plugin};" in note for plugin in PREDICATES[name])


def test_what_has_no_equivalent_is_named():
    notes, _, _ = replacement({"priorities": [], "alwaysCheckAllPredicates": True, "metadata": {}, "colour": 1})
    assert [note.partition(":")[0] for note in notes] == ["alwaysCheckAllPredicates", "colour"]


WORDS = st.none() | st.integers(-3, 3) | st.booleans() | st.sampled_from(["x", LEAST, "rack"])
FIELDS = st.sampled_from(["name", "argument", "weight", "labels", "labelsPresence", "tlsConfig"])
JSON = st.recursive(WORDS, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(FIELDS, inner, max_size=3))
POLICIES = st.dictionaries(st.sampled_from(["priorities", "predicates", "extenders", "metadata"]), JSON, max_size=3)


@settings(max_examples=40)
@given(POLICIES)
def test_a_policy_with_values_of_wrong_types_is_refused_as_any_other(policy):
    assert policy_error(HEAD | policy).message.startswith("a Policy is no longer supported. Write instead:")

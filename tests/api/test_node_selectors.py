import pytest
from lightkube.models import core_v1
from tests.support.tables import cases

from bayplan.core.api.objects import convert
from bayplan.core.api.selectors import RequiredNodeAffinity, parse_node_selector, parse_preferred_terms

LABELS = {"zone": "a", "gen": "6", "odd": "x6"}


def expression(key, operator, *values):
    return {"key": key, "operator": operator, "values": list(values)}


def selector(*terms):
    return parse_node_selector(convert(core_v1.NodeSelector, {"nodeSelectorTerms": list(terms)}))


@pytest.mark.parametrize(
    ("wanted", "matches"),
    [
        (expression("zone", "In", "a", "b"), True),
        (expression("zone", "In", "b"), False),
        (expression("rack", "In", "1"), False),
        (expression("zone", "NotIn", "b"), True),
        pytest.param(expression("rack", "NotIn", "1"), True, id="NotIn matches a missing label"),
        (expression("zone", "Exists"), True),
        (expression("rack", "DoesNotExist"), True),
        (expression("gen", "Gt", "5"), True),
        (expression("gen", "Gt", "6"), False),
        (expression("gen", "Lt", "7"), True),
        pytest.param(expression("odd", "Gt", "5"), False, id="Gt doesn't match a value that is no integer"),
        pytest.param(expression("rack", "Lt", "5"), False, id="Lt doesn't match a missing label"),
    ],
)
def test_expressions(wanted, matches):
    assert selector({"matchExpressions": [wanted]}).matches(LABELS, "n") is matches


def test_terms_are_ored_and_expressions_are_anded():
    both = {"matchExpressions": [expression("zone", "In", "a"), expression("gen", "In", "7")]}
    assert not selector(both).matches(LABELS, "n")
    assert selector(both, {"matchExpressions": [expression("gen", "In", "6")]}).matches(LABELS, "n")


@cases("terms", {"none": (), "empty": ({},), "lists": ({"matchExpressions": [], "matchFields": []},)})
def test_an_empty_term_matches_nothing(terms):
    assert not selector(*terms).matches(LABELS, "n")


@pytest.mark.parametrize(
    ("operator", "name", "matches"),
    [("In", "n", True), ("In", "m", False), ("NotIn", "n", False), ("NotIn", "m", True)],
)
def test_fields(operator, name, matches):
    term = {"matchFields": [expression("metadata.name", operator, name)]}
    assert selector(term).matches(LABELS, "n") is matches


@pytest.mark.parametrize(
    ("wanted", "path"),
    [
        (expression("zone", "Near", "a"), "nodeSelectorTerms[0].matchExpressions[0].operator"),
        (expression("zone", "In"), "nodeSelectorTerms[0].matchExpressions[0].values"),
        (expression("zone", "Exists", "a"), "nodeSelectorTerms[0].matchExpressions[0].values"),
        (expression("zone", "Gt", "1", "2"), "nodeSelectorTerms[0].matchExpressions[0].values"),
        (expression("zone", "Gt", "x"), "nodeSelectorTerms[0].matchExpressions[0].values[0]"),
        (expression("zone", "Gt", "9223372036854775808"), "nodeSelectorTerms[0].matchExpressions[0].values[0]"),
        (expression("a b", "In", "x"), "nodeSelectorTerms[0].matchExpressions[0].key"),
        pytest.param(
            expression("zone", "Gt", "-1"), "nodeSelectorTerms[0].matchExpressions[0].values[0]", id="not a label value"
        ),
        (expression("zone", "In", "-"), "nodeSelectorTerms[0].matchExpressions[0].values[0]"),
    ],
)
def test_invalid_term_has_an_error_with_path_and_matches_nothing(wanted, path):
    parsed = selector({"matchExpressions": [wanted]})
    assert [fault.path for fault in parsed.errors] == [path]
    assert not parsed.matches(LABELS, "n")


def test_fields_take_one_value():
    parsed = selector({"matchFields": [expression("metadata.name", "In", "n", "m")]})
    assert parsed.errors[0].path == "nodeSelectorTerms[0].matchFields[0].values"
    assert not parsed.matches(LABELS, "n")


def test_invalid_term_does_not_affect_other_terms():
    good = {"matchExpressions": [expression("zone", "In", "a")]}
    assert selector({"matchExpressions": [expression("zone", "Near", "a")]}, good).matches(LABELS, "n")


def test_node_selector_and_affinity_both_have_to_match():
    spec = convert(
        core_v1.PodSpec,
        {
            "containers": [],
            "nodeSelector": {"zone": "a"},
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [{"matchExpressions": [expression("gen", "In", "6")]}]
                    }
                }
            },
        },
    )
    required = RequiredNodeAffinity.of(spec)
    assert required.matches(LABELS, "n")
    assert not required.matches({"zone": "a"}, "n")
    assert not required.matches({"gen": "6"}, "n")


def test_preferred_terms_without_weight_or_content_are_omitted():
    terms = [
        {"weight": 0, "preference": {"matchExpressions": [expression("zone", "In", "a")]}},
        {"weight": 5, "preference": {}},
        {"weight": 7, "preference": {"matchExpressions": [expression("zone", "In", "a")]}},
    ]
    parsed = parse_preferred_terms(convert(list[core_v1.PreferredSchedulingTerm], terms))
    assert [term.weight for term in parsed] == [7]

"""Quantities that are numbers in files are read as Kubernetes reads them."""

import json

import pytest
import yaml
from tests.insight.bayplan_documents import document
from tests.support.tables import cases

from bayplan.answers.snapshots.numeric_quantities import with_text_quantities
from bayplan.core.api.kinds import KINDS, NODE, POD, PRIORITY_CLASS
from bayplan.core.api.type_table import fields_of, table
from bayplan.insight import Insight, Snapshot

NODES = document("Node", "n1", namespace="", status={"allocatable": {"cpu": 4, "memory": "8Gi", "pods": 110}})


def pod(name, node=None, **requests):
    container = {"name": "c", "image": "x", "resources": {"requests": requests}}
    return document("Pod", name, spec={"containers": [container], **({"nodeName": node} if node else {})})


FORMS = {"YAML": yaml.safe_dump_all, "JSON": lambda each: "\n".join(map(json.dumps, each)), "indented JSON": None}


@pytest.mark.parametrize("form", FORMS)
def test_numbers_count_as_quantities(tmp_path, form):
    write = FORMS[form] or (lambda objects: "\n".join(json.dumps(each, indent=1) for each in objects))
    path = tmp_path / "cluster"
    path.write_text(write([NODES, pod("running", "n1", cpu=3), pod("small", cpu=0.5), pod("big", cpu=1.5)]))
    snapshot = Snapshot.open(path)
    insight = Insight(snapshot)

    assert (snapshot.problems, insight.world.contents.problems) == ((), [])
    assert snapshot.document(NODE, "n1")["status"]["allocatable"] == {"cpu": "4", "memory": "8Gi", "pods": "110"}
    assert insight.explain("default/small").outcome == "placed"
    assert insight.explain("default/big").message.startswith("0/1 nodes are available: 1 Insufficient cpu.")
    assert [each.outcome for each in insight.fit([pod("new", cpu=1)]).pods] == ["pending"]


def with_numbers(kind, outer=()):
    """A value of a type of the API with a number for each quantity, and how many there are."""
    if kind == "Quantity":
        return 7, 1
    if kind.startswith(("[]", "{}")):
        item, number = with_numbers(kind[2:], outer)
        return ([item] if kind.startswith("[]") else {"x": item}), number
    if kind not in table() or kind in outer:
        return None, 0
    values = {name: with_numbers(field.type, (*outer, kind)) for name, field in fields_of(kind).items()}
    found = {name: value for name, (value, number) in values.items() if number}
    return found, sum(number for _, number in values.values())


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.model in table()], ids=lambda kind: kind.resource)
def test_every_quantity_of_the_api_may_be_a_number(kind):
    value, number = with_numbers(kind.model)
    text = with_text_quantities(kind, json.dumps({"metadata": {"name": "a"}, **value}).encode()).decode()

    assert text.count('"7"') == number
    assert ":7" not in text


@cases(
    "kind, raw",
    {
        "priority": (PRIORITY_CLASS, b'{"metadata":{"name":"a"},"value":1000}'),
        "integers": (POD, b'{"metadata":{"labels":{"requests":"1"},"generation":3},"spec":{"priority":7}}'),
        "no numbers": (POD, b'{"spec":{"containers":[{"resources":{"requests":{"cpu":true,"memory":null}}}]}}'),
    },
)
def test_other_values_stay(kind, raw):
    assert json.loads(with_text_quantities(kind, raw)) == json.loads(raw)

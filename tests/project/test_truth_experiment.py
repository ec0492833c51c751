"""The experiment of `make test-truth`, without a control plane: its workload, its candidates and its page."""

import sys
from collections import Counter
from pathlib import Path

import pytest

from bayplan.core.config import Catalog
from bayplan.core.config.documents import Document
from bayplan.core.config.loading import read_document_of

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _benchmarks(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    yield
    for name in [each for each in sys.modules if each.startswith("truth_")]:
        del sys.modules[name]


def test_the_same_seed_is_the_same_workload():
    from truth_workload import Size, nodes_of, workload_of

    size = Size()
    actions = workload_of(size)
    assert actions == workload_of(size) != workload_of(Size(seed=2))
    assert [each.at for each in actions] == sorted(each.at for each in actions)
    pods = Counter(each.kind.kind for each in actions if each.what == "create")
    started = sum(
        each.document["spec"].get("parallelism") or each.document["spec"].get("replicas") or 1
        for each in actions
        if each.what == "create"
    )
    assert pods.keys() == {"Deployment", "StatefulSet", "Job", "Pod"}
    assert 900 < started < 1300
    assert len(nodes_of(size)) == 60


def test_candidates_are_configurations():
    from truth_table import CANDIDATES, configuration_of

    for candidate in ({}, *CANDIDATES.values()):
        assert read_document_of(Document(configuration_of(candidate)), Catalog()).configuration is not None


def test_the_table_replaces_the_one_of_the_page(tmp_path):
    from truth_table import write_between_markers

    page = tmp_path / "page.md"
    page.write_text("before\n<!-- truth -->\nold\n<!-- end of truth -->\nafter\n")
    write_between_markers(page, "new")
    assert page.read_text() == "before\n<!-- truth -->\nnew\n<!-- end of truth -->\nafter\n"
    page.write_text("nothing")
    with pytest.raises(SystemExit, match="it is not changed"):
        write_between_markers(page, "new")


def test_the_page_has_a_place_for_the_table():
    text = (ROOT / "docs" / "compare.md").read_text()
    assert 0 < text.index("<!-- truth -->") < text.index("<!-- end of truth -->")

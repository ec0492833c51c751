"""Any document is either accepted or rejected with a list of errors, never with a traceback."""

import copy
import json
from pathlib import Path

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from bayplan.answers.simulation.handle import OfflineHandle
from bayplan.core.cluster.state import ClusterState
from bayplan.core.config import Catalog, ConfigurationError, build_profiles
from bayplan.core.config.documents import Document, read_document
from bayplan.core.config.loading import read_document_of
from bayplan.core.config.writing import to_yaml

HERE = Path(__file__).parent
RECORDED = (HERE.parent / "data" / "kube-scheduler" / "configurations.jsonl").read_text().splitlines()


def documents():
    """All documents of this folder's tests that are mappings."""
    texts = [json.loads(line)["yaml"] for line in RECORDED]
    for name in ("older_versions.txt", "broken_configurations.txt"):
        cases = (HERE / name).read_text().split("==== ")[1:]
        texts += [case.partition("\n")[2].partition("---- ")[0] for case in cases]
    for text in texts:
        try:
            yield read_document(text).data
        except ConfigurationError:
            continue


DOCUMENTS = list(documents())
ODD = st.sampled_from([
    None, True, 0, -1, 2**31, 2**63, 10**400, 0.5, float("nan"), float("inf"), "", "*", "NodeResourcesFit", "1s", b"x",
    [], {}, [None], [[]], {"name": []}, {"name": "NodeName"}, {1: 2}, {None: None}, ["*"], {"enabled": 3}, {(1, 2): []},
    "NodeResourcesMostAllocated", "SelectorSpread", "EBSLimits",
]).map(copy.deepcopy)  # fmt: skip


def places(value, path=()):
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from places(item, (*path, key))


@st.composite
def odd_documents(draw):
    document = copy.deepcopy(draw(st.sampled_from(DOCUMENTS)))
    if draw(st.booleans()) and "apiVersion" in document:
        version = draw(st.sampled_from(["v1", "v1beta1", "v1beta2", "v1beta3"]))
        document["apiVersion"] = f"kubescheduler.config.k8s.io/{version}"
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from([path for path in places(document) if path] or [("kind",)]))
        parent = document
        for key in path[:-1]:
            parent = parent[key]
        if draw(st.booleans()) and isinstance(parent, dict):
            parent[draw(st.sampled_from(["name", "args", "plugins", "score", "weight", "oddly"]))] = draw(ODD)
        else:
            parent[path[-1]] = draw(ODD)
    return document


def readable(read):
    """What `read` returns, or None for a ConfigurationError. It may not raise anything else."""
    try:
        return read()
    except ConfigurationError as error:
        if not error.faults or not str(error):
            raise
        return None


@settings(max_examples=1500)
@given(odd_documents())
def test_an_odd_document_is_accepted_or_rejected(document):
    reading = readable(lambda: read_document_of(Document(document), Catalog()))
    if reading is None:
        return
    build_profiles(reading.configuration, OfflineHandle(ClusterState()))
    text = to_yaml(reading.configuration, Catalog())
    again = read_document_of(read_document(text), Catalog()).configuration
    assert to_yaml(again, Catalog()) == text


@settings(max_examples=500)
@given(st.text() | st.binary().map(lambda raw: raw.decode("latin-1")))
def test_any_text_is_accepted_or_rejected(text):
    readable(lambda: read_document(text))


@settings(max_examples=200)
@given(st.sampled_from(DOCUMENTS), st.data())
def test_a_truncated_document_is_accepted_or_rejected(document, data):
    text = yaml.safe_dump(document)
    cut = text[: data.draw(st.integers(0, len(text)))]
    readable(lambda: read_document_of(read_document(cut), Catalog()))

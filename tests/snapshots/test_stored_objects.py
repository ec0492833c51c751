"""How objects are kept in snapshots: JSON that need not change is kept as it is, with the same key."""

import json

import pytest
from tests.support.tables import cases

from bayplan.answers.snapshots import documents
from bayplan.answers.snapshots.documents import stored
from bayplan.answers.snapshots.reading import SnapshotError
from bayplan.core.api.kinds import NODE, POD

NAMED = {"name": "a", "namespace": "n"}
TABLE = {
    "as it is kept": (POD, {"metadata": NAMED, "spec": {"x": 1}}, True),
    "a node": (NODE, {"metadata": {"name": "a"}}, True),
    "with a kind": (POD, {"kind": "Pod", "apiVersion": "v1", "metadata": NAMED}, False),
    "with managedFields": (POD, {"metadata": {**NAMED, "managedFields": [{}]}}, False),
    "without a namespace": (POD, {"metadata": {"name": "a"}}, False),
    "a node with a namespace": (NODE, {"metadata": {"name": "a", "namespace": "n"}}, False),
}


@cases("kind, document, unchanged", TABLE)
def test_object_is_kept_without_what_needs_no_place(kind, document, unchanged, monkeypatch):
    raw = json.dumps(document, separators=(",", ":")).encode()
    key, kept = stored(kind, raw)
    found = json.loads(kept)
    assert (kept is raw) is unchanged
    assert found.keys() == document.keys() - {"kind", "apiVersion"}
    assert "managedFields" not in found["metadata"]
    monkeypatch.setattr(documents, "_as_stored", lambda *_: None)
    assert stored(kind, raw) == (key, kept)


def test_indented_object_becomes_one_line():
    _, kept = stored(POD, json.dumps({"metadata": NAMED}, indent=2).encode())
    assert kept == b'{"metadata":{"name":"a","namespace":"n"}}'


@pytest.mark.parametrize(
    "raw", [b"{", b"[]", b'{"metadata":{}}', b'{"metadata":{"name":1}}', b'{"metadata":{"name":""}}']
)
def test_object_that_cannot_be_kept_is_an_error(raw):
    with pytest.raises(SnapshotError, match="Pod: "):
        stored(POD, raw)

"""Snapshots of files: YAML and JSON in all their forms, and errors that name the place."""

import io
import json
import os
import sys
import threading
from contextlib import suppress
from datetime import UTC, datetime

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from tests.insight.bayplan_documents import document
from tests.support.tables import cases

from bayplan.core.api.kinds import NODE, POD, SECRET
from bayplan.insight import Snapshot, SnapshotError
from bayplan.running.recording.places import is_recording

NODE_A = document("Node", "a", namespace="", status={"allocatable": {"cpu": "4"}})
WEB = document("Pod", "web", namespace="shop", spec={"containers": []})
JOB = document("Pod", "job", spec={"containers": [], "nodeName": "a"})
OBJECTS = [NODE_A, WEB, JOB]


def listed(kind="List", **fields):
    return {"apiVersion": "v1", "kind": kind, **fields}


def bare(obj):
    return {field: value for field, value in obj.items() if field not in {"apiVersion", "kind"}}


FORMS = {
    "YAML documents": yaml.dump_all(OBJECTS),
    "YAML documents with empty ones": "---\n---\n" + yaml.dump_all(OBJECTS) + "---\n# nothing\n",
    "a YAML list": yaml.dump(listed(items=OBJECTS)),
    "a YAML list with aliases": yaml.dump(listed(items=[*OBJECTS, WEB])),
    "YAML in braces": "{apiVersion: v1, kind: List, items: " + json.dumps(OBJECTS) + "}",
    "a JSON list": json.dumps(listed(items=OBJECTS)),
    "an indented JSON list": json.dumps(listed(items=OBJECTS), indent=4),
    "JSON documents in a row": "".join(map(json.dumps, OBJECTS)),
    "JSON documents on lines": "\n".join(map(json.dumps, OBJECTS)) + "\n",
    "JSON documents with separators": "\n---\n".join(json.dumps(each, indent=2) for each in OBJECTS),
    "JSON lists in a row": json.dumps(listed(items=OBJECTS[:1])) + "\n" + json.dumps(listed(items=OBJECTS[1:])),
    "typed JSON lists": json.dumps(listed("NodeList", items=[bare(NODE_A)]))
    + json.dumps(listed("PodList", items=[bare(WEB), bare(JOB)])),
    "typed YAML lists": yaml.dump_all(
        [listed("NodeList", items=[bare(NODE_A)]), listed("PodList", items=[bare(WEB), bare(JOB)])]
    ),
    "nested YAML lists": yaml.dump(listed(items=[NODE_A, listed(items=[WEB, JOB])])),
    "nested JSON lists": json.dumps(listed(items=[NODE_A, listed(items=[WEB, JOB])])),
    "a byte order mark": "\ufeff" + yaml.dump_all(OBJECTS),
    "an empty list": json.dumps(listed(items=None)) + json.dumps(listed(items=OBJECTS)),
}


@cases("text", FORMS)
def test_all_forms_of_a_file_give_the_same_objects(tmp_path, text):
    path = tmp_path / "dump"
    path.write_text(text)
    snapshot = Snapshot.open(path)

    assert list(snapshot.objects()) == OBJECTS
    assert snapshot.source == str(path)


def test_standard_input_is_read(monkeypatch):
    class Input:
        buffer = io.BytesIO(yaml.dump_all(OBJECTS).encode())

    monkeypatch.setattr(sys, "stdin", Input)
    snapshot = Snapshot.open("-")

    assert len(snapshot) == 3
    assert snapshot.source == "standard input"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
def test_pipe_is_read_as_in_a_shell(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=(yaml.dump_all(OBJECTS),))
    writer.start()
    assert not is_recording(pipe)
    snapshot = Snapshot.open(pipe)
    writer.join()

    assert list(snapshot.objects()) == OBJECTS


def test_saved_snapshot_in_a_folder_says_what_it_is(tmp_path):
    Snapshot.of(OBJECTS).save(tmp_path / "saved.json.gz")
    with pytest.raises(SnapshotError, match=r"saved.json.gz is a saved snapshot: pass it alone, as a file"):
        Snapshot.open(tmp_path)


def test_files_and_folders_are_read_together(tmp_path):
    (tmp_path / "objects" / "deep").mkdir(parents=True)
    (tmp_path / "objects" / "node.yaml").write_text(yaml.dump(NODE_A))
    (tmp_path / "objects" / "deep" / "web.json").write_text(json.dumps(WEB))
    (tmp_path / "objects" / "notes.txt").write_text("not an object")
    (tmp_path / "job").write_text(yaml.dump(JOB))
    progress = []
    snapshot = Snapshot.from_files(tmp_path / "objects", tmp_path / "job", progress=lambda *each: progress.append(each))

    assert sorted(snapshot.objects(), key=str) == sorted(OBJECTS, key=str)
    assert progress == [("objects", 3)]
    assert isinstance(snapshot.taken, datetime)
    assert snapshot.taken.tzinfo is UTC


def test_last_of_two_versions_of_an_object_counts(tmp_path):
    path = tmp_path / "dump.yaml"
    changed = document("Node", "a", namespace="", spec={"unschedulable": True})
    path.write_text(yaml.dump_all([NODE_A, changed]))

    assert Snapshot.from_files(path).document(NODE, "a") == changed


def test_secrets_of_a_dump_are_left_out(tmp_path):
    path = tmp_path / "dump.json"
    path.write_text(json.dumps(listed(items=[WEB, document("Secret", "password", data={"key": "c2VjcmV0"})])))
    snapshot = Snapshot.from_files(path)

    assert list(snapshot.documents) == [POD]
    assert not snapshot.of_kind(SECRET)


POD_LINES = json.dumps(WEB, indent=1)
BROKEN = {
    "no such file": (None, ": No such file or directory"),
    "cut-off JSON": (POD_LINES[:-20], ", document 1 (line 9): the file ends in the middle of an object"),
    "cut-off second JSON document": (POD_LINES + "\n" + POD_LINES[:-20], ", document 2 (line 20): the file ends in"),
    "JSON cut off in a string": ('{"kind": "Po\n', ", document 1 (line 1): the file ends in the middle of an object"),
    "malformed JSON": ('{"kind":\n"Pod",\n,}', ", document 1 (line 3): not valid JSON: object keys must be strings"),
    "text after JSON": (POD_LINES + "\nend", ", document 2 (line 12): not valid JSON: invalid character"),
    "a number for the kind": ('{"kind": 3}', ", document 1 (line 1): Expected `str`, got `int` - at `$.kind`"),
    "JSON without a kind": ('{"apiVersion": "v1"}', ", document 1 (line 1): kind is missing"),
    "JSON item that is no object": (
        json.dumps(listed(items=[3])),
        ", document 1 (line 1), item 1: Expected `object`, got `int`",
    ),
    "YAML without a name": (
        "apiVersion: v1\nkind: Pod\nmetadata: {}\n",
        ", document 1 (line 1): Pod: metadata.name is missing",
    ),
    "malformed YAML": ("apiVersion: v1\nkind: [\n", ", document 1 (line 2): not valid YAML"),
    "a YAML list without kind": ("- a\n- b\n", ", document 1 (line 1): expected an object with apiVersion and kind"),
    "text": ("hello", ", document 1 (line 1): expected an object with apiVersion and kind, not 'hello'"),
    "bytes": (b"kind: Pod\nname: \xff", ": not a text file in UTF-8: line 2 has byte 0xff"),
    "an object inside itself": (
        "apiVersion: v1\nkind: Pod\nmetadata: &x {name: a, labels: *x}\n",
        ", document 1: its aliases expand to too many values",
    ),
    "aliases of aliases": (
        "a: &a [x, x, x, x, x, x, x, x]\n"
        + "".join(f"{b}: &{b} [{', '.join([f'*{a}'] * 8)}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)),
        ", document 1: its aliases expand to too many values",
    ),
    "deep YAML": ("a: " + "[" * 100_000, ", document 1: nested too deeply"),
    "deep JSON": ('{"a": ' + "[" * 100_000 + "]" * 100_000 + "}", ", document 1 (line 1): nested too deeply"),
}


@cases("content, message", BROKEN)
def test_error_names_file_document_and_line(tmp_path, content, message):
    path = tmp_path / "dump"
    if content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(SnapshotError) as raised:
        Snapshot.open(path)

    assert str(raised.value).startswith(f"{path}{message}")
    assert "\n" not in str(raised.value)


LEFT_OUT = {
    "JSON item without a version": (
        json.dumps(listed(items=[WEB, {"kind": "Pod"}])),
        ", document 1 (line 1), item 2: apiVersion is missing",
    ),
    "item of a nested list": (
        json.dumps(listed(items=[WEB, listed(items=[3])])),
        ", document 1 (line 1), item 2, item 1: Expected `object`, got `int`",
    ),
    "unknown kind in JSON": (
        POD_LINES + "\n" + json.dumps(document("Pood", "a")),
        ", document 2 (line 12): there is no kind Pood in v1: did you mean 'Pod'?",
    ),
    "unknown kind in YAML": (
        yaml.dump_all([WEB, document("Deployment", "web")]),
        ", document 2 (line 9): there is no kind Deployment in v1; Deployment is in apps/v1",
    ),
    "YAML item without a name": (
        yaml.dump(listed(items=[{"apiVersion": "v1", "kind": "Pod", "metadata": {}}, WEB])),
        ", document 1 (line 1), item 1: Pod: metadata.name is missing",
    ),
    "removed API version": (
        yaml.dump_all([WEB, document("Deployment", "web", "extensions/v1beta1")]),
        ", document 2 (line 9): there is no kind Deployment in extensions/v1beta1; Deployment is in apps/v1",
    ),
}


@cases("content, message", LEFT_OUT)
def test_unusable_object_costs_only_itself(tmp_path, content, message):
    path = tmp_path / "dump"
    path.write_text(content)
    snapshot = Snapshot.open(path)

    assert snapshot.problems == (f"{path}{message}",)
    assert list(snapshot.of_kind(POD)) == ["shop/web"]


def test_folder_without_objects_is_an_error(tmp_path):
    with pytest.raises(SnapshotError, match="no file in this directory ends in"):
        Snapshot.open(tmp_path)


@given(st.data())
def test_cut_off_or_damaged_dump_never_crashes(tmp_path_factory, data):
    whole = data.draw(st.sampled_from([text.encode() for text in FORMS.values()]))
    end = data.draw(st.integers(0, len(whole)))
    noise = data.draw(st.binary(max_size=3))
    path = tmp_path_factory.mktemp("dump") / "dump"
    path.write_bytes(whole[:end] + noise)
    with suppress(SnapshotError):
        Snapshot.open(path)

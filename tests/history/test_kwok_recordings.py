import gzip
from datetime import timedelta
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from tests.history.small_histories import node, pod

from bayplan.answers.history.events import NodeChanged, PodEnded
from bayplan.answers.history.reading import History
from bayplan.answers.history.sources.kwok import import_kwok, is_kwok_recording
from bayplan.answers.history.sources.trace import BEGIN
from bayplan.faces.cli import main

PODS = {"version": "v1", "resource": "pods"}
NODES = {"version": "v1", "resource": "nodes"}


def patch(seconds: float, method: str, name: str, template: object = None, resource: object = None) -> dict:
    """A ResourcePatch as kwok 0.6 and newer write it."""
    return {
        "apiVersion": "action.kwok.x-k8s.io/v1alpha1",
        "kind": "ResourcePatch",
        "resource": resource or PODS,
        "target": {"name": name} if resource else {"name": name, "namespace": "default"},
        "durationNanosecond": int(seconds * 1e9),
        "method": method,
        **({} if template is None else {"template": template}),
    }


def as_of_old(document: dict) -> dict:
    """The same as kwok 0.5 wrote it."""
    if document["kind"] != "ResourcePatch":
        return document
    old = {"apiVersion": "kwok.x-k8s.io/internal", "kind": "ResourcePatch"}
    target = {**document["target"], "type": document["resource"]}
    flags = {document["method"]: True} if document["method"] != "patch" else {}
    template = {"patch": document["template"]} if "template" in document else {}
    return {**old, "target": target, "durationNanosecond": document["durationNanosecond"], **flags, **template}


def offset(seconds: float) -> str:
    return f"$(time-offset-nanosecond {int(seconds * 1e9)})"


def created(name: str, when: str) -> dict:
    new = {"apiVersion": "v1", "kind": "Pod", **pod(name)}
    new["metadata"]["creationTimestamp"] = when
    return new


def stream(when=offset) -> list[dict]:
    return [
        {"apiVersion": "v1", "kind": "Node", **node("a")},
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "default"}},
        {"apiVersion": "v1", "kind": "Pod", **pod("old", on="a", phase="Running", startTime=when(-5))},
        patch(10.5, "create", "new", created("new", when(10.5))),
        patch(12, "patch", "new", {"spec": {"nodeName": "a"}}),
        patch(15, "patch", "a", {"metadata": {"labels": {"tier": "gold"}}}, NODES),
        patch(20, "patch", "old", {"status": {"phase": "Succeeded"}}),
        patch(30, "delete", "new"),
    ]


def written(path: Path, documents: list[dict]) -> Path:
    text = "---\n".join(yaml.safe_dump(each, sort_keys=True) for each in documents)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def happened(history: History) -> list[tuple[float, str, str]]:
    return [
        ((event.time - history.begin).total_seconds(), type(event).__name__, getattr(event, "key", "") or event.name)
        for event in history.events()
    ]


EXPECTED = [
    (10.5, "PodArrived", "default/new"),
    (12.0, "PodBound", "default/new"),
    (15.0, "NodeChanged", "a"),
    (20.0, "PodEnded", "default/old"),
    (30.0, "PodEnded", "default/new"),
]


@pytest.mark.parametrize("name", ["cluster.yaml", "cluster.yaml.gz"])
@pytest.mark.parametrize("form", [lambda document: document, as_of_old], ids=["now", "kwok 0.5"])
def test_changes_become_events(tmp_path: Path, name: str, form) -> None:
    path = written(tmp_path / name, [form(each) for each in stream()])
    assert is_kwok_recording(path)
    _, problems = import_kwok(path, tmp_path / "h")
    history = History.open(tmp_path / "h")
    assert problems == []
    assert happened(history) == EXPECTED
    assert history.begin == BEGIN
    assert history.notes == (f"the recording has no dates: its start counts as {BEGIN:%Y-%m-%d}",)
    ends = [event.reason for event in history.events() if isinstance(event, PodEnded)]
    assert ends == ["Succeeded", "Deleted"]
    (changed,) = (event for event in history.events() if isinstance(event, NodeChanged))
    assert changed.document["metadata"]["labels"] == {"tier": "gold"}
    start = history.start()
    assert {key for known in start.documents.values() for key in known} == {"a", "default/old"}


def test_dates_are_used_where_they_are_left(tmp_path: Path) -> None:
    began = BEGIN + timedelta(days=40)
    path = written(
        tmp_path / "c.yaml", stream(lambda seconds: (began + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ"))
    )
    import_kwok(path, tmp_path / "h")
    history = History.open(tmp_path / "h")
    assert abs(history.begin - began) < timedelta(seconds=1)
    assert history.notes == ()
    assert happened(history) == EXPECTED


def test_odd_changes_cost_themselves_only(tmp_path: Path) -> None:
    odd = [
        patch(1, "patch", "unknown", {"spec": {}}),
        patch(2, "explode", "new"),
        {**patch(3, "delete", "new"), "target": None},
        patch(4, "patch", "old", {"spec": {"$patch": "explode"}}),
        patch(5, "create", "nameless", {"metadata": {}}),
    ]
    path = written(tmp_path / "c.yaml", [*stream(), *odd])
    _, problems = import_kwok(path, tmp_path / "h")
    assert happened(History.open(tmp_path / "h")) == EXPECTED
    assert [line.partition(" (")[0] for line in problems] == [
        "a change of an object that isn't in the recording: left out",
        "a ResourcePatch without resource, name, method or time: left out",
        "a patch can't be applied to what is known: left out",
        "an object has no name: left out",
    ]


def test_what_is_before_the_damage_is_used(tmp_path: Path) -> None:
    path = written(tmp_path / "c.yaml", stream())
    path.write_text(path.read_text() + "---\nkind: {]\n")
    _, (problem,) = import_kwok(path, tmp_path / "h")
    assert "not valid YAML" in problem
    assert problem.endswith("what follows is missing")
    assert happened(History.open(tmp_path / "h")) == EXPECTED


def test_command_knows_it_by_its_content(tmp_path: Path) -> None:
    path = written(tmp_path / "recorded", stream())
    done = CliRunner().invoke(main, ["history", "import", str(path), "--to", str(tmp_path / "h")])
    assert "2 pods and 1 nodes" in done.output
    both = CliRunner().invoke(main, ["history", "import", str(path), str(path), "--to", str(tmp_path / "i")])
    assert "is imported alone" in both.output
    plain = written(tmp_path / "plain.yaml", stream()[:3])
    assert not is_kwok_recording(plain)
    assert not is_kwok_recording(tmp_path)

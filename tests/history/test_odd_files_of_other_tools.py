"""Files of other tools with odd values anywhere: they cost themselves only, or the file is refused in one line."""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.history.small_histories import node, pod
from tests.history.test_k8shark_captures import NODES, PODS, Capture, versioned
from tests.history.test_kwok_recordings import stream, written
from tests.history.test_simkube_traces import CRON_JOB, START, deployment, event, trace

from bayplan.answers.history.format import HistoryError
from bayplan.answers.history.sources.k8shark import import_k8shark
from bayplan.answers.history.sources.kwok import import_kwok
from bayplan.answers.history.sources.simkube import import_simkube

ODD = st.sampled_from(
    [None, True, -1, 0, 2**40, 2**62, 1.5, "", "x", "9" * 30, [], {}, [None], [3], {"": None}, {"a": []}]
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, each in inner for place in places(each, (*path, key)))]


def replaced(value: Any, path: tuple[Any, ...], odd: Any) -> Any:
    if not path:
        return odd
    changed = copy.copy(value)
    changed[path[0]] = replaced(value[path[0]], path[1:], odd)
    return changed


def simkube(path: Path, found: Any) -> Callable[..., object]:
    path.write_bytes(msgspec.msgpack.encode(found))
    return import_simkube


def kwok(path: Path, found: Any) -> Callable[..., object]:
    written(path, found if isinstance(found, list) else [found])
    return import_kwok


def k8shark(path: Path, found: Any) -> Callable[..., object]:
    capture = Capture()
    capture.index["/api/v1/services"] = found["entry"]
    capture.listed(0, NODES, node("a"))
    capture.listed(1, PODS, *found["first"]) if isinstance(found["first"], list) else None
    capture.listed(9, PODS, found["new"])
    capture.event(10, PODS, "MODIFIED", found["changed"])
    capture.event(11, PODS, "DELETED", found["gone"])
    capture.save(path, **(found["metadata"] if isinstance(found["metadata"], dict) else {}))
    return import_k8shark


LIVES = {("batch/v1.CronJob", "shop/report"): {7: [{"Finished": [START + 1, START + 2]}, {"Running": START}]}}
FILES = {
    "simkube": (
        simkube,
        trace(event(0, deployment(2), CRON_JOB), event(60, deleted=(deployment(2),)), lifecycles=LIVES),
    ),
    "kwok": (kwok, stream()),
    "k8shark": (
        k8shark,
        {
            "entry": {"seqs": [0], "times": ["2026-03-02T08:00:00Z"]},
            "metadata": {"format_version": 2, "captured_until": "2026-03-02T08:00:00Z"},
            "first": [versioned(pod("old", on="a"), 3)],
            "new": versioned(pod("new", on="a"), 4, created=5),
            "changed": versioned(pod("new", on="a", phase="Failed"), 5),
            "gone": versioned(pod("old"), 6),
        },
    ),
}


@pytest.mark.parametrize("tool", FILES)
@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_odd_values_do_no_harm(tool: str, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    write, valid = FILES[tool]
    folder = tmp_path_factory.mktemp("odd")
    where = data.draw(st.sampled_from([place for place in places(valid) if place]))
    import_file = write(folder / "file", replaced(valid, where, data.draw(ODD)))
    try:
        import_file(folder / "file", folder / "h")
    except HistoryError as error:
        assert "\n" not in str(error)  # noqa: PT017 - it may also be imported

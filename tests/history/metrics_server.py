"""A story as kube-state-metrics tells it, and two servers that answer about it: a small one, and a real Prometheus.

The small one evaluates the few forms of queries that the import sends. A test compares both.
"""

import json
import re
import shutil
import socket
import subprocess
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
from tests.history.small_histories import BEGIN, at
from tests.support.waiting import eventually

HOUR = 3600
END = at(5 * HOUR)
SCRAPE = 30
Samples = dict[tuple[str, tuple[tuple[str, str], ...]], list[tuple[float, float]]]
"""(metric, labels) -> (seconds since the epoch, value)"""


class Story:
    """Samples by metric and labels."""

    def __init__(self) -> None:
        self.samples: Samples = {}

    def add(self, metric: str, value: float, begin: float, end: float, **labels: str) -> None:
        """A series that is scraped from `begin` to `end`, in seconds since the start."""
        found = self.samples.setdefault((metric, tuple(sorted(labels.items()))), [])
        origin = BEGIN.timestamp()
        found += [(origin + second, value) for second in range(int(begin), int(end), SCRAPE)]

    def node(self, name: str, begin: float, end: float, cpu: float = 4) -> None:
        self.add("kube_node_info", 1, max(begin, 0), end, node=name, kernel_version="6.1")
        self.add("kube_node_created", at(begin).timestamp(), max(begin, 0), end, node=name)
        for resource, unit, value in (("cpu", "core", cpu), ("memory", "byte", 2**34), ("pods", "integer", 110)):
            amount = {"node": name, "resource": resource, "unit": unit}
            self.add("kube_node_status_allocatable", value, max(begin, 0), end, **amount)
        zone = {"node": name, "label_topology_kubernetes_io_zone": "z1"}
        self.add("kube_node_labels", 1, max(begin, 0), end, **zone)

    def pod(
        self,
        name: str,
        created: float,
        bound: float,
        end: float,
        *,
        node: str = "a",
        done: str = "",
        owner: str = "web",
    ) -> None:
        begin = max(created, 0)
        pod = {"namespace": "default", "pod": name, "uid": f"uid-{name}"}
        info = {**pod, "created_by_kind": "ReplicaSet", "created_by_name": owner, "host_network": "false"}
        if bound > begin:
            self.add("kube_pod_info", 1, begin, bound, **info, node="")
        self.add("kube_pod_info", 1, max(bound, 0), end, **info, node=node)
        self.add("kube_pod_created", at(created).timestamp(), begin, end, **pod)
        self.add("kube_pod_status_scheduled_time", at(bound).timestamp(), max(bound, 0), end, **pod)
        for resource, unit, value in (("cpu", "core", 0.5), ("memory", "byte", 2**27)):
            amount = {**pod, "container": "main", "node": node, "resource": resource, "unit": unit}
            self.add("kube_pod_container_resource_requests", value, max(bound, 0), end, **amount)
        if done:
            self.add("kube_pod_completion_time", at(end - 300).timestamp(), end - 300, end, **pod)
            self.add("kube_pod_status_phase", 1, end - 300, end, **pod, phase=done)

    def openmetrics(self) -> str:
        """The text that promtool makes blocks from."""
        lines: list[str] = []
        for metric in sorted({metric for metric, _ in self.samples}):
            lines.append(f"# TYPE {metric} gauge")
            for (name, labels), samples in sorted(self.samples.items()):
                if name == metric:
                    text = ",".join(f'{key}="{value}"' for key, value in labels)
                    lines += [f"{metric}{{{text}}} {value!r} {moment!r}" for moment, value in samples]
        return "\n".join([*lines, "# EOF", ""])


def usual_story() -> Story:
    """Two nodes, of which b comes and goes; a pod that is older, one that completes, one that is deleted."""
    story = Story()
    story.node("a", -HOUR, 5 * HOUR)
    story.node("b", HOUR, 3 * HOUR, cpu=8)
    story.pod("old", -600, -590, 5 * HOUR)
    story.pod("done", 600, 630, 7200, done="Succeeded")
    story.pod("gone", 1200, 1260, 9000, node="b")
    return story


ROWS = [
    ("node_added", "a", 0, "", ""),
    ("pod_arrived", "old", 0, "", ""),
    ("pod_bound", "old", 0, "a", ""),
    ("pod_arrived", "done", 600, "", ""),
    ("pod_bound", "done", 630, "a", ""),
    ("pod_arrived", "gone", 1200, "", ""),
    ("pod_bound", "gone", 1260, "b", ""),
    ("node_added", "b", 3600, "", ""),
    ("pod_ended", "done", 6900, "", "Succeeded"),
    ("pod_ended", "gone", 8970, "", "Deleted"),
    ("node_removed", "b", 10770, "", ""),
]
"""What the usual story is: event, name, seconds, node, reason."""

_SELECTOR = r"(?P<metric>\w+)(?:\{phase=~\"(?P<phases>[\w|]+)\"\})?"
_FORMS = {
    "last": re.compile(rf"last_over_time\({_SELECTOR}\[(?P<window>\d+)s\]\)"),
    "max": re.compile(rf"max_over_time\({_SELECTOR}\[(?P<window>\d+)s\]\) == 1"),
    "seen": re.compile(rf"max_over_time\(timestamp\({_SELECTOR}\)\[(?P<window>\d+)s:60s\]\)"),
    "count": re.compile(rf"count\({_SELECTOR}\)"),
}
LOOK_BACK = 300
"""Seconds for which Prometheus takes the last sample of a series."""


def evaluate(samples: Samples, query: str, start: float, end: float, step: float) -> list[dict[str, Any]]:
    """The result of a range query."""
    form, match = next((form, found) for form, pattern in _FORMS.items() if (found := pattern.fullmatch(query)))
    chosen = {
        labels: values
        for (metric, labels), values in samples.items()
        if metric == match["metric"]
        and (not match["phases"] or dict(labels).get("phase") in match["phases"].split("|"))
    }
    moments = [start + index * step for index in range(int((end - start) / step) + 1)]
    if form == "count":
        counts = [
            (m, sum(any(m - LOOK_BACK < t <= m for t, _ in values) for values in chosen.values())) for m in moments
        ]
        values = [[m, str(number)] for m, number in counts if number]
        return [{"metric": {}, "values": values}] if values else []
    results = []
    for labels, values in chosen.items():
        points = []
        for m in moments:
            window = [(t, value) for t, value in values if m - float(match["window"]) < t <= m]
            if form == "last" and window:
                points.append([m, repr(window[-1][1])])
            elif form == "max" and window and max(value for _, value in window) == 1:
                points.append([m, "1"])
            elif form == "seen" and window:
                points.append([m, repr(window[-1][0])])
        if points:
            results.append({"metric": dict(labels), "values": points})
    return results


@contextmanager
def small_server(samples: Samples, *, reply: tuple[int, bytes] | None = None) -> Iterator[str]:
    """A server with these samples. `reply`: what it answers instead, whatever it is asked."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
            asked = {name: values[0] for name, values in body.items()}
            status, text = reply or (200, b"")
            if not reply:
                numbers = (float(asked[name]) for name in ("start", "end", "step"))
                result = evaluate(samples, asked["query"], *numbers)
                data = {"resultType": "matrix", "result": result}
                text = json.dumps({"status": "success", "data": data}).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def real_server(story: Story, folder: Path) -> Iterator[str]:
    """A real Prometheus with these samples. Skips the test where there is none."""
    program, tool = shutil.which("prometheus"), shutil.which("promtool")
    if program is None or tool is None:
        pytest.skip("there is no prometheus and promtool on the PATH")
    (folder / "samples.txt").write_text(story.openmetrics())
    make = [tool, "tsdb", "create-blocks-from", "openmetrics", folder / "samples.txt", folder / "data"]
    subprocess.run(make, check=True, capture_output=True)
    (folder / "prometheus.yml").write_text("{}\n")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    options = [
        f"--config.file={folder}/prometheus.yml",
        f"--storage.tsdb.path={folder}/data",
        "--storage.tsdb.retention.time=100y",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    process = subprocess.Popen([program, *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        url = f"http://127.0.0.1:{port}"

        def ready():
            try:
                with urllib.request.urlopen(f"{url}/-/ready", timeout=5):
                    return True
            except OSError:
                return False

        eventually(ready, step=0.1)
        yield url
    finally:
        process.terminate()
        process.wait()

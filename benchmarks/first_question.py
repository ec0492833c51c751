#!/usr/bin/env python3
"""Measures how long a first question takes, from the start of the command to its end.

    benchmarks/first_question.py                      # 300 nodes, 4,000 pods of 3 kB
    benchmarks/first_question.py --nodes 1000 --pods 20000 --runs 9
    benchmarks/first_question.py --imports explain    # the slowest imports of a question

Each question is asked about a saved snapshot, and about a live cluster, which an embedded API server in another process
serves over TLS. The figures are the fastest and the median of the runs, in seconds. All times are elapsed times; quote
them with the machine.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from bayplan.insight import Snapshot
from served_cluster import served
from workload_cluster import HOSTNAME, ZONE, Document, owner, owner_reference

APPS, PENDING = 40, 20
QUESTIONS = {
    "explain": ["explain", "default/pending-0"],
    "explain a placed pod": ["explain", "default/web-0"],
    "explain all pending": ["explain", "--all-pending"],
    "why-not": ["why-not", "default/pending-0", "node-1"],
    "fit": ["fit", "-f", "new.json"],
    "capacity": ["capacity", "-f", "new.json", "--most", "100"],
    "shrink": ["shrink"],
    "scale-up": ["scale-up"],
    "drain": ["drain", "node-0", "--force", "--delete-emptydir-data"],
    "what-if": ["what-if", "--cordon", "node-1"],
    "usage": ["usage"],
    "balance": ["balance"],
}


def main() -> None:
    """Ask each question some times, and print the figures."""
    options = _options()
    with tempfile.TemporaryDirectory(prefix="bayplan-benchmark-") as name:
        folder = Path(name)
        new = _pod("new-0", 0)
        new["metadata"].pop("ownerReferences")
        (folder / "new.json").write_text(json.dumps(new), encoding="utf-8")
        with served(folder, cluster, options.nodes, options.pods) as kubeconfig:
            Snapshot.from_cluster(kubeconfig).save(folder / "cluster.bayplan")
            if options.imports:
                _show_imports_of(folder, options.imports)
                return
            print(f"{options.nodes:,} nodes, {options.pods:,} pods; fastest and median of {options.runs} runs, in s")
            print(f"{'':22}{'snapshot':>14}{'live cluster':>16}")
            for question, arguments in QUESTIONS.items():
                figures = [_measured(folder, arguments, each, options.runs) for each in _sources(kubeconfig)]
                shown = "".join(f"{min(each):9.2f} {statistics.median(each):5.2f}" for each in figures)
                print(f"{question:22}{shown}", flush=True)


def _sources(kubeconfig: Path) -> list[list[str]]:
    return [["--from", "cluster.bayplan"], ["--kubeconfig", str(kubeconfig)]]


def _measured(folder: Path, arguments: Sequence[str], source: Sequence[str], runs: int) -> list[float]:
    """Return the seconds of each run."""
    found = []
    for _ in range(runs):
        began = time.perf_counter()
        done = _run(folder, *arguments, *source)
        found.append(time.perf_counter() - began)
        if done.returncode not in {0, 1}:
            raise SystemExit(done.stderr)
    return found


def _run(folder: Path, *arguments: str, python: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *python, str(Path(sys.executable).with_name("bayplan")), *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)  # noqa: S603 - bayplan


def _show_imports_of(folder: Path, question: str) -> None:
    done = _run(folder, *QUESTIONS[question], "--from", "cluster.bayplan", python=("-X", "importtime"))
    show_imports(done.stderr)


def show_imports(log: str) -> None:
    """Print the modules whose own import takes longest, in milliseconds, of what `-X importtime` writes."""
    rows = []
    for line in log.splitlines():
        own, _, rest = line.removeprefix("import time:").partition("|")
        if line.startswith("import time:") and own.strip().isdigit():
            rows.append((int(own), *rest.split("|")))
    print(f"{sum(row[0] for row in rows) / 1000:.0f} ms in {len(rows)} modules")
    for own, whole, module in sorted(rows, reverse=True)[:40]:
        print(f"{own / 1000:8.1f} {int(whole) / 1000:8.1f} {module.rstrip()}")


# The cluster


def cluster(nodes: int, pods: int) -> Iterator[Document]:
    """Yield the objects: the pods of some workloads, nearly all of them placed."""
    for number in range(APPS):
        yield owner(f"web-{number}", "app:1")
    for number in range(nodes):
        yield _node(number)
    for number in range(pods):
        pending = number < PENDING
        pod = _pod(f"pending-{number}" if pending else f"web-{number - PENDING}", number)
        if pending:
            pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "40"
        else:
            pod["spec"]["nodeName"] = f"node-{number % nodes}"
        pod["status"] = _status("Pending" if pending else "Running")
        yield pod


def _node(number: int) -> Document:
    room = {"cpu": "32", "memory": "128Gi", "pods": "110", "ephemeral-storage": "100Gi"}
    labels = {HOSTNAME: f"node-{number}", ZONE: f"zone-{number % 3}", "node.kubernetes.io/instance-type": "m5.8xlarge"}
    images = [
        {
            "names": [f"registry.example/app-{each}@sha256:{each:064}", f"registry.example/app-{each}:1"],
            "sizeBytes": 10**8,
        }
        for each in range(number % 7, number % 7 + 20)
    ]
    conditions = [
        {
            "type": each,
            "status": "True" if each == "Ready" else "False",
            "reason": f"Kubelet{each}",
            "message": "kubelet",
        }
        for each in ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")
    ]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": f"node-{number}", "labels": labels, "annotations": {"volumes": "attach-detach"}},
        "spec": {"taints": [{"key": "dedicated", "value": "x", "effect": "NoSchedule"}]} if number % 10 == 0 else {},
        "status": {"allocatable": room, "capacity": room, "images": images, "conditions": conditions},
    }


def _pod(name: str, number: int) -> Document:
    app = f"web-{number % APPS}"
    selector = {"matchLabels": {"app": app}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "default",
            "labels": {"app": app, "pod-template-hash": f"{number % APPS:010}"},
            "annotations": {"prometheus.io/scrape": "true", "checksum/config": "0" * 64},
            "ownerReferences": [owner_reference(app)],
        },
        "spec": {
            "containers": [_container("main", number), _container("sidecar", 0)],
            "topologySpreadConstraints": [
                {"maxSkew": 5, "topologyKey": ZONE, "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": selector}
            ]
            if number % 3 == 0
            else [],
            "tolerations": [
                {
                    "key": f"node.kubernetes.io/{each}",
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": 300,
                }
                for each in ("not-ready", "unreachable")
            ],
            "volumes": [{"name": "scratch", "emptyDir": {}}, {"name": "config", "configMap": {"name": app}}],
        },
        "status": {"phase": "Pending"},
    }


def _container(name: str, number: int) -> Document:
    probe = {"httpGet": {"path": "/healthz", "port": 8080}, "initialDelaySeconds": 5, "periodSeconds": 10}
    return {
        "name": name,
        "image": f"registry.example/app-{number % APPS}:1",
        "args": ["--listen", ":8080", "--log-format", "json"],
        "env": [{"name": f"SETTING_{each}", "value": f"value-{each}"} for each in range(8)],
        "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
        "resources": {"requests": {"cpu": f"{100 + 50 * (number % 7)}m", "memory": f"{128 * (1 + number % 5)}Mi"}},
        "livenessProbe": probe,
        "readinessProbe": probe,
        "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}, {"name": "config", "mountPath": "/config"}],
    }


def _status(phase: str) -> Document:
    ready = "True" if phase == "Running" else "False"
    time_of = "2026-03-02T00:00:00Z"
    return {
        "phase": phase,
        "conditions": [
            {"type": each, "status": ready, "lastTransitionTime": time_of}
            for each in ("Initialized", "Ready", "ContainersReady", "PodScheduled")
        ],
    }


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=300, help="default: 300")
    parser.add_argument("--pods", type=int, default=4000, help="default: 4,000")
    parser.add_argument("--runs", type=int, default=5, help="how often each question is asked; default: 5")
    parser.add_argument("--imports", choices=QUESTIONS, help="show the imports of a question instead")
    return parser.parse_args()


if __name__ == "__main__":
    main()

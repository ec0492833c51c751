"""Takes the pictures of docs/images/ui-*.png from the running page: `tools/site_screenshots.py FOLDER`.

Without Chromium, it says so and takes none: the site then has the pictures of the repository. With docs/images as the
folder, it renews those. The clusters are made up here, and are the same each time.
"""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import chromium

Document = dict[str, Any]

WORKLOADS = {"search": (14, "2500m", 9), "shop": (22, "1200m", 3), "api": (14, "600m", 1), "cache": (8, "250m", 7)}
"""The workloads of the small cluster: how many pods, and the CPU and the memory in GiB of each."""
WAITING = {"report": (5, "3", 12, {}), "train": (3, "2", 4, {"disk": "nvme"}), "big": (1, "9", 8, {})}
"""Its pending pods: how many, CPU, memory, and the node labels that they want."""
WHAT_IF = "/what-if?add_nodes=2xlike:node-0&cordon=node-0&labels=node-1+disk%3Dnvme"
PICTURES = (
    ("ui-plan.png", "small", "/", 1400, 1010, "light"),
    ("ui-plan-dark.png", "small", "/", 1400, 1010, "dark"),
    ("ui-pod.png", "small", "/pods/default/train-0", 1100, 900, "light"),
    (
        "ui-what-if.png",
        "small",
        WHAT_IF,
        1400,
        1000,
        "light",
    ),
    ("ui-queue.png", "large", "/queue", 1200, 760, "light"),
    ("ui-5000-nodes.png", "large", "/", 1400, 1010, "dark"),
    ("ui-history.png", "history", "/at/600/history", 1400, 1000, "light"),
)
"""Each with the server that has its page, the address, the size and the colors."""


def node(name: str, zone: str, cpu: int = 8, memory: int = 32) -> Document:
    """A ready node."""
    room = {"cpu": str(cpu), "memory": f"{memory}Gi", "pods": "110"}
    labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zone}
    status = {"capacity": room, "allocatable": room, "conditions": [{"type": "Ready", "status": "True"}]}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "status": status}


def pod(workload: str, number: int, cpu: str, memory: int, where: str = "", wanted: Document | None = None) -> Document:
    """A pod of a workload, on a node or pending."""
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": workload, "uid": workload, "controller": True}
    requests = {"cpu": cpu, "memory": f"{memory}Gi"}
    container = {"name": workload, "image": workload, "resources": {"requests": requests}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{workload}-{number}",
            "namespace": "default",
            "uid": f"{workload}-{number}",
            "labels": {"app": workload},
            "ownerReferences": [owner],
        },
        "spec": {
            "containers": [container],
            **({"nodeName": where} if where else {}),
            **({"nodeSelector": wanted} if wanted else {}),
        },
        "status": {"phase": "Running" if where else "Pending"},
    }


def small() -> Iterator[Document]:
    """Twelve nodes in three zones, with four workloads; nine pods wait."""
    names = [f"node-{number}" for number in range(12)]
    for number, name in enumerate(names):
        yield node(name, f"zone-{'abc'[number % 3]}")
    turns = random.Random(4)
    room = {name: [turns.randint(5600, 7800), 31] for name in names}
    for workload, (count, cpu, memory) in WORKLOADS.items():
        for number in range(count):
            millis = int(cpu.removesuffix("m"))
            where = turns.choice([name for name, left in room.items() if left[0] >= millis and left[1] >= memory])
            room[where][0] -= millis
            room[where][1] -= memory
            yield pod(workload, number, cpu, memory, where)
    for workload, (count, cpu, memory, wanted) in WAITING.items():
        for number in range(count):
            yield pod(workload, number, cpu, memory, "", wanted)


def large() -> Iterator[Document]:
    """5,000 nodes of ten zones, and 5,000 pending pods of eight kinds."""
    turns = random.Random(4)
    for number in range(5000):
        name = f"node-{number:04}"
        yield node(name, f"zone-{number % 10}", 16, 64)
        yield pod("fill", number, str(turns.randint(4, 15)), 16, name)
    for kind in range(8):
        for number in range(625):
            yield pod(f"job-{kind}", number, str(9 + 2 * kind), 8, "", {"disk": "nvme"} if kind % 3 == 2 else None)


def written(folder: Path, name: str, objects: Iterator[Document]) -> Path:
    """A file as `kubectl get -o json` prints it."""
    file = folder / f"{name}.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}), encoding="utf-8")
    return file


@contextmanager
def served(source: Path) -> Iterator[str]:
    """The address of a page about a file or a history, with its token."""
    command = [sys.executable, "-m", "bayplan", "ui", "--from", str(source)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603
        try:
            assert process.stdout is not None
            for line in process.stdout:
                if "http://" in line:
                    yield "http://" + line.partition("http://")[2].split()[0]
                    return
            raise SystemExit(f"{' '.join(command)} has ended without an address")
        finally:
            process.terminate()


async def take(into: Path, sources: dict[str, Path], profile: Path) -> None:
    """Take all pictures."""
    with chromium.browser(profile) as devtools:
        for server, source in sources.items():
            with served(source) as address:
                async with chromium.new_tab(devtools) as tab:
                    await tab.open(address)  # the token becomes a cookie
                    origin = address.partition("?")[0].rstrip("/")
                    for name, of, path, width, height, colors in PICTURES:
                        if of != server:
                            continue
                        await tab.size(width, height)
                        await tab.color_scheme(colors)
                        await tab.open(origin + path)
                        await tab.until(
                            "document.fonts.status === 'loaded' && !document.querySelector('[aria-busy=true]')"
                        )
                        (into / name).write_bytes(await tab.screenshot())
                        if tab.errors:
                            raise SystemExit(f"{path}: {tab.errors}")


def main(into: Path) -> None:
    """Make the clusters, and take the pictures."""
    into.mkdir(parents=True, exist_ok=True)
    if chromium.executable() is None:
        sys.stdout.write("There is no Chromium on the PATH: the site has the pictures of the repository.\n")
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        week = folder / "last-week"
        command = [sys.executable, "-m", "bayplan", "history", "sample", str(week), "--days", "1"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)  # noqa: S603
        sources = {
            "small": written(folder, "small", small()),
            "large": written(folder, "large", large()),
            "history": week,
        }
        asyncio.run(take(into, sources, folder / "browser"))
    sys.stdout.write(f"Took {len(PICTURES)} pictures of the page.\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""No file ends a command with a traceback, or makes it take long or much memory: one line says what is wrong.

Each command runs in a process of its own with a limit of memory. What is read is bounded by `bounded_files.py`.
"""

from __future__ import annotations

import gzip
import io
import json
import random
import struct
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support.limited_commands import LimitedCommands
from tests.support.tables import cases

from bayplan.answers.backtest.sample import write_sample
from bayplan.answers.history.sources.simkube import VERSION

MEMORY = 2 * 2**30
SECONDS = 6
"""Of CPU: what is right is 2, on a machine that does nothing else."""
ENDLESS = Path("/dev/zero")
NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "a"},
    "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}},
}
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "namespace": "default"},
    "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
}
CLUSTER = json.dumps({"kind": "List", "apiVersion": "v1", "items": [NODE, POD]}).encode()
AUDIT = json.dumps(
    {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "auditID": "1",
        "stage": "ResponseComplete",
        "verb": "create",
        "objectRef": {"resource": "pods", "namespace": "default", "name": "p"},
        "stageTimestamp": "2026-01-01T00:00:00Z",
        "responseStatus": {"code": 201},
        "responseObject": POD,
    }
).encode()
SIMKUBE = json.dumps({"version": VERSION, "config": {}, "events": [{"ts": 0, "applied_objs": [NODE, POD]}]}).encode()
TRACE = b"arrival_seconds,requests\n0,cpu=1\n"
KWOK = (
    b"apiVersion: action.kwok.x-k8s.io/v1alpha1\nkind: ResourcePatch\nresource: {group: '', resource: pods}\n"
    b"target: {name: p, namespace: default}\ndurationNanosecond: 1\nmethod: create\n"
    b"template: {metadata: {name: p, namespace: default}, spec: {containers: [{name: c}]}}\n"
)


def bomb(head: bytes, unit: bytes = b" " * 2**20, size: int = 200 * 2**20) -> bytes:
    """A small gzip file that inflates to much."""
    file = io.BytesIO()
    with gzip.GzipFile("", "wb", 1, file, mtime=0) as inflated:
        inflated.write(head)
        for _ in range(size // len(unit)):
            inflated.write(unit)
    return file.getvalue()


def tar(name: str, size: int, data: bytes = b"", kind: bytes = tarfile.REGTYPE) -> bytes:
    """A tar archive with a member that says it has a size."""
    member = tarfile.TarInfo(name)
    member.size, member.type = size, kind
    return member.tobuf(tarfile.GNU_FORMAT) + data + b"\0" * 1024


def negative() -> bytes:
    """A tar archive with a member of a negative size."""
    head = bytearray(tar("a.log", 1))
    head[124:136] = b"\xff" * 8 + struct.pack(">i", -5120)
    head[148:156] = b" " * 8
    head[148:156] = b"%06o\0 " % sum(head[:512])
    return bytes(head)


def archived(**members: bytes) -> bytes:
    """A capture of k8shark. A member's name ends with the suffix that entries have."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(f"k8shark-capture/{name.replace('_', '.')}", content)
    return file.getvalue()


def parquet(table: pa.Table) -> bytes:
    file = io.BytesIO()
    pq.write_table(table, file)
    return file.getvalue()


def many_rows() -> bytes:
    number = 3_000_000
    texts = pa.DictionaryArray.from_arrays(pa.array([0] * number, pa.int32()), pa.array(["cpu=1"]))
    return parquet(pa.table({"arrival_seconds": pa.array([0.0] * number), "requests": texts}))


def one_long_row() -> bytes:
    number = 3_000_000
    keys = pa.array(["a"] * number)
    pairs = pa.MapArray.from_arrays(pa.array([0, number], pa.int32()), keys, keys)
    return parquet(pa.table({"arrival_seconds": pa.array([0.0]), "requests": pairs}))


def deep(levels: int = 5000) -> bytes:
    return b'{"a":' + b"[" * levels + b"]" * levels + b"}"


LAUGHS = b"a: &a [x,x,x,x,x,x,x,x,x]\n" + b"".join(
    b"%c: &%c [%s]\n" % (98 + n, 98 + n, b",".join([b"*%c" % (97 + n)] * 9)) for n in range(9)
)
META = json.dumps({"format_version": 1, "captured_at": "2026-01-01T00:00:00Z"}).encode()
ZSTD_BOMB = pa.compress(b"{" + b" " * (200 * 2**20), "zstd", asbytes=True)
FILES: dict[str, tuple[str, Callable[[], bytes]]] = {
    "deep JSON": ("a.json", deep),
    "deep YAML": ("a.yaml", lambda: b"a: " + b"[" * 5000 + b"]" * 5000),
    "deep blocks": ("a.yaml", lambda: b"".join(b" " * n + b"a:\n" for n in range(2000))),
    "aliases": ("a.yaml", lambda: LAUGHS),
    "an alias of itself": ("a.yaml", lambda: b"a: &a [*a]\n"),
    "many documents": ("a.yaml", lambda: b"---\na: 1\n" * 400_000),
    "many empty documents": ("a.yaml", lambda: b"---\n" * 999_000),
    "an odd date": ("a.yaml", lambda: b"a: 2026-13-45\n2026-13-45: 1\n"),
    "tags": ("a.yaml", lambda: b'a: !!timestamp 2026-99-99\nb: !!binary "%%"\nc: !!int ""\n'),
    "a tag of Python": ("a.yaml", lambda: b"a: !!python/object/apply:os.system [ls]\n"),
    "numbers": ("a.yaml", lambda: b"a: 1e308\nb: 1e999\nc: " + b"9" * 5000 + b"\n"),
    "a key that is a list": ("a.yaml", lambda: b"{[1]: 2}\n"),
    "a key that is a boolean": ("a.yaml", lambda: b"true: 1\n"),
    "half a character": ("a.json", lambda: b'{"a":"\\ud800"}'),
    "a large quantity": ("a.json", lambda: CLUSTER.replace(b'"4"', b'"1e308"')),
    "a large number": ("a.json", lambda: CLUSTER.replace(b'"4"', b"1e308")),
    "many small values": ("a.json", lambda: b'{"kind":"List","items":[' + b"{}," * 3_000_000 + b"{}]}"),
    "inflating spaces": ("a.json.gz", lambda: bomb(b"{")),
    "inflating objects": ("a.json.gz", lambda: bomb(b'{"kind":"List","items":[', b"{}," * 2**16)),
    "inflating YAML": ("a.yaml.gz", lambda: bomb(b"a:\n", b"- a\n" * 2**16)),
    "an inflating snapshot": ("a.bayplan", lambda: bomb(b'{"format":"bayplan-snapshot","version":1,"kinds":9}\n')),
    "a large member": ("a.tar", lambda: tar("a.log", 10**12)),
    "a large JSON member": ("a.tar", lambda: tar("a.json", 10**12)),
    "a long name": ("a.tar", lambda: tar("a.json", 10**12, kind=tarfile.GNUTYPE_LONGNAME)),
    "a negative size": ("a.tar", negative),
    "a large member inside": ("a.tar.gz", lambda: gzip.compress(tar("a.log", 10**12))),
    "an inflating member": ("a.tar.gz", lambda: bomb(tar("a.json", 2**27)[:512])),
    "a large recording": ("a.tar", lambda: tar("recording.json", 10**12)),
    "a large segment": (
        "a.tar",
        lambda: tar("recording.json", 2, b"{}" + b"\0" * 510)[:-1024] + tar("decisions-000001.frames", 10**12),
    ),
    "inflating captures": ("a.kshrk", lambda: archived(metadata_json=b" " * (200 * 2**20))),
    "inflating entries": ("a.kshrk", lambda: archived(metadata_json=META, index_json_zst=ZSTD_BOMB)),
    "deep captures": ("a.kshrk", lambda: archived(metadata_json=deep())),
    "many rows": ("a.parquet", many_rows),
    "a long row": ("a.parquet", one_long_row),
    "a long duration": ("a.csv", lambda: b"arrival_seconds,requests,duration_seconds\n0,cpu=1,1e308\n"),
    "a late arrival": ("a.csv", lambda: b"arrival_seconds,requests\n1e308,cpu=1\n"),
    "very many pods": ("a.csv", lambda: b"arrival_seconds,requests,count\n" + b"0,cpu=1,1000000\n" * 100),
    "an inflating line": ("a.csv.gz", lambda: bomb(TRACE)),
    "gzip that is none": ("a.csv.gz", lambda: b"hello"),
    "gzip that is cut": ("a.csv.gz", lambda: gzip.compress(TRACE)[:-12]),
    "gzip that is damaged": ("a.csv.gz", lambda: gzip.compress(TRACE)[:12] + b"\xff" * 50),
    "an inflating audit log": ("a.log.gz", lambda: bomb(AUDIT + b"\n")),
    "deep audit events": ("a.log", lambda: AUDIT + b"\n" + deep() + b"\n"),
    "audit events at odd times": ("a.log", lambda: AUDIT.replace(b"2026-01-01", b"9999-12-31") + b"\n"),
    "an audit event with 1e308": ("a.log", lambda: AUDIT.replace(b"201", b"1e308") + b"\n"),
    "a trace at 1e308": ("a.json", lambda: SIMKUBE.replace(b'"ts": 0', b'"ts": 1e308')),
    "a deep trace": ("a.json", lambda: SIMKUBE[:-1] + b',"x":' + b"[" * 5000 + b"]" * 5000 + b"}"),
    "a long list of a trace": ("a.mp", lambda: b"\x82\xa7version\x02\xa6events\xdd\xff\xff\xff\xff"),
    "a change at 1e308": ("a.yaml", lambda: KWOK.replace(b"Nanosecond: 1", b"Nanosecond: 1e308")),
    "a recording with odd tags": ("a.yaml", lambda: KWOK + b'---\na: !!binary "%%"\n'),
    "an inflating recording": ("a.yaml.gz", lambda: bomb(KWOK)),
}
GOOD = {
    "a.json": CLUSTER,
    "a.log": AUDIT + b"\n",
    "b.json": SIMKUBE,
    "a.csv": TRACE,
    "a.yaml": KWOK,
    "a.csv.gz": gzip.compress(TRACE, mtime=0),
    "a.json.gz": gzip.compress(CLUSTER, mtime=0),
    "a.tar": tar("a.json", len(CLUSTER), CLUSTER + b"\0" * (-len(CLUSTER) % 512)),
    "a.parquet": parquet(pa.table({"arrival_seconds": [0.0], "requests": ["cpu=1"]})),
}


@pytest.fixture(scope="module")
def commands() -> Iterator[LimitedCommands]:
    with LimitedCommands(MEMORY) as running:
        yield running


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A cluster, a history, and a folder that isn't there."""
    folder = tmp_path_factory.mktemp("whole")
    (folder / "cluster.json").write_bytes(CLUSTER)
    write_sample(folder / "night", days=0.05)
    return {"cluster": folder / "cluster.json", "history": folder / "night"}


def reading(path: Path, places: dict[str, Path]) -> Iterator[list[Any]]:
    """The commands that read a file with this name."""
    cluster, history, out = places["cluster"], ["--history", places["history"]], path.parent / "out"
    yield ["history", "import", path, "--to", out]
    if path.suffix not in {".csv", ".parquet", ".log"}:
        yield ["balance", "--from", path]
    if path.suffix == ".tar":
        yield ["replay", path]
    if path.suffix in {".yaml", ".json"}:
        yield ["fit", "--from", cluster, "-f", path]
        yield ["explain", "--all-pending", "--from", cluster, "--config", path]
        yield ["balance", "--kubeconfig", path]
        yield ["simulate", *history, "--prices", path]
        yield ["sweep", path, "--to", out, "--jobs", 1]
        yield ["conformance", path]
    if path.suffix in {".yaml", ".json", ".csv"}:
        yield ["when", "p", "--from", cluster, "--sooner", "no", "--durations", path]
        yield ["what-if", "--from", cluster, "--requests", path]


@cases("name, content", FILES)
def test_hostile_file_costs_itself(tmp_path, commands, places, name, content):
    (tmp_path / name).write_bytes(content())

    for command in reading(tmp_path / name, places):
        ran = commands.run(*command)
        assert ran.status in {0, 1, 2}, (command, ran)
        assert "Traceback" not in ran.output + ran.errors, (command, ran.errors)
        assert ran.errors or ran.output, command
        assert ran.seconds < SECONDS, (command, ran.seconds, ran.errors)


@pytest.mark.skipif(not ENDLESS.exists(), reason=f"there is no {ENDLESS}")
@pytest.mark.parametrize("name", ["a.yaml", "a.json", "a.csv", "a.tar", "a.log"])
def test_file_without_an_end_costs_little(tmp_path, commands, places, name):
    (tmp_path / name).symlink_to(ENDLESS)

    for command in reading(tmp_path / name, places):
        if command[:2] == ["history", "import"]:
            continue  # reads logs of any length
        ran = commands.run(*command)
        assert (ran.status, ran.errors.count("\n")) == (2, 1), (command, ran)
        assert ran.seconds < SECONDS, (command, ran.seconds, ran.errors)


@cases("name, content", {name: (name, content) for name, content in GOOD.items()})
def test_file_with_a_changed_byte_costs_itself(tmp_path, commands, places, name, content):
    chance = random.Random(name)

    for number in range(6):
        changed = bytearray(content)
        if number % 3 == 2:
            del changed[chance.randrange(len(changed)) :]
        else:
            changed[chance.randrange(len(changed))] = chance.choice((0, 0x22, 0x5B, 0x7B, 0x80, 0xFF))
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / name).write_bytes(changed)
        for command in list(reading(tmp_path / str(number) / name, places))[:3]:
            ran = commands.run(*command)
            assert ran.status in {0, 1, 2}, (command, ran)
            assert "Traceback" not in ran.output + ran.errors, (command, bytes(changed), ran.errors)

"""The package of the chart, as `helm package` writes it, with the same bytes each time."""

from __future__ import annotations

import gzip
import io
import tarfile
from pathlib import Path

import yaml
from tools.problems import Problem


def check_chart(folder: Path, version: str) -> None:
    """Compare the versions of a chart with that of the release."""
    chart = yaml.safe_load((folder / "Chart.yaml").read_bytes())
    for field in ("version", "appVersion"):
        if str(chart[field]) != version:
            raise Problem(f"{folder / 'Chart.yaml'}: {field} is {chart[field]}, but the version is {version}")


def pack(files: dict[str, Path], target: Path, seconds: int) -> None:
    """Write an archive of files. Those that can be executed stay so."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, path in sorted(files.items()):
            content = path.read_bytes()
            member = tarfile.TarInfo(name)
            member.size, member.mtime = len(content), seconds
            member.mode = 0o755 if path.stat().st_mode & 0o100 else 0o644
            tar.addfile(member, io.BytesIO(content))
    target.write_bytes(gzip.compress(buffer.getvalue(), mtime=0))


def pack_chart(folder: Path, target: Path, seconds: int) -> None:
    """Write the package of a chart."""
    files = {path.relative_to(folder.parent).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    pack(files, target, seconds)

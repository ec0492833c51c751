"""Unpacks archives that others may have made: nothing is written outside of the folder."""

from __future__ import annotations

import tarfile
from pathlib import Path

from tools.problems import Problem


def unpack(archive: Path, folder: Path) -> None:
    """Unpack the files and folders of a tar archive. Raises Problem for one that can't be read, or that leads outside.

    The filter `data` of `tarfile` does as much, but Python has it only since 3.11.4.
    """
    inside = folder.resolve()
    try:
        with tarfile.open(archive) as tar:
            for member in tar:
                if not (inside / member.name).resolve().is_relative_to(inside):
                    raise Problem(f"{archive} leads outside of its folder: {member.name}")
                if member.isfile() or member.isdir():
                    member.mode &= 0o755
                    tar.extract(member, folder, set_attrs=True, **_FILTER)
    except (OSError, tarfile.TarError) as error:
        raise Problem(f"{archive} can't be unpacked: {' '.join(str(error).split())}") from None


_FILTER = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}

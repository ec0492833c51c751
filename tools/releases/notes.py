"""What a release says of itself: its section of CHANGELOG.md."""

from __future__ import annotations

from pathlib import Path

from tools.problems import Problem


def notes_of(version: str, changelog: Path) -> str:
    """Return the section of a version, without its heading."""
    lines = changelog.read_text(encoding="utf-8").splitlines()
    begins = [number for number, line in enumerate(lines) if line.startswith("## ")]
    for begin, end in zip(begins, [*begins[1:], len(lines)], strict=True):
        if lines[begin].startswith(f"## [{version}]"):
            section = "\n".join(lines[begin + 1 : end]).strip()
            if section:
                return f"{section}\n"
            raise Problem(f"{changelog}, line {begin + 1}: the section of {version} is empty")
    raise Problem(f"{changelog} has no section `## [{version}]`: write what the release changes")

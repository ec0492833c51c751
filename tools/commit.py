"""The commit that is built: its time, its version, and whether the tree is exactly that commit."""

from __future__ import annotations

import os
import tomllib
from dataclasses import dataclass
from pathlib import Path

from tools.problems import Problem, output

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Commit:
    """A commit of a repository, with the version that its pyproject.toml has."""

    root: Path
    id: str
    seconds: int
    """When it was committed, in seconds since 1970: the time of everything that is built of it"""
    version: str
    changed: tuple[str, ...]
    """The files that aren't as they are committed"""

    @property
    def revision(self) -> str:
        """What a build of the tree says of its commit."""
        return f"{self.id}-changed" if self.changed else self.id


def read_commit(root: Path = ROOT) -> Commit:
    """Return the commit that is checked out. SOURCE_DATE_EPOCH sets another time, as for other build tools."""
    identity, seconds = output(["git", "log", "-1", "--format=%H %ct"], cwd=root).split()
    chosen = os.environ.get("SOURCE_DATE_EPOCH", seconds)
    if not chosen.isdigit():
        raise Problem(f"SOURCE_DATE_EPOCH is {chosen!r}, but has to be whole seconds since 1970")
    with (root / "pyproject.toml").open("rb") as file:
        version = tomllib.load(file)["project"]["version"]
    changed = output(["git", "status", "--porcelain"], cwd=root).splitlines()
    return Commit(root, identity, int(chosen), version, tuple(line[3:] for line in changed))


def check_release(commit: Commit) -> str:
    """Return the tag of a release: the tree is clean, and the commit has the tag of its version."""
    if commit.changed:
        first, *others = commit.changed
        what = f"{first} and {len(others)} more are" if others else f"{first} is"
        raise Problem(f"the tree isn't clean: {what} not committed: commit that, or put it away")
    tag = f"v{commit.version}"
    tags = output(["git", "tag", "--points-at", "HEAD"], cwd=commit.root).split()
    if tag in tags:
        return tag
    what = f"has the tag {', '.join(tags)}" if tags else "has no tag"
    raise Problem(f"the commit {what}, but pyproject.toml has the version {commit.version}: tag it {tag}")

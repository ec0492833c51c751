"""The command-line flags of kube-scheduler, and how Bayplan treats them.

`run_flags.json` has them in the order and groups of `kube-scheduler --help`
(cmd/kube-scheduler/app/options/options.go). A flag works, or is accepted with a warning because it has no effect, or is
rejected because ignoring it would surprise the user.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from importlib.resources import files

import msgspec


class FlagType(Enum):
    """The type of a flag's value; the enum's value is its name in the help."""

    STRING = "string"
    STRINGS = "strings"
    FILE = "file"
    YAML_FILE = "yaml file"
    OUTPUT_FILE = "output file"
    INT = "int"
    FLOAT = "float"
    DURATION = "duration"
    BOOL = ""


class Treatment(Enum):
    """How a flag is treated."""

    WORKS = "works"
    WARNED = "accepted with a warning"
    REJECTED = "rejected"


@dataclass(frozen=True, slots=True)
class Flag:
    """A flag of kube-scheduler. `text` says what it does, or why it has no effect."""

    name: str
    type: FlagType
    treatment: Treatment
    text: str
    group: str = ""
    default: str = ""
    """The default in the help."""

    @property
    def parameter(self) -> str:
        """Its parameter name in Python."""
        return self.name.replace("-", "_")


def _read() -> tuple[Flag, ...]:
    content = files(__package__).joinpath("run_flags.json").read_bytes()
    groups = msgspec.json.decode(content, type=dict[str, tuple[Flag, ...]])
    return tuple(replace(flag, group=group) for group, flags in groups.items() for flag in flags)


FLAGS: tuple[Flag, ...] = _read()

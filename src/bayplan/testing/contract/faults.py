"""What a check found, and the error that tells the author of the plugin."""

from __future__ import annotations

from dataclasses import dataclass

from bayplan.testing.contract.examples import Example


@dataclass(frozen=True, slots=True)
class Finding:
    """`seen`: what happened. `change`: what would put it right. `cause`: what the plugin raised, if it did."""

    seen: str
    change: str
    cause: BaseException | None = None


class BrokenContract(AssertionError):
    """A plugin does not keep a part of the contract that all plugins have with the scheduler.

    `plugin`, `check`, `seen` and `change` say it in parts; `example` is the smallest that was found, None where none is
    needed.
    """

    def __init__(self, plugin: str, check: str, promise: str, finding: Finding, example: Example | None) -> None:
        self.plugin = plugin
        self.check = check
        self.seen = finding.seen
        self.change = finding.change
        self.example = example
        lines = [f"plugin {plugin!r} fails the check {check!r}: {promise}", f"  seen:    {_indented(self.seen)}"]
        if example is not None:
            lines.append(f"  with:    {_indented(str(example))}")
        lines.append(f"  change:  {_indented(self.change)}")
        super().__init__("\n".join(lines))


def _indented(text: str) -> str:
    return text.replace("\n", "\n           ")

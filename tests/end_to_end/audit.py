"""The requests of the scheduler to a real API server, from the server's audit log."""

import json
from pathlib import Path
from typing import Any

from shipped import ACCOUNT

from bayplan_devcluster.apiserver.authorization.attributes import Attributes

POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata", "users": [ACCOUNT]}, {"level": "None"}],
}


class AuditLog:
    """The audit log of a server that is started with `flags`. It has only the scheduler's requests."""

    def __init__(self, folder: Path) -> None:
        self._log = folder / "audit.log"
        policy = folder / "audit-policy.yaml"
        policy.write_text(json.dumps(POLICY))
        self.flags = (f"--audit-policy-file={policy}", f"--audit-log-path={self._log}")

    @property
    def end(self) -> int:
        """The current length of the log."""
        return self._log.stat().st_size if self._log.exists() else 0

    def denied_since(self, offset: int) -> set[Attributes]:
        """The denied requests from an offset in the log on."""
        if not self._log.exists():
            return set()
        with self._log.open("rb") as file:
            file.seek(offset)
            whole, _, _ = file.read().rpartition(b"\n")
        entries = map(json.loads, whole.splitlines())
        return {_attributes(each) for each in entries if _decision(each) == "forbid"}


def _decision(entry: dict[str, Any]) -> str:
    return str((entry.get("annotations") or {}).get("authorization.k8s.io/decision", ""))


def _attributes(entry: dict[str, Any]) -> Attributes:
    of = entry.get("objectRef")
    if of is None:
        return Attributes(entry["verb"], path=entry["requestURI"])
    fields = ("apiGroup", "resource", "subresource", "namespace", "name")
    return Attributes(entry["verb"], *(of.get(field, "") for field in fields))

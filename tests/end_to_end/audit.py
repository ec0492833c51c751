"""What the scheduler asked of a real API server, by the server's own audit log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from shipped import ACCOUNT

from bayplan.devcluster.apiserver.authorization.attributes import Attributes

POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata", "users": [ACCOUNT]}, {"level": "None"}],
}


class AuditLog:
    """The log of a server that is started with `flags`; everybody else's requests are not in it."""

    def __init__(self, folder: Path) -> None:
        self._log = folder / "audit.log"
        policy = folder / "audit-policy.yaml"
        policy.write_text(json.dumps(POLICY))
        self.flags = (f"--audit-policy-file={policy}", f"--audit-log-path={self._log}")

    @property
    def end(self) -> int:
        """Where the log ends now."""
        return self._log.stat().st_size if self._log.exists() else 0

    def refused_since(self, place: int) -> set[Attributes]:
        """What the scheduler asked for and may not, from a place in the log on."""
        if not self._log.exists():
            return set()
        with self._log.open("rb") as file:
            file.seek(place)
            whole, _, _ = file.read().rpartition(b"\n")
        entries = map(json.loads, whole.splitlines())
        return {_asked(each) for each in entries if _decision(each) == "forbid"}


def _decision(entry: dict[str, Any]) -> str:
    return str((entry.get("annotations") or {}).get("authorization.k8s.io/decision", ""))


def _asked(entry: dict[str, Any]) -> Attributes:
    of = entry.get("objectRef")
    if of is None:
        return Attributes(entry["verb"], path=entry["requestURI"])
    fields = ("apiGroup", "resource", "subresource", "namespace", "name")
    return Attributes(entry["verb"], *(of.get(field, "") for field in fields))

"""Objects of Kubernetes as documents, as a user would write them."""

from typing import Any

from bayplan.core.api.kinds import TYPED_KINDS

VERSIONS = {kind.kind: kind.api_version for kind in TYPED_KINDS}


def of_kind(kind: str, name: str, *, metadata: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    """An object of a kind that Bayplan knows. `metadata` is what it has besides the name."""
    return {"apiVersion": VERSIONS[kind], "kind": kind, "metadata": {"name": name, **(metadata or {})}, **fields}

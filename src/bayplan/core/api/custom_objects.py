"""Objects of kinds that Bayplan has no types for: custom resources."""

from __future__ import annotations

from typing import Any

import msgspec
from lightkube.models.meta_v1 import ObjectMeta


class CustomObject(dict[str, Any]):
    """A whole document, with typed metadata: `group["spec"]["minMember"]`, `group.metadata.name`."""

    @property
    def metadata(self) -> ObjectMeta:
        """The object's metadata. Raises msgspec.ValidationError if it is malformed."""
        return msgspec.convert(self.get("metadata") or {}, ObjectMeta)

"""Redaction: a snapshot that can be shared, on which the scheduler makes the same decisions up to the names.

Only the fields in `kinds.py` are kept, so that no other field can leak. Names, label keys and label values are
replaced in every place that refers to them. Replacements keep the order of the names, which some decisions depend on.
docs/insight.md lists what is kept as it is; a test compares that with every text of every kind.
A scheduler configuration that names the cluster's own labels or taints doesn't fit the redacted snapshot.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from bayplan.answers.snapshots.reading import Documents, Gap, Reading
from bayplan.answers.snapshots.redaction.kinds import FIELDS
from bayplan.answers.snapshots.redaction.names import Names, Rule
from bayplan.answers.snapshots.rights import CUSTOM_EFFECT, EFFECTS
from bayplan.core.api.kinds import Kind
from bayplan.core.api.objects import encode


def redacted(reading: Reading) -> Reading:
    """A snapshot's contents without what is private. Kinds that are not in the table become gaps."""
    return redact(reading)[0]


def redact(reading: Reading) -> tuple[Reading, Names]:
    """`redacted`, with the names that were replaced."""
    names = Names()
    known = {kind: rule for kind in reading.documents if (rule := FIELDS.get((kind.group, kind.plural))) is not None}
    for _ in _rewritten(reading.documents, known, names):
        pass
    names.number()
    documents: dict[Kind, dict[str, bytes]] = {kind: {} for kind in known}
    for kind, document in _rewritten(reading.documents, known, names):
        metadata = document["metadata"]
        namespace = f"{metadata['namespace']}/" if metadata.get("namespace") else ""
        documents[kind][f"{namespace}{metadata['name']}"] = encode(document)
    left_out = [kind for kind in reading.documents if kind not in known]
    gaps = [Gap(kind, "left out of the redacted snapshot", EFFECTS.get(kind, CUSTOM_EFFECT)) for kind in left_out]
    return Reading(
        documents, "a redacted snapshot", reading.taken, (*reading.gaps, *gaps), version=reading.version
    ), names


def _rewritten(documents: Documents, rules: Mapping[Kind, Rule], names: Names) -> Iterator[tuple[Kind, dict[str, Any]]]:
    for kind, rule in rules.items():
        for key, raw in documents[kind].items():
            names.namespace, _, names.object = key.rpartition("/")
            yield kind, rule(msgspec.json.decode(raw), names)

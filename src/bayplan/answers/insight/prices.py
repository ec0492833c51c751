"""Prices of nodes, by instance type or pool, in dollars for an hour.

They come from the user alone. A node without a price is counted apart, and answers say which ones have none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from bayplan.answers.insight.answers import QuestionError
from bayplan.answers.insight.pools import pool_of, type_of
from bayplan.foundations.manifest_files import ManifestError, read_yaml, yaml_documents

CAPACITY_TYPES = (
    "karpenter.sh/capacity-type",
    "eks.amazonaws.com/capacityType",
    "cloud.google.com/gke-spot",
    "kubernetes.azure.com/scalesetpriority",
)
"""Labels that say that a node is a spot node."""
_SPOT = {"spot", "SPOT", "true", "Spot"}


class PricesError(QuestionError):
    """Prices that can't be used. The message is one line for the user."""


class Prices:
    """Dollars for an hour of a node, by instance type, or by pool for nodes whose type has no price.

    `TYPE/spot` is the price of spot nodes of a type; without one, they have the price of others.
    """

    def __init__(self, dollars: Mapping[str, float], source: str = "") -> None:
        self.dollars = dict(dollars)
        self.source = source

    @classmethod
    def read(cls, path: Path) -> Prices:
        """Read a YAML or JSON file with a mapping from types to dollars for an hour. Raises PricesError."""
        try:
            document = read_yaml(path)
        except ManifestError as error:
            raise PricesError(str(error)) from None
        return cls.of_document(document, str(path))

    @classmethod
    def of_text(cls, text: str, source: str) -> Prices:
        """Read such a mapping in YAML or JSON. Raises PricesError."""
        try:
            documents = [document for _, document in yaml_documents(source, text)]
        except ManifestError as error:
            raise PricesError(str(error)) from None
        if len(documents) > 1:
            raise PricesError(f"{source} has {len(documents)} documents: expected one")
        return cls.of_document(documents[0] if documents else None, source)

    @classmethod
    def of_document(cls, document: object, source: str) -> Prices:
        """Check a mapping from types to dollars for an hour. Raises PricesError."""
        if not isinstance(document, dict) or not document:
            raise PricesError(f"{source}: expected prices for an hour by instance type, as in `m5.large: 0.096`")
        for name, dollars in document.items():
            if isinstance(dollars, bool) or not isinstance(dollars, int | float) or not 0 <= dollars < 1e6:
                raise PricesError(
                    f"{source}: {name}: {dollars!r:.40} is no price: expected dollars for an hour, as in 0.096"
                )
        return cls({str(name): float(dollars) for name, dollars in document.items()}, source)

    def __bool__(self) -> bool:
        return bool(self.dollars)

    def but(self, dollars: Mapping[str, float]) -> Prices:
        """Return prices with those of some more types."""
        return Prices({**self.dollars, **dollars}, self.source)

    def of(self, labels: Mapping[str, str]) -> float | None:
        """Return the price of a node with these labels; None if there is none."""
        names = [name for name in (type_of(labels), pool_of(labels)) if name]
        if any(labels.get(label) in _SPOT for label in CAPACITY_TYPES):
            names = [f"{name}/spot" for name in names] + names
        return next((self.dollars[name] for name in names if name in self.dollars), None)

    def notes(self, labels: Iterable[Mapping[str, str]]) -> list[str]:
        """Return which of some nodes have no price, and which prices no node has, one line each."""
        if not self:
            return []
        found = list(labels)
        unpriced = dict.fromkeys(
            type_of(each) or pool_of(each) or "nodes without a type" for each in found if self.of(each) is None
        )
        lines = [f"{self.source}: no price for {name}: its node-hours are not in the cost" for name in unpriced]
        known = {name for each in found for name in (type_of(each), pool_of(each))}
        lines += [
            f"{self.source}: there are no nodes of type {name}"
            for name in self.dollars
            if name.removesuffix("/spot") not in known
        ]
        return lines

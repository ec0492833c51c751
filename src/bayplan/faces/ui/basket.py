"""The what-if basket: hypothetical changes as the query of an address, which can be shared and kept in a cookie.

Entries are written as for `bayplan what-if`, and become its `Changes` (`bayplan.answers.insight.questions.edits`). An
address may have been written by anyone, so what can't be read is an error of one line, or is ignored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl, quote, urlencode

from bayplan.answers.insight.answers import Progress, QuestionError, silent
from bayplan.answers.insight.insight import Insight
from bayplan.answers.insight.limits import AdditionLimit
from bayplan.answers.insight.questions.edits import Changes, edited
from bayplan.answers.insight.questions.what_if import WhatIf, what_if
from bayplan.answers.simulation.world import World
from bayplan.faces.ui.bay_plan import BayPlan, bay_plan
from bayplan.faces.ui.packing import unpack

TITLES: Mapping[str, tuple[str, str]] = {
    "add_nodes": ("add nodes", "3xlike:node-a"),
    "remove_nodes": ("remove node", "node-a"),
    "cordon": ("cordon", "node-a"),
    "uncordon": ("uncordon", "node-a"),
    "labels": ("label", "node-a disk=ssd"),
    "taints": ("taint", "node-a gpu=yes:NoSchedule"),
    "scale": ("scale", "deployment/web=40"),
    "scale_requests": ("scale the requests of", "deployment/web=0.7"),
    "delete_pods": ("delete pod", "web-0"),
}
"""field of `Changes` that is text -> what the page calls it, and an example"""
APPLY, REPLACE_ALL = "apply", "replace_all"
"""The other entries: a packed change of objects, and that all pods are placed anew."""
FIELDS = frozenset({*TITLES, APPLY, REPLACE_ALL})
"""The fields that can be in a basket."""
NAMESPACE = "namespace"
CHOICE, TEXT = "change", "text"
"""The parameters of the form: a field of `Changes`, and the entry."""
LARGEST = 50
"""The most changes of a basket."""
LONGEST = 7_000
"""The most characters of a basket as a query. A request line has room for 8,190 bytes."""
LONGEST_COOKIE = 3_800
"""The most characters of a basket in a cookie. Browsers drop cookies of more than 4,096 bytes."""


@dataclass(frozen=True, slots=True)
class Basket:
    """Changes in the order in which the user chose them: a field of `Changes`, and the text of an entry.

    A label and a taint are a node or a selector, a space, and the text.
    """

    entries: tuple[tuple[str, str], ...] = ()
    namespace: str = "default"

    @classmethod
    def of(cls, items: Iterable[tuple[str, str]], namespace: str = "default") -> Basket:
        """Return the basket of the parameters of a query. Unknown and empty ones, and repetitions, are ignored.

        `namespace`: that of the basket if the parameters have none.
        """
        known = list(items)
        form = dict(known)
        known.append((form.get(CHOICE, ""), form.get(TEXT, "")))
        texts = [(field, text.strip()) for field, text in known if field in FIELDS and text.strip()]
        given = next((text.strip() for field, text in known if field == NAMESPACE and text.strip()), namespace)
        return cls(tuple(dict.fromkeys(texts))[:LARGEST], given)

    @classmethod
    def read(cls, query: str) -> Basket:
        """Return the basket that `query` made."""
        return cls.of(parse_qsl(query))

    def query(self) -> str:
        """Return the basket as a query."""
        return urlencode([*self.entries, (NAMESPACE, self.namespace)]) if self.entries else ""

    def with_all(self, other: Basket) -> Basket:
        """Return this basket with the changes of another one, and with its namespace."""
        return Basket(tuple(dict.fromkeys((*self.entries, *other.entries)))[:LARGEST], other.namespace)

    def without(self, number: str) -> Basket:
        """Return the basket without the change of a number; numbers begin at 0."""
        rest = tuple(entry for index, entry in enumerate(self.entries) if str(index) != number)
        return Basket(rest, self.namespace)

    def titles(self) -> list[str]:
        """Return the changes for people."""
        return [_title(field, text) for field, text in self.entries]

    @property
    def fits_cookie(self) -> bool:
        """Whether a browser keeps the basket."""
        return len(quote(self.query())) <= LONGEST_COOKIE

    def changes(self) -> Changes:
        """Return the changes. Raises QuestionError if a label or a taint has no node, or an entry can't be read."""

        def texts(field: str) -> tuple[str, ...]:
            return tuple(text for each, text in self.entries if each == field)

        return Changes(
            remove_nodes=texts("remove_nodes"),
            add_nodes=texts("add_nodes"),
            uncordon=texts("uncordon"),
            cordon=texts("cordon"),
            labels=tuple(map(_of_node, texts("labels"))),
            taints=tuple(map(_of_node, texts("taints"))),
            delete_pods=texts("delete_pods"),
            scale=texts("scale"),
            scale_requests=texts("scale_requests"),
            portable=tuple(map(unpack, texts(APPLY))),
            replace_all=bool(texts(REPLACE_ALL)),
            namespace=self.namespace,
        )


def _of_node(text: str) -> tuple[str, str]:
    node, _, rest = text.rpartition(" ")  # a selector has spaces, a label and a taint have none
    if not node.strip():
        raise QuestionError(f"{text}: expected a node and a text, as in node-a disk=ssd or node-a gpu=yes:NoSchedule")
    return node.strip(), rest


def _title(field: str, text: str) -> str:
    if field == REPLACE_ALL:
        return "place all pods anew"
    if field != APPLY:
        return f"{TITLES[field][0]} {text}"
    try:
        return unpack(text).text
    except QuestionError as error:
        return str(error)


def faulty_entry(insight: Insight, basket: Basket) -> int | None:
    """Return the number of the first change that can't be made after those before it; None if all can be."""
    insight.world.reset()
    for number in range(len(basket.entries)):
        try:
            changes = Basket(basket.entries[: number + 1], basket.namespace).changes()
            edited(insight.world, insight.snapshot, changes, insight.seed, AdditionLimit(insight.limits, silent))
        except QuestionError:
            return number
    return None


@dataclass(frozen=True, slots=True)
class BeforeAfter:
    """The answer about a basket, and the bay plans before and after; both after the pending pods were attempted.

    `new`: the nodes that the basket adds.
    """

    answer: WhatIf
    before: BayPlan
    after: BayPlan
    new: frozenset[str]


def compare_sides(insight: Insight, basket: Basket, resource: str, progress: Progress = silent) -> BeforeAfter:
    """Answer a basket. Raises QuestionError for changes that aren't possible, and Stopped if `progress` does."""
    world, plans = insight.world, list[BayPlan]()
    known, new = frozenset(world.state.table.row_of), frozenset[str]()

    def draw(world: World) -> None:
        nonlocal new
        new = frozenset(world.state.table.row_of.keys() - known)
        plans.append(bay_plan(world, resource, new))

    answer = what_if(
        world, world, insight.snapshot, basket.changes(), insight.seed, insight.limits, observe=draw, progress=progress
    )
    before, after = plans
    return BeforeAfter(answer, before, after, new)

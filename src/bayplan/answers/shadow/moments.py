"""Looks for the moment at which a scheduler may have decided: its view is older or newer than what is seen here.

A scheduler counts a pod on its node before others see the binding, its bindings arrive in another order than its
decisions, and each watch has its own delay.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations, islice, zip_longest

from bayplan.answers.judging.judgement import Judgement
from bayplan.answers.judging.order import in_another_order
from bayplan.answers.shadow.comparisons import ShadowComparison
from bayplan.answers.shadow.journal import JournalEntry
from bayplan.answers.simulation.world import World
from bayplan.core.api.kinds import POD, Kind

DEPTH = 256
"""How many changes a view may be behind or ahead."""
SINGLE = 64
"""How many of them are tried one by one."""
BURST = 0.002
"""Seconds within which changes are seen together."""
REACH = 2000
"""How many changes before a binding are looked at."""
LAG = 2.0
"""Seconds for which the watches of a scheduler may be behind those here."""
_NAMED = 3
"""How many changes are named that come together."""
_PAIRED = 24
"""How many changes are tried in pairs."""
_ASSUMED = 6
"""How many deleted pods may have been counted on nodes."""
_CHANGE = 0.1
"""What a change costs that is made and undone, by what a decision costs."""
_ROUNDS = 3
"""How many single changes may come together."""


_SHARE = 0.4
"""The share of the time that decisions may take that explain differences."""
_IN_A_ROW = 5.0
"""How many seconds of these may be asked for in a row."""


class SearchBudget:
    """How many decisions may be asked for to explain differences: `rate` a second on average, and `most` in a row.

    Changes that are made for them cost a part of one. Without that limit, a scheduler that decides otherwise would hold
    up the watches, and then all differences would be races.
    """

    def __init__(self, rate: float = 600.0, most: float = 3000.0) -> None:
        self._rate, self._most = self._fastest, self._longest = rate, most
        self._left, self._since = most, 0.0
        self._asked, self._cost = 0, 0.0

    def pass_time(self, seconds: float) -> None:
        """Add what the time until `seconds` is worth."""
        self._left = min(self._most, self._left + (seconds - self._since) * self._rate)
        self._since = seconds

    def limit(self, most: float) -> None:
        """Let fewer decisions be asked for in a row, as long as it isn't known what they cost."""
        self._left = min(self._left, most)

    def measure(self, seconds: float) -> None:
        """Take into account how long it took to ask for what was spent since the last call.

        On a slow or busy machine, fewer decisions are asked for, so that they take a share of the time only.
        """
        if self._asked and seconds > 0:
            cost = seconds / self._asked
            self._cost = cost if not self._cost else self._cost + (cost - self._cost) / 4
            self._rate = min(self._fastest, _SHARE / self._cost)
            self._most = min(self._longest, _IN_A_ROW * self._rate)
            self._left = min(self._left, self._most)
        self._asked = 0

    def spend(self, changes: int = 0) -> bool:
        """Spend one decision after a number of changes. Returns False if none is left."""
        if self._left < 1:
            return False
        self._left -= 1 + changes * _CHANGE
        self._asked += 1
        return True


class MomentSearch:
    """Looks for changes without which, or with which, the scheduler's decision is equal.

    `judge` decides on the world as it is then, and `found` is called there with the changes that came between.
    """

    def __init__(
        self,
        world: World,
        judge: Callable[[], Judgement],
        budget: SearchBudget,
        own: str,
        found: Callable[[str], ShadowComparison],
    ) -> None:
        self._world = world
        self._judge = judge
        self._budget = budget
        self._own = own
        self._found = found

    def behind(self, earlier: Iterable[JournalEntry]) -> ShadowComparison | None:
        """Undo the changes before the binding, burst by burst. `earlier`: the latest first."""
        return self._in_turn((each, each.old) for each in self._unknown(earlier))

    def ahead(self, later: Iterable[JournalEntry]) -> ShadowComparison | None:
        """Make the changes after the binding, burst by burst. `later`: the oldest first."""
        return self._in_turn((each, each.new) for each in self._known(later))

    def with_other_answers(
        self, earlier: Iterable[JournalEntry], later: Iterable[JournalEntry] = ()
    ) -> ShadowComparison | None:
        """Take back the answers of the sources of feeds, or take later ones: a scheduler asks them at other times."""
        feeds = self._world.handle.feeds
        if not feeds:
            return None
        old = [(each, each.old) for each in earlier if each.kind in feeds]
        new = [(each, each.new) for each in later if each.kind in feeds]
        return self._after(old, range(len(old)), ()) or self._after(new, range(len(new)), ())

    def in_queue_order(
        self, earlier: Sequence[JournalEntry], later: Sequence[JournalEntry], *, thorough: bool
    ) -> ShadowComparison | None:
        """Count exactly the pods that arrived before this one, as a queue does; then undo what else came before.

        `earlier`: the latest first; `later`: the oldest first. Bindings are seen in another order than decisions are
        made. `thorough`: at last, single changes are tried from there.
        """
        arrivals = {each.key: each.position for each in earlier if each.kind is POD and each.old is None}
        mine = arrivals.get(self._own, -1)
        newer = {each.key for each in later if each.kind is POD and each.old is None}
        too_early, too_late = in_another_order(
            mine,
            lambda each: arrivals.get(each.key, -1),
            (each for each in earlier if each.binds),
            (each for each in later if each.binds and each.key != self._own and each.key not in newer),
        )
        moved = [*too_early[:DEPTH], *too_late[:DEPTH]]
        keys = {each.key for each in moved}
        if not self._budget.spend(len(moved)):
            return None
        with self._world.what_if():
            for each in too_early[:DEPTH]:
                self._world.change(each.kind, each.key, each.old)
            for each in too_late[:DEPTH]:
                self._world.change(each.kind, each.key, each.new)
            here, text = self._judge(), "; ".join(each.text for each in moved[:_NAMED])
            if here.equal:
                return self._found(text)
            assumed = [each for each in vanished_in(later, earlier) if self._was_before(each, arrivals, mine)]
            before = [each for each in self._unknown(earlier) if not each.binds and each.key not in keys]
            after = [each for each in self._known(later) if each.key not in keys]
            if mine >= 0 and (found := self._on_arrival([each for each in before if each.position > mine])):
                return found
            found = self._with_assumed(assumed, here) or self._in_turn(((each, each.old) for each in before), assumed)
            return found or (self.singly(before, after, here, assumed) if thorough else None)

    def _on_arrival(self, since: Sequence[JournalEntry]) -> ShadowComparison | None:
        """Decide when the pod arrived: a scheduler that waits for its writes binds it long after.

        `since`: what else has changed since then, the latest first.
        """
        if not since or not self._budget.spend(len(since)):
            return None
        with self._world.what_if():
            for each in since:
                self._world.change(each.kind, each.key, each.old)
            return self._found("; ".join(each.text for each in since[-_NAMED:])) if self._judge().equal else None

    def _was_before(self, vanished: JournalEntry, arrivals: Mapping[str, int], mine: int) -> bool:
        """Whether a pod that was deleted may have been counted on a node when this one was decided."""
        return arrivals.get(vanished.key, -1) < mine < vanished.position and vanished.key != self._own

    def _with_assumed(self, vanished: Sequence[JournalEntry], here: Judgement) -> ShadowComparison | None:
        """Count deleted pods on the nodes that seem too good, one after the other, as long as that helps."""
        left, texts = list(vanished[:_ASSUMED]), list[str]()
        with self._world.what_if():
            while left and here.ours:
                best: tuple[Judgement, JournalEntry] | None = None
                for each in left:
                    if not self._budget.spend():
                        return None
                    with self._world.what_if():
                        self._world.change(POD, each.key, each.old.on_node(here.ours))
                        judgement = self._judge()
                        if judgement.equal:
                            return self._found("; ".join([*texts, each.text]))
                    if best is None or judgement.loss < best[0].loss:
                        best = judgement, each
                if best is None or best[0].loss > here.loss:
                    return None
                left.remove(best[1])
                self._world.change(POD, best[1].key, best[1].old.on_node(here.ours))
                texts.append(best[1].text)
                here = best[0]
        return None

    def singly(
        self,
        earlier: Iterable[JournalEntry],
        later: Iterable[JournalEntry],
        here: Judgement,
        vanished: Iterable[JournalEntry] = (),
        *,
        rounds: int = _ROUNDS,
    ) -> ShadowComparison | None:
        """Undo or make single changes, each time the one that helps the most.

        A pod that `vanished` without a node may have been counted on one, which makes that worse for others.
        """
        versions: dict[tuple[Kind, str], tuple[JournalEntry, object]] = {}
        before, after = self._unknown(earlier), self._known(later)
        for unknown, known in zip_longest(islice(before, SINGLE), islice(after, SINGLE)):  # the closest ones first
            if unknown is not None:
                versions.setdefault((unknown.kind, unknown.key), (unknown, unknown.old))
            if known is not None:
                versions.setdefault((known.kind, known.key), (known, known.new))
        for each in islice((each for each in vanished if here.ours and each.key != self._own), SINGLE):
            versions.setdefault((each.kind, each.key), (each, each.old.on_node(here.ours)))
        loss, texts = here.loss, list[str]()
        with self._world.what_if():
            for _ in range(rounds):
                best: tuple[float, tuple[Kind, str]] | None = None
                for (kind, key), (entry, version) in versions.items():
                    if not self._budget.spend():
                        return None
                    with self._world.what_if():
                        self._world.change(kind, key, version)
                        judgement = self._judge()
                        if judgement.equal:
                            return self._found("; ".join([*texts, entry.text]))
                    if judgement.loss < loss:
                        loss, best = judgement.loss, (judgement.loss, (kind, key))
                if best is None:
                    return self._in_pairs(list(versions.values())) if math.isinf(loss) else None
                entry, version = versions.pop(best[1])
                self._world.change(entry.kind, entry.key, version)
                texts.append(entry.text)
        return None

    def _in_pairs(self, versions: Sequence[tuple[JournalEntry, object]]) -> ShadowComparison | None:
        """Undo or make two of the changes that are closest to the binding, where none helps by itself."""
        for (first, old), (second, older) in combinations(versions[:_PAIRED], 2):
            if not self._budget.spend():
                return None
            with self._world.what_if():
                self._world.change(first.kind, first.key, old)
                self._world.change(second.kind, second.key, older)
                if self._judge().equal:
                    return self._found(f"{first.text}; {second.text}")
        return None

    def _unknown(self, earlier: Iterable[JournalEntry]) -> Iterator[JournalEntry]:
        """The changes that the scheduler may not have known. It sees pods in the order of their changes.

        Each other kind has a watch of its own, with its own delay.
        """
        return islice(self._since_arrival(earlier), DEPTH)

    def _since_arrival(self, earlier: Iterable[JournalEntry]) -> Iterator[JournalEntry]:
        latest, arrived = None, False
        for each in earlier:
            latest = each.seconds if latest is None else latest
            if each.kind is POD and each.key == self._own:
                arrived = arrived or each.old is None
            elif arrived and (each.seconds < latest - LAG):
                return
            elif each.matters and not (arrived and each.kind is POD):
                yield each

    def _known(self, later: Iterable[JournalEntry]) -> Iterator[JournalEntry]:
        """The changes that the scheduler may have known already."""
        return islice((each for each in later if each.matters and (each.kind, each.key) != (POD, self._own)), DEPTH)

    def _in_turn(
        self, versions: Iterable[tuple[JournalEntry, object]], assumed: Sequence[JournalEntry] = ()
    ) -> ShadowComparison | None:
        """Undo or make changes one after the other, and decide after each burst; then within those that are closest.

        Changes are seen together that the scheduler has seen one by one, with decisions in between.
        """
        steps = list(versions)
        ends = [
            index
            for index, (entry, _) in enumerate(steps)
            if index + 1 == len(steps) or abs(steps[index + 1][0].seconds - entry.seconds) >= BURST
        ]
        within = sorted({*range(min(len(steps), SINGLE))}.difference(ends))
        return self._after(steps, ends, assumed) or self._after(steps, within, assumed)

    def _after(
        self, steps: Sequence[tuple[JournalEntry, object]], places: Sequence[int], assumed: Sequence[JournalEntry]
    ) -> ShadowComparison | None:
        """Take the steps one after the other, and decide after those at these places, in order."""
        taken = 0
        with self._world.what_if():
            for place in places:
                for entry, version in steps[taken : place + 1]:
                    self._world.change(entry.kind, entry.key, version)
                taken = place + 1
                if not self._budget.spend():
                    return None
                here = self._judge()
                if here.equal:
                    return self._found(steps[place][0].text)
                if assumed and (found := self._with_assumed(assumed, here)):
                    return found
        return None


def vanished_in(*entries: Iterable[JournalEntry]) -> list[JournalEntry]:
    """Return the deletions of pods that had no node here."""
    return [each for part in entries for each in part if each.vanishes]


def undo(world: World, entries: Sequence[JournalEntry]) -> None:
    """Make a world what it was before changes. `entries`: the oldest first. For use in a what-if."""
    for entry in reversed(entries):
        world.change(entry.kind, entry.key, entry.old)

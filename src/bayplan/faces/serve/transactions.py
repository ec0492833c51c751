"""Transactions: what-ifs that stay open, in which pods are placed, the cluster changes, and questions are asked.

Each has a cluster of its own: that of its beginning, with what was done since. All share one World, which holds the
cluster of the one that is used. What was placed there is in the world's undo log, and becomes part of the transaction's
snapshot when a question is asked or another transaction is used. So none depends on the others.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from bayplan.answers.insight.answers import Answer, Progress, QuestionError, plural
from bayplan.answers.insight.asked.what_if import CommonChanges
from bayplan.answers.insight.insight import Insight
from bayplan.answers.insight.limits import AdditionLimit
from bayplan.answers.insight.question_parameters import Question
from bayplan.answers.insight.questions.edits import edited
from bayplan.answers.insight.questions.fit import Fit, PodFit, pod_fit
from bayplan.answers.insight.questions.new_objects import bind_immediately
from bayplan.answers.insight.questions.outcomes import schedule_pending
from bayplan.answers.insight.questions.rolling_out import roll_out
from bayplan.answers.snapshots import Snapshot
from bayplan.faces.serve.placing import Placing

T = TypeVar("T")

_LOST = "a step of this transaction was ended before it was complete: roll it back, or begin another transaction"


@dataclass(frozen=True, slots=True)
class TransactionState:
    """The cluster of a transaction at one moment.

    `steps`: what was done, for people. `randomness`: that of the choice among nodes with equal scores. `room`: what was
    added. `made`: how many names and uids were made.
    """

    snapshot: Snapshot
    randomness: Any
    room: AdditionLimit
    steps: tuple[str, ...] = ()
    made: int = 0


@dataclass(slots=True, eq=False)
class Transaction:
    """An open what-if. `committed`: what a rollback leads back to. `now`: with what was done since then.

    `lost`: whether a step was ended where what was done since then is in an unknown state.
    """

    committed: TransactionState
    now: TransactionState
    placing: Placing | None = None
    lost: bool = False


class Transactions:
    """Carries out what transactions do, on an Insight that nothing else uses. For one thread.

    Raises QuestionError for what can't be done, and what a progress raises; the transaction is as before then.
    """

    def __init__(self, insight: Insight) -> None:
        self._insight = insight
        self._world = insight.world
        self._held: Transaction | None = None
        """The transaction whose cluster the world holds."""

    def begin(self, snapshot: Snapshot) -> Transaction:
        """Begin a transaction with the cluster of a snapshot."""
        randomness = random.Random(self._insight.seed).getstate()
        state = TransactionState(snapshot, randomness, AdditionLimit(self._insight.limits))
        return Transaction(state, state)

    def renew(self) -> None:
        """Use another Insight like this one, because a step was ended where the world is in an unknown state."""
        if self._held is not None:
            self._held.lost = True
            self._held.placing = None
            self._held = None
        self._insight = self._insight.renewed()
        self._world = self._insight.world

    def end(self, transaction: Transaction) -> None:
        """Forget a transaction."""
        if self._held is transaction:
            self._held = None

    def place(self, transaction: Transaction, objects: Iterable[Mapping[str, Any]], progress: Progress) -> Fit:
        """Create objects and schedule their pods, in their order. All of that stays in the transaction.

        Pending pods of the cluster are not attempted, and evicted pods are gone.
        """
        self._hold(transaction)
        now = transaction.now
        room = replace(now.room, progress=progress)
        if transaction.placing is None:
            transaction.placing = Placing(now.snapshot, self._seed(now), AdditionLimit(self._insight.limits))
        placing = transaction.placing

        def place() -> Fit:
            results = placing.place(self._world, objects, room, progress)
            return Fit(tuple(pod_fit(self._world, key, result) for key, result in results.items()))

        try:
            found = self._undoing(place)
        except BaseException:
            transaction.placing = None  # what it has created doesn't exist
            self._settle(transaction)
            raise
        self._done(transaction, f"place {plural(len(found.pods), 'pod')}", room, made=1 + len(found.pods))
        return found

    def schedule(self, transaction: Transaction, progress: Progress) -> Fit:
        """Schedule all pending pods, in the order of the queue. Controllers create preempted pods again."""
        self._hold(transaction)
        waiting = list(self._world.pending)
        states = self._undoing(lambda: schedule_pending(self._world, self._world.in_queue_order, progress))
        known = [(key, states[key]) for key in waiting if key in states]
        found = Fit(tuple(PodFit(key, state.state, state.node, (), state.message or "") for key, state in known))
        self._done(transaction, "schedule the pending pods", transaction.now.room)
        return found

    def change(self, transaction: Transaction, changes: CommonChanges, progress: Progress) -> tuple[str, ...]:
        """Change the cluster as `what-if` does. Returns the steps. Pods that lose their node are pending then."""
        if not changes.changes():
            raise QuestionError("expected at least one change")
        self._settle(transaction)
        now = transaction.now
        room = replace(now.room, progress=progress)
        edit = edited(self._world, now.snapshot, changes.changes(), self._seed(now), room)
        transaction.placing = None
        transaction.now = replace(now, snapshot=edit.snapshot)
        self._load(transaction)
        for key in edit.new_claims:
            bind_immediately(self._world, key)
        try:
            self._undoing(lambda: roll_out(self._world, edit.coming, progress, pending=False))
        except BaseException:
            transaction.now = now
            self._load(transaction)
            raise
        self._done(transaction, "", room, made=1)
        steps = (*edit.steps, *(f"left out: {problem}" for problem in edit.problems))
        transaction.now = replace(transaction.now, steps=(*transaction.now.steps, *steps))
        return steps

    def ask(self, transaction: Transaction, question: Question, progress: Progress) -> Answer:
        """Ask about the cluster of a transaction."""
        self._settle(transaction)
        try:
            return question.ask(self._insight, progress)
        finally:
            self._load(transaction)

    def commit(self, transaction: Transaction) -> None:
        """Keep what was done: later rollbacks lead back to here."""
        self._settle(transaction)
        transaction.committed = transaction.now

    def rollback(self, transaction: Transaction) -> None:
        """Undo what was done since the last commit, or since the beginning."""
        transaction.now = transaction.committed
        transaction.placing = None
        transaction.lost = False
        if self._held is transaction:
            self._load(transaction)

    def _seed(self, now: TransactionState) -> int:
        """What names and uids are generated from: others than those that questions generate."""
        return random.Random(f"transaction {self._insight.seed} {now.made}").getrandbits(62)

    def _undoing(self, step: Callable[[], T]) -> T:
        """Take a step; undo it in the world if it fails."""
        mark = self._world.mark()
        try:
            return step()
        except BaseException:
            self._world.undo_to(mark)
            raise

    def _done(self, transaction: Transaction, step: str, room: AdditionLimit, made: int = 0) -> None:
        now = transaction.now
        steps = (*now.steps, step) if step else now.steps
        transaction.now = replace(now, steps=steps, room=room, made=now.made + made)

    # What the world holds

    def _hold(self, transaction: Transaction) -> None:
        """Let the world hold the cluster of a transaction."""
        if self._held is transaction:
            return
        if transaction.lost:
            raise QuestionError(_LOST)
        if self._held is not None:
            self._settle(self._held)
        self._load(transaction)

    def _load(self, transaction: Transaction) -> None:
        """Let the world hold the snapshot of a transaction, and nothing else."""
        now, self._held = transaction.now, None
        self._insight.move(now.snapshot)
        self._world.rng.setstate(now.randomness)
        self._held = transaction

    def _settle(self, transaction: Transaction) -> None:
        """Make what was done in the world part of the transaction's snapshot."""
        self._hold(transaction)
        changed = list(self._world.changed_objects())
        randomness = self._world.rng.getstate()
        snapshot = transaction.now.snapshot.with_objects(changed) if changed else transaction.now.snapshot
        transaction.now = replace(transaction.now, snapshot=snapshot, randomness=randomness)
        self._load(transaction)

"""Doubts that a scheduler has the configuration that it is taken to have, and a likely one that explains its bindings.

It costs nothing while most differences have a cause. Otherwise the latest bindings are asked again, at the moments to
which the shadow goes back anyway: 50 for the first guess, then one a second. A guess is worked out in small parts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator
from datetime import datetime

import msgspec
import yaml

from bayplan.answers.backtest.settings import settings_document
from bayplan.answers.shadow.comparisons import ShadowCause, ShadowComparison, ShadowSubject
from bayplan.answers.shadow.evidence import ScoredBinding, ScoreWitness
from bayplan.answers.shadow.fitting import LikelyConfiguration, fit, likeliest
from bayplan.answers.shadow.guesses import ShadowGuess
from bayplan.answers.simulation.world import World
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.framework.profile import Point, Profile

BINDINGS = 50
"""After how many bindings a guess is made, and of how many it is made."""
_FIRST = 10
"""The number of bindings from which their share of unknown causes says something."""
_DOUBTFUL = 0.1
"""The share of bindings with an unknown cause from which the configuration is doubted."""
_UNEXPLAINED = frozenset({ShadowCause.UNKNOWN, ShadowCause.NOMINATIONS})
_USUAL, _LEAST = 40, 20
"""How many bindings that say something about scores are usually enough for a first guess, and at least."""
_PACE = 1.0
"""Seconds between two bindings that are asked again, after the first guess."""
_HELPS = 0.5
"""The share of bindings that don't fit that settings have to explain."""


class Doubts:
    """Follows the bindings of one scheduler until they are explained. Not for use in several threads; no clock.

    `known`: makes the profile that the scheduler is taken to have, and the names of its plugins that have arguments of
    their own.
    """

    def __init__(
        self,
        world: World,
        name: str,
        known: Callable[[], tuple[Profile, Collection[str]]],
    ) -> None:
        self.guess: ShadowGuess | None = None
        """The last guess; None before the first one."""
        self._world = world
        self._name = name
        self._known = known
        self._unknown: deque[bool] = deque(maxlen=BINDINGS)
        """Whether the cause was unknown, of the latest bindings."""
        self._compared = 0
        self._witness: ScoreWitness | None = None
        self._bindings: deque[ScoredBinding] = deque(maxlen=BINDINGS)
        self._new = 0
        """How many of them were asked since the last guess."""
        self._asked = 0.0
        """When the last one was asked."""
        self._sample: tuple[ScoredBinding, ...] = ()
        """The bindings of the guess that is worked on, or of the last one."""
        self._work: Iterator[LikelyConfiguration | None] | None = None

    def wants(self, waiting: int) -> bool:
        """Whether equal bindings should be asked again, too. `waiting`: for how many a cause is sought."""
        return len(self._unknown) < _FIRST or self._is_doubtful(waiting)

    def _is_doubtful(self, waiting: int = 0) -> bool:
        return sum(self._unknown) + waiting >= _DOUBTFUL * (len(self._unknown) + waiting)

    def add(self, found: ShadowComparison) -> None:
        """Count a comparison."""
        if found.subject is ShadowSubject.BINDING:
            self._compared += 1
            other_sample = found.cause is ShadowCause.SAMPLING and not found.equal
            self._unknown.append(other_sample or found.cause in _UNEXPLAINED)

    def ask(self, pod: PodInfo, node: str, seconds: float) -> None:
        """Ask about a binding in the state on which it was decided, if that is worth it now."""
        if not any(self._unknown) or not self._is_doubtful() or self._work is not None:
            return
        if self.guess is not None and seconds < self._asked + _PACE:
            return
        if self._witness is None:
            self._witness = ScoreWitness(self._world, *self._known())
        self._asked = seconds
        if self._witness.learn(pod):
            self._bindings.clear()
            self._new = 0
        binding = self._witness.ask(pod, node)
        if binding is not None:
            self._bindings.append(binding)
            self._new += 1

    def think(self, time: datetime, *, everything: bool = False) -> None:
        """Do a part of the work for a guess, if one is due. `everything`: all of it, also from fewer bindings."""
        witness = self._witness
        if witness is None or (self._work is None and not self._is_due(everything=everything)):
            return
        if self._work is None:
            self._sample, self._new = tuple(self._bindings), 0
            self._work = likeliest(witness.profile, witness.arguments, self._sample)
        for found in self._work:
            if found is not None:
                self._work = None
                self.guess = self._conclude(witness, found, time)
            if found is not None or not everything:
                return

    def _is_due(self, *, everything: bool) -> bool:
        if self._compared < BINDINGS or not self._is_doubtful():
            return False
        if self.guess is not None:
            return self._new >= BINDINGS
        return len(self._bindings) >= (_LEAST if everything or self._compared >= 2 * BINDINGS else _USUAL)

    def _conclude(self, witness: ScoreWitness, found: LikelyConfiguration, time: datetime) -> ShadowGuess:
        """What to say about the likeliest configuration."""
        names = [name for name in found.columns if name in {each.name for each in witness.profile.at(Point.SCORE)}]
        known = LikelyConfiguration.of(witness.profile, names)
        before, after = (int(each.sum()) for each in fit([known, found], witness.profile, self._sample).fits)
        guess = ShadowGuess(
            scheduler=self._name,
            time=time,
            bindings=len(self._sample),
            known=before,
            tried=sum(1 for _ in known.changes(witness.arguments)),
        )
        if not found.settings or after - before < _HELPS * (guess.bindings - before):
            return guess
        document = yaml.safe_dump(settings_document(found.settings, self._name), sort_keys=False)
        return msgspec.structs.replace(guess, explained=after, settings=found.settings, configuration=document)

"""A gang's attempt: its members are decided one after the other, each counted where the ones before it are to go.

What comes of it is a value, and the state is as before. Members are placed greedily, in their order: a gang that would
fit only if an earlier member made room elsewhere is turned down.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from bayplan.cluster.state import ClusterState, Thought
from bayplan.framework.interface import Gang, GangVictims, Placement
from bayplan.framework.profile import Profile
from bayplan.framework.status import Status
from bayplan.scheduling.cycle import decide
from bayplan.scheduling.decision import Decision, Outcome


@dataclass(slots=True)
class GangAttempt:
    """What became of the members that were tried, in order.

    `preempt`: whether a member counts as placed where it has to preempt first; the gang has to wait then.
    `placement`: the nodes among which they were tried; None for all. `placed`, `refused`: the decisions about members
    by what they say. `held_back`: members that cannot be tried now. `refusal`: why no member was tried at all.
    `tried_elsewhere`: in how many more placements the gang was tried in vain, and `blamed_elsewhere`: the plugins that
    turned members down there. `no_room`: why no room could be made for the gang as a whole; `preempted_for`: the uid of
    the PodGroup that it was made for.
    """

    gang: Gang
    preempt: bool = False
    placement: Placement | None = None
    placed: list[Decision] = field(default_factory=list)
    refused: list[Decision] = field(default_factory=list)
    held_back: list[str] = field(default_factory=list)
    refusal: Status | None = None
    tried_elsewhere: int = 0
    blamed_elsewhere: frozenset[str] = frozenset()
    no_room: str = ""
    preempted_for: str = ""
    _thought: Thought | None = None

    @contextmanager
    def thinking(self, state: ClusterState) -> Iterator[None]:
        """While this is open, members that are added count on their nodes."""
        with state.in_thought() as self._thought:
            yield

    def add(self, decision: Decision) -> None:
        """Take over what was decided about the next member, and count it, and its victims as gone."""
        assert self._thought is not None
        node = decision.node
        if self.preempt and decision.outcome is Outcome.UNSCHEDULABLE and decision.nominated_node:
            node = decision.nominated_node
            for victim in decision.victims:
                self._thought.remove(victim.uid)
        if node:
            self._thought.place(decision.pod, node)
            self.placed.append(decision)
        else:
            self.refused.append(decision)

    def worth_going_on(self, left: int) -> bool:
        """Whether to try another one of the members that are left.

        Not once it is clear that too few can be placed; nor when enough are, and one has been turned down since that
        may be decided by itself.
        """
        missing = self.gang.needed - len(self.placed)
        if self.failed:
            return False
        return missing <= left and (missing > 0 or not self.refused or bool(self.gang.no_preemption))

    def make_room(self, victims: GangVictims, plugin: str, blamed: frozenset[str]) -> None:
        """Have the gang wait until these victims are gone, on behalf of one of its members; it fits then.

        `plugin` has chosen them, and `blamed` are the plugins that turn members down as long as they are there.
        """
        self.preempt, self.preempted_for, self.blamed_elsewhere = True, victims.pod_group_uid, blamed
        preemptor = next((each for each in self.placed if each.pod.uid == victims.preemptor.uid), self.placed[0])
        preemptor.victims, preemptor.preempted_by = victims.victims, plugin
        preemptor.nominated_node = preemptor.node

    @property
    def failed(self) -> bool:
        """Whether deciding about a member broke."""
        return bool(self.refused) and self.refused[-1].outcome is Outcome.ERROR

    @property
    def fits(self) -> bool:
        """Whether enough members have a place, or would have if their victims were gone."""
        return self.refusal is None and len(self.placed) >= self.gang.needed

    @property
    def might_preempt(self) -> bool:
        """Whether a member that was turned down could have a place if it preempted."""
        return any(decision.nominated_node for decision in self.refused)

    @property
    def victims(self) -> int:
        """How many pods have to go before the gang can be placed."""
        return len({victim.uid for decision in self.placed for victim in decision.victims})

    @property
    def blamed(self) -> frozenset[str]:
        """The plugins that turned members down, or the gang."""
        plugins = (decision.diagnosis.unschedulable_plugins for decision in self.refused)
        whole = {self.refusal.plugin} if self.refusal is not None else ()
        return self.blamed_elsewhere.union(whole, *plugins)

    @property
    def explained(self) -> bool:
        """Whether plugins turned members down: what they wait for is what the gang waits for.

        Without nodes, no plugin is asked, and there is nothing to do but to try again.
        """
        return all(
            decision.diagnosis.unschedulable_plugins or decision.outcome is Outcome.ERROR for decision in self.refused
        )

    def explain(self) -> str:
        """How far the gang came, and what was lacking."""
        gang = self.gang
        size = gang.needed + gang.placed
        if self.refusal is not None:
            return f"gang {gang.name}: {self.refusal.message}"
        if self.fits:
            return (
                f"gang {gang.name}: {size} of {size} members fit once {_pods(self.victims)} of lower priority are gone"
            )
        if not self.refused:
            return f"gang {gang.name}: {size} members are needed; held back: {', '.join(self.held_back) or 'none'}"
        where = ""
        if self.placement is not None:
            best = f", the best of {self.tried_elsewhere + 1} placements" if self.tried_elsewhere else ""
            where = f" in {self.placement.name}{best}"
        text = f"gang {gang.name}: {len(self.placed) + gang.placed} of {size} members fit{where}"
        reason = f"{text}; the next one: {_why(self.refused[0])}"
        return f"{reason} preemption: {self.no_room}" if self.no_room else reason


def furthest(attempts: Sequence[GangAttempt]) -> GangAttempt:
    """What to say of a gang that fits into none of the placements it was tried in: the attempt that came furthest."""
    best = max(attempts, key=lambda attempt: len(attempt.placed))
    best.tried_elsewhere = len(attempts) - 1
    best.blamed_elsewhere = frozenset().union(*(attempt.blamed for attempt in attempts))
    return best


def decide_gang(
    profile: Profile,
    state: ClusterState,
    gang: Gang,
    rng: random.Random,
    *,
    preempt: bool = False,
    placement: Placement | None = None,
) -> GangAttempt:
    """Try all members at hand in one placement, with nobody outside being asked."""
    attempt = GangAttempt(gang, preempt, placement)
    with attempt.thinking(state):
        for number, member in enumerate(gang.members):
            if not attempt.worth_going_on(len(gang.members) - number):
                break
            attempt.add(decide(profile, state, member, rng, gang=gang, placement=placement))
    return attempt


def _why(decision: Decision) -> str:
    """The reason without what PostFilter said of it: for a gang, what a single member may preempt decides nothing."""
    if decision.outcome is Outcome.ERROR or not decision.diagnosis.total:
        return decision.message
    return replace(decision.diagnosis, post_filter_message="").explain()


def _pods(number: int) -> str:
    return "1 pod" if number == 1 else f"{number} pods"

"""What a shadow guesses of the configuration of a scheduler that has another one than it is taken to have."""

import random

import msgspec
import numpy as np
import pytest
import yaml
from shadowed import NAME, Shadowed

from bayplan.answers.backtest.settings import with_settings
from bayplan.answers.shadow.evidence import ROWS, LikelyArguments, ScoredBinding
from bayplan.answers.shadow.fitting import LikelyConfiguration, fit, likeliest
from bayplan.answers.shadow.guesses import ShadowGuess
from bayplan.answers.shadow.moments import SearchBudget
from bayplan.answers.simulation.world import World
from bayplan.core.api.kinds import NODE, POD
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.config import load_configuration
from bayplan.core.scheduling import Unit
from bayplan.testing import make_node

MOST = "NodeResourcesFit.scoringStrategy.type=MostAllocated"


class OtherScheduler:
    """A scheduler with settings, and the shadow beside it that knows nothing of them."""

    def __init__(self, *settings, nodes=16, known=(), seed=1, budget=None):
        self.rng = random.Random(seed)
        configured = [with_settings(None, (), each) for each in (settings, known)]
        self.world = World(configured[0])
        self.cluster = Shadowed(configuration=configured[1], budget=budget)
        for number in range(nodes):
            labels = {"zone": f"z{number % 4}", "disk": "fast" if number % 3 else "slow"}
            taints = ["old=:PreferNoSchedule"] if number % 5 == 0 else []
            cpu, memory = self.rng.choice(("16", "24", "32")), self.rng.choice(("64Gi", "96Gi", "128Gi"))
            node = make_node(f"node-{number}", cpu=cpu, memory=memory, labels=labels, taints=taints)
            self.world.change(NODE, f"node-{number}", node)
            self.world.keep()
            self.cluster.put_node(node)

    def choose(self, pod):
        return self.world.attempt(Unit(pod)).placed[0].node

    def schedule(self, pods, *, wait=31.0):
        for number in range(pods):
            name = f"pod-{number}"
            fields = {"cpu": f"{self.rng.randint(1, 40) * 50}m", "memory": f"{self.rng.randint(1, 40) * 128}Mi"}
            if self.rng.random() < 0.3:
                fields["spec"] = {
                    "affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [FAST]}}
                }
            self.cluster.create(name, **fields)
            document = self.cluster.documents[name]
            pod = PodInfo.from_raw(msgspec.json.encode(document))
            node = self.choose(pod)
            self.world.change(POD, pod.key, pod.on_node(node))
            self.world.keep()
            self.cluster.bind(name, node)
            self.cluster.wait(wait)
        self.cluster.wait()
        return self

    @property
    def guess(self):
        shadow = self.cluster.shadow
        shadow.settle(self.cluster.seconds, everything=True)
        (guess,) = shadow.guesses
        return guess


FAST = {"weight": 10, "preference": {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["fast"]}]}}


@pytest.mark.parametrize(
    "settings",
    [
        (MOST,),
        ("NodeResourcesFit.scoringStrategy={type: LeastAllocated, resources: [{name: memory, weight: 1}]}",),
        ("NodeResourcesBalancedAllocation.score.enabled=false",),
        ("TaintToleration.score.enabled=false",),
        (MOST, "TaintToleration.score.enabled=false"),
    ],
    ids=" ".join,
)
def test_likely_settings_are_found(settings):
    guess = OtherScheduler(*settings).schedule(55).guess
    assert set(guess.settings) == set(settings)
    assert guess.explained >= 0.9 * guess.bindings > guess.known


def test_the_guess_says_what_to_try_and_that_it_is_one(tmp_path):
    guess = OtherScheduler(MOST).schedule(55).guess
    assert guess.text == (
        f"{NAME} seems to score otherwise: the differences are explained by {MOST}. This is a guess: "
        f"{guess.explained} of {guess.bindings} bindings fit it, and {guess.known} fit the configuration that it is "
        f"taken to have. To try it: --set {MOST}"
    )
    (tmp_path / "guess.yaml").write_text(guess.configuration)
    (profile,) = load_configuration(tmp_path / "guess.yaml").profiles
    assert [(each.name, each.args) for each in profile.pluginConfig] == [
        ("NodeResourcesFit", {"scoringStrategy": {"type": "MostAllocated"}})
    ]


def test_with_the_guess_nothing_differs():
    cluster = OtherScheduler(MOST, known=(MOST,)).schedule(55).cluster
    assert cluster.shadow.tally.share() == 1.0
    assert cluster.shadow.guesses == []


def test_a_known_configuration_is_what_the_guess_changes():
    """The scheduler has the default strategy, and is taken to pack."""
    guess = OtherScheduler(known=(MOST,)).schedule(55).guess
    assert guess.settings == ("NodeResourcesFit.scoringStrategy={type: LeastAllocated}",)


def test_a_scheduler_that_chooses_at_random_has_no_likely_configuration():
    other = OtherScheduler()
    other.choose = lambda pod: other.rng.choice(list(other.world.state.table.row_of))
    guess = other.schedule(60).guess
    assert guess.settings == ()
    assert guess.text.startswith(f"{NAME} seems to score otherwise: {guess.known} of {guess.bindings} bindings fit")
    assert guess.text.endswith("give its own with --config")


def test_a_smaller_sample_of_a_large_cluster_is_found():
    """Of 1,000 nodes, kube-scheduler scores 420, and with the setting 100."""
    rng, profile = random.Random(5), World().profiles[NAME]
    bindings = []
    for _ in range(50):
        scores = np.array(rng.sample(range(1000), 1000), dtype=float)
        chosen = max(rng.sample(range(1000), 100), key=scores.__getitem__)
        kept = sorted({chosen, *rng.sample(range(1000), ROWS)})
        bindings.append(ScoredBinding(kept.index(chosen), 1000, 1000, {"NodeResourcesFit": scores[kept]}))
    *_, found = likeliest(profile, [], bindings)
    assert found.settings in {("percentageOfNodesToScore=5",), ("percentageOfNodesToScore=10",)}
    known = LikelyConfiguration.of(profile, ["NodeResourcesFit"])
    before, after = fit([known, found], profile, bindings).fits.sum(axis=1)
    assert after >= 45
    assert before <= 25


def test_equal_scores_explain_little():
    """With no score at all, every node is among the best. Still the strategy is likelier, which singles out a node."""
    rng, profile = random.Random(5), World().profiles[NAME]
    bindings = []
    for _ in range(50):
        columns = {name: np.array(rng.choices(range(101), k=20), dtype=float) for name in ("NodeResourcesFit", "most")}
        bindings.append(ScoredBinding(int(columns["most"].argmax()), 20, 20, columns))
    *_, found = likeliest(profile, [LikelyArguments("NodeResourcesFit", {}, ("most",))], bindings)
    assert found.settings == ("most",)


def test_there_is_no_guess_before_50_bindings_and_none_without_doubts():
    few = OtherScheduler(MOST).schedule(45).cluster.shadow
    few.settle(10_000, everything=True)
    assert (few.guesses, few.tally.unknown > 30) == ([], True)
    usual = OtherScheduler().schedule(60).cluster.shadow
    assert usual.guesses == []
    assert usual._doubts[NAME]._witness is None, "nothing was asked again"


def test_a_guess_needs_no_search_for_other_causes():
    """On a busy machine, searching takes all the time that it may take."""
    assert OtherScheduler(MOST, budget=SearchBudget(0, 0)).schedule(55).guess.settings == (MOST,)


def test_what_is_kept_for_guesses_is_bounded():
    doubts = OtherScheduler(MOST, nodes=300).schedule(60).cluster.shadow._doubts[NAME]
    assert len(doubts._bindings) <= 50
    assert max(len(column) for each in doubts._bindings for column in each.columns.values()) == ROWS


def test_a_guess_is_part_of_the_record():
    guess = OtherScheduler(MOST).schedule(55).guess
    assert msgspec.json.decode(msgspec.json.encode(guess), type=ShadowGuess) == guess
    assert yaml.safe_load(guess.configuration)["profiles"][0]["schedulerName"] == NAME

"""How long a pod still runs, by what is known of its run time, and how old it is."""

import math
import random
from statistics import mean, quantiles

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayplan.answers.simulation.models.run_times import AtMost, Exactly, Lognormal, Seen

SECONDS = st.floats(0.1, 1e6)
RUN_TIMES = st.one_of(
    st.builds(Exactly, SECONDS),
    st.builds(lambda p50, more: Lognormal.of(p50, p50 * more), SECONDS, st.floats(1.01, 50)),
    st.builds(Seen.of, st.lists(SECONDS, min_size=1, max_size=9)),
    st.builds(AtMost, SECONDS),
    st.builds(AtMost, SECONDS, st.builds(Exactly, SECONDS)),
)
SHARES = st.floats(0.0, 1.0, exclude_max=True)


@given(RUN_TIMES, SHARES, SHARES, st.floats(0.0, 1e6))
def test_a_pod_runs_at_least_until_now_and_longer_at_a_larger_share(run_time, one, other, age):
    low, high = (run_time.at(share, age) for share in sorted((one, other)))
    assert age <= low * (1 + 1e-9)
    assert low <= high * (1 + 1e-9)
    assert math.isfinite(high)


def sample(run_time, age, number=4000):
    rng = random.Random(1)
    return [run_time.at(rng.random(), age) for _ in range(number)]


def test_a_lognormal_time_has_its_quantiles():
    run_time = Lognormal.of(600, 1800)
    assert run_time.at(0.5) == pytest.approx(600)
    assert run_time.at(0.9) == pytest.approx(1800)


@pytest.mark.parametrize("age", [0.0, 300.0, 900.0, 3000.0])
def test_what_is_left_of_a_lognormal_time_is_as_of_the_pods_that_are_that_old(age):
    rng, run_time = random.Random(2), Lognormal.of(600, 1800)
    old = [each for each in (rng.lognormvariate(run_time.scale, run_time.sigma) for _ in range(200_000)) if each > age]
    for drawn, expected in zip(quantiles(sample(run_time, age), n=10), quantiles(old, n=10), strict=True):
        assert drawn == pytest.approx(expected, rel=0.12)


def test_the_next_of_the_seen_times_is_between_any_two_of_them_equally_often():
    run_time = Seen.of([300, 100, 200])
    shares = sample(run_time, 0.0)
    for low, high in ((0, 100), (100, 200), (200, 300), (300, math.inf)):
        assert sum(low < each <= high for each in shares) / len(shares) == pytest.approx(0.25, abs=0.03)


def test_seen_times_that_are_all_the_same_are_expected_again():
    assert all(590 <= each <= 660 for each in sample(Seen.of([600] * 20), 0.0))


def test_a_pod_that_has_outlived_all_that_is_known_may_end_at_any_moment():
    assert mean(sample(Exactly(100.0), 150.0)) == pytest.approx(250.0, rel=0.05)
    assert min(sample(Seen.of([100, 200]), 500.0)) < 502
    assert sample(AtMost(100.0), 150.0, 1) == [150.0]


def test_a_bound_ends_what_would_run_longer():
    assert AtMost(50.0, Exactly(80.0)).at(0.3) == 50.0
    assert AtMost(50.0, Exactly(20.0)).at(0.3) == 20.0
    assert AtMost(50.0).at(0.3, 10.0) == 50.0

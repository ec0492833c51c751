"""The Prometheus metrics of a shadow."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from bayplan.answers.shadow.following import ShadowFollower


class ShadowCollector(Collector):
    """Reads the counts of a shadow when it is scraped."""

    def __init__(self, follower: ShadowFollower) -> None:
        self._follower = follower

    def collect(self) -> Iterator[Metric]:
        """All families."""
        follower, shadow = self._follower, self._follower.shadow
        tally = shadow.tally
        compared = CounterMetricFamily(
            "bayplan_shadow_comparisons",
            "Decisions of the scheduler that were compared, by subject, outcome and cause of the difference.",
            labels=("subject", "outcome", "cause"),
        )
        for each in tally.counts:
            compared.add_metric((each.subject.value, each.outcome.value, each.cause.value), each.number)
        yield compared
        yield CounterMetricFamily(
            "bayplan_shadow_missed", "Decisions of the scheduler that could not be compared.", value=tally.missed
        )
        yield CounterMetricFamily(
            "bayplan_shadow_score_difference",
            "How much higher Bayplan scores its own nodes than the scheduler's, summed up over all bindings.",
            value=tally.loss,
        )
        yield GaugeMetricFamily(
            "bayplan_shadow_waiting", "Differences that wait to be explained.", value=shadow.waiting
        )
        yield GaugeMetricFamily(
            "bayplan_shadow_late_seconds", "How many seconds the shadow is behind the cluster.", value=follower.late
        )
        likely = GaugeMetricFamily(
            "bayplan_shadow_likely_configuration",
            "The share of bindings that fit the configuration that a scheduler seems to have. A guess.",
            labels=("scheduler", "settings"),
        )
        for guess in shadow.guesses:
            if guess.settings:
                likely.add_metric((guess.scheduler, " ".join(guess.settings)), guess.explained / guess.bindings)
        yield likely
        yield GaugeMetricFamily(
            "bayplan_shadow_synced", "Whether the cluster is followed.", value=follower.synced.is_set()
        )

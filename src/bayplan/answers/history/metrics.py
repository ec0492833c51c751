"""The Prometheus metrics of a process that records a history."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from bayplan.answers.history.recording import HistoryRecorder


class HistoryCollector(Collector):
    """Reads what a recorder has done when it is scraped."""

    def __init__(self, recorder: HistoryRecorder) -> None:
        self._recorder = recorder

    def collect(self) -> Iterator[Metric]:
        """All families."""
        recorder, progress = self._recorder, self._recorder.progress
        yield GaugeMetricFamily(
            "bayplan_history_recording",
            "Whether what happens in the cluster is recorded; 0 while nothing can be written.",
            value=recorder.synced.is_set() and not recorder.problem,
        )
        yield GaugeMetricFamily(
            "bayplan_history_missed_kinds", "The kinds whose changes are not seen now.", value=len(progress.missed)
        )
        yield CounterMetricFamily(
            "bayplan_history_gaps",
            "Gaps that were noted: one for each kind of an outage, and one after a restart or a full disk.",
            value=progress.gaps,
        )
        yield CounterMetricFamily("bayplan_history_rows", "Rows that were written.", value=progress.rows)

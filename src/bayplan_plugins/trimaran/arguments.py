"""Arguments that all Trimaran plugins have: where loads come from. Mirrors TrimaranSpec (apis/config/v1/types.go)."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from bayplan.plugin import FieldError, PluginArgs, field_errors

METRICS_SERVER, PROMETHEUS, SIGNAL_FX = "KubernetesMetricsServer", "Prometheus", "SignalFx"


class MetricProvider(msgspec.Struct, frozen=True):
    """What is asked for loads, where no load-watcher is."""

    type: str = ""
    address: str = ""
    token: str = ""
    insecureSkipVerify: bool | None = None


class TrimaranArgs(PluginArgs, kw_only=True):
    """The source of loads: a load-watcher if there is an address, else a metric provider, by default metrics-server."""

    metricProvider: MetricProvider = msgspec.field(default_factory=MetricProvider)
    watcherAddress: str = ""

    @property
    def provider(self) -> str:
        """The type of the metric provider."""
        return self.metricProvider.type or METRICS_SERVER

    def faults(self) -> Iterator[FieldError]:
        """Yield the validation errors."""
        where = "metricProvider.type"
        if self.watcherAddress:
            return
        if self.provider == SIGNAL_FX:
            problem = "loads are not read from SignalFx itself: set watcherAddress to a load-watcher that reads it"
            yield field_errors.invalid(where, self.provider, problem)
        elif self.provider not in {METRICS_SERVER, PROMETHEUS}:
            yield field_errors.invalid(where, self.provider, f"invalid MetricProvider.Type, got {self.provider}")

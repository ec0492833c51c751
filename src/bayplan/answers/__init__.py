"""Answers about decisions: now, in the past, and with another configuration.

`simulation` is a cluster in memory and virtual time behind the core's ports. `judging` alone knows when two decisions
are equal. `insight` has the questions about one cluster, `history` what happened over time; `backtest` and `sweeps`
decide a history again, `replay` a recording, and `shadow` beside another scheduler. It imports `bayplan.core` and the
client of `bayplan.running`. Start at `insight/insight.py` for a question, or at `backtest/running.py` for a simulated
week.

Other packages use `backtest`, `history`, `insight`, `moments`, `replay`, `shadow`, `simulation`, `snapshots`, `sweeps`.
"""

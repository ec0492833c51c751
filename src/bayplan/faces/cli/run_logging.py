"""The log of `bayplan run`: its level and format."""

from __future__ import annotations

import json
import logging
from typing import Any

from bayplan.foundations.log_fields import SCORES, LogField

TEXT, JSON = "text", "json"
FORMATS = (TEXT, JSON)
INFO_LEVEL, DEBUG_LEVEL, SCORES_LEVEL = 2, 4, 10
"""Levels of klog: what happens to each pod, also why, and also all scores."""

REQUESTED = "bayplan.running.service.debugging"
"""The logger of dumps that are requested by a signal, which are logged at every level."""

REPORTS = "bayplan.faces.cli.run_reports"
"""The logger of what the scheduler reports at every level."""

_THRESHOLDS = ((SCORES_LEVEL, SCORES), (DEBUG_LEVEL, logging.DEBUG), (INFO_LEVEL, logging.INFO))


def configure_logging(level: int, form: str = TEXT) -> None:
    """Log to standard error: warnings; from level 2 what happens to each pod, from 4 why, from 10 everything."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines() if form == JSON else logging.Formatter("%(asctime)s %(levelname).1s %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    threshold = next((threshold for least, threshold in _THRESHOLDS if level >= least), logging.WARNING)
    logging.getLogger("bayplan").setLevel(threshold)
    for name in (REQUESTED, REPORTS):
        logging.getLogger(name).setLevel(min(threshold, logging.INFO))


class JsonLines(logging.Formatter):
    """Formats a record as a line of JSON with the fields of Kubernetes components: ts, caller, msg, v, err.

    Log fields (see `log_fields`) follow `msg`, as in `"pod":{"name":"web-0","namespace":"default"}`.
    """

    _LEVELS = ((logging.WARNING, 0), (logging.INFO, INFO_LEVEL), (logging.DEBUG, DEBUG_LEVEL))

    def format(self, record: logging.LogRecord) -> str:
        """The record as JSON. `ts` is in milliseconds."""
        line: dict[str, Any] = {
            "ts": round(record.created * 1000, 3),
            "caller": f"{record.filename}:{record.lineno}",
            "msg": record.getMessage(),
        }
        if isinstance(record.args, tuple):
            line.update({each.name: each.value for each in record.args if isinstance(each, LogField)})
        line["v"] = next((v for threshold, v in self._LEVELS if record.levelno >= threshold), SCORES_LEVEL)
        if record.levelno >= logging.WARNING:
            line["severity"] = record.levelname.lower()
        if record.exc_info:
            line["err"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)

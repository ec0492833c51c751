"""The log of `bayplan run`: how much of it, and in which form."""

from __future__ import annotations

import json
import logging

TEXT, JSON = "text", "json"
FORMATS = (TEXT, JSON)
INFO_LEVEL, DEBUG_LEVEL = 2, 4
"""The numbers of klog from which on there is more to say: what happens to every pod, and everything."""


def configure_logging(level: int, form: str = TEXT) -> None:
    """Log to standard error: what goes wrong; what happens to every pod from level 2 on, everything from 4 on."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines() if form == JSON else logging.Formatter("%(asctime)s %(levelname).1s %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    threshold = logging.DEBUG if level >= DEBUG_LEVEL else logging.INFO if level >= INFO_LEVEL else logging.WARNING
    logging.getLogger("bayplan").setLevel(threshold)


class JsonLines(logging.Formatter):
    """A line of JSON a record, with the names that Kubernetes' components use: ts, caller, msg, v or err."""

    _LEVELS = ((logging.WARNING, 0), (logging.INFO, INFO_LEVEL), (logging.DEBUG, DEBUG_LEVEL))

    def format(self, record: logging.LogRecord) -> str:
        """The record as JSON; `ts` counts milliseconds."""
        line = {
            "ts": round(record.created * 1000, 3),
            "caller": f"{record.filename}:{record.lineno}",
            "msg": record.getMessage(),
            "v": next((v for threshold, v in self._LEVELS if record.levelno >= threshold), DEBUG_LEVEL),
        }
        if record.levelno >= logging.WARNING:
            line["severity"] = record.levelname.lower()
        if record.exc_info:
            line["err"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)

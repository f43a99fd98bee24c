"""The log of a server, with one JSON object a line: for each request, and for other events.

The log has no headers, bodies or parameters, so that it contains no tokens. Names that clients send are escaped as JSON, so that they cannot forge a line.
"""

import json
import logging
import time
from collections.abc import Mapping
from typing import Any

LOG = logging.getLogger("icefloe.server")
# The most characters of a text that a client chose.
MOST_CHARACTERS = 500


class JsonFormatter(logging.Formatter):
    """Formats each log record as a line of JSON. The attribute `fields` of a record has further keys."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as a line of JSON."""
        content: dict[str, Any] = {
            "time": f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(record.created))}.{int(record.msecs):03d}Z",
            "level": record.levelname,
            "event": record.getMessage(),
            "process": record.process,
            **getattr(record, "fields", {}),
        }
        if record.name != LOG.name:
            content["logger"] = record.name
        if record.exc_info:
            content["error"] = self.formatException(record.exc_info)
        return json.dumps(content, default=str)


def log_settings(level: str) -> dict[str, Any]:
    """Return the logging configuration of a server for uvicorn: all logs are written as JSON to standard error.

    Args:
        level: The least level of logged records.
    """
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"json": {"()": "icefloe.server.request_log.JsonFormatter"}},
        "handlers": {"standard-error": {"class": "logging.StreamHandler", "formatter": "json"}},
        "loggers": {
            "": {"handlers": ["standard-error"], "level": "WARNING"},
            "icefloe": {"handlers": ["standard-error"], "level": level, "propagate": False},
            "uvicorn": {"handlers": ["standard-error"], "level": "WARNING", "propagate": False},
        },
    }


def log_request(fields: Mapping[str, Any], status: int) -> None:
    """Log a request with its status. Failures of the server are logged as errors."""
    level = logging.ERROR if status >= 500 else logging.INFO
    if LOG.isEnabledFor(level):
        LOG.log(level, "request", extra={"fields": {**{key: _short(value) for key, value in fields.items()}, "status": status}})


def _short(value: Any) -> Any:
    return value[:MOST_CHARACTERS] if isinstance(value, str) else value

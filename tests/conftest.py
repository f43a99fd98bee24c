"""Fixtures and settings of all tests."""

import signal

from tests.postgres import postgres, postgres_database, postgres_uri

__all__ = ["postgres", "postgres_database", "postgres_uri"]  # fixtures


if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell starts background processes with SIGINT ignored, and their children inherit it: tests that send Ctrl-C would wait for ever.
    signal.signal(signal.SIGINT, signal.default_int_handler)

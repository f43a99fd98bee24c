"""`Answers`: a Python object that Java asks. Questions are words, arguments and answers are JSON or objects of Spark's; errors go over as values.

The other side is `jvm/Python.java`. What is asked of whom is in the rooms beside this one. Floor: spark.
"""

import json
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, ClassVar, TypeVar

from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JError
from pyspark.errors.exceptions.captured import CapturedException

from icefloe.errors import (
    EngineError,
    IcefloeError,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NoSuchNamespaceError,
    NoSuchTableError,
    NoSuchViewError,
    TableAlreadyExistsError,
    UnsupportedError,
    ViewAlreadyExistsError,
)
from icefloe.spark.interrupts import interrupt_after_answer
from icefloe.spark.sql.tokens import StatementSyntaxError

LOG = logging.getLogger(__name__)
F = TypeVar("F", bound=Callable[..., Any])

# Which of Spark's own errors an error becomes; any other is an IllegalArgumentException with its words.
_KINDS: tuple[tuple[tuple[type[IcefloeError], ...], str], ...] = (
    ((NoSuchTableError, NoSuchViewError), "no such table"),
    ((TableAlreadyExistsError, ViewAlreadyExistsError), "table exists"),
    ((NoSuchNamespaceError,), "no such namespace"),
    ((NamespaceAlreadyExistsError,), "namespace exists"),
    ((NamespaceNotEmptyError,), "namespace not empty"),
    ((UnsupportedError,), "unsupported"),
)
_ANSWERS = "_icefloe_answers"


def answer(method: F) -> F:
    """Marks a method that Java may ask for by its name."""
    setattr(method, _ANSWERS, True)
    return method


class Answers:
    """Answers questions by the methods marked with `answer`, which take the argument: what its JSON holds, or a list of that and objects of Spark's."""

    failed: BaseException | None = None  # what the last question that failed met

    def apply(self, question: str, argument: Any) -> Any:
        """One question. Nothing is raised: an exception would lose its kind on the way through Py4J."""
        given: Any = None
        try:
            method = getattr(self, question, None)
            if method is None or not getattr(method, _ANSWERS, False):
                raise UnsupportedError(f"{type(self).__name__} does not answer {question!r}")
            given = json.loads(argument) if isinstance(argument, str) else argument
            found = method(given)
        except BaseException as error:
            self.failed = error
            LOG.debug("%s failed", question, exc_info=True)
            thrown = _thrown_by_spark(error)
            if isinstance(error, KeyboardInterrupt):
                interrupt_after_answer()
            if thrown is not None:
                return thrown
            return "!" + json.dumps(_as_values(error, given))
        return found if isinstance(found, Answers | JavaObject) else json.dumps(found)

    class Java:
        implements: ClassVar[list[str]] = ["java.util.function.BiFunction"]


class HintedAnswers(Answers):
    """Of what takes Spark's filters for hints, which Spark tests again, and computes no aggregate."""

    @answer
    def filters(self, asked: Mapping[str, Any]) -> list[bool]:
        return [False for _ in asked["filters"]]

    @answer
    def aggregate(self, _: Any) -> str | None:
        return None


def _thrown_by_spark(error: BaseException) -> JavaObject | None:
    """Spark's own exception where it is what a job failed with, such as a row of a MERGE that matches several."""
    captured = error.__cause__ if isinstance(error, EngineError) else error
    thrown = getattr(captured, "_origin", None) if isinstance(captured, CapturedException) else None
    while thrown is not None:
        with suppress(Py4JError):  # not every exception has a condition
            if thrown.getCondition() is not None:
                return thrown
        thrown = thrown.getCause()
    return None


def _as_values(error: BaseException, given: Any) -> dict[str, Any]:
    if isinstance(error, StatementSyntaxError):
        return {"kind": "syntax", "name": None, **error.place}
    kind = next((kind for classes, kind in _KINDS if isinstance(error, classes)), "invalid")
    message = str(error) if isinstance(error, IcefloeError) else f"{type(error).__name__}: {error}"
    name = (given.get("table") or given.get("namespace")) if isinstance(given, dict) else None
    if kind in ("no such namespace", "namespace exists", "namespace not empty") and isinstance(given, dict) and given.get("table"):
        name = given["table"][:-1]
    if name is None and kind not in ("unsupported", "invalid"):
        kind = "invalid"
    return {"kind": kind, "message": message, "name": name}

"""`PythonCallback`: a Python object that Java asks. Questions are words, arguments and answers are JSON or objects of Spark's; errors go over as values.

`ConnectorObject` stand for an object of Spark's connector, such as a table. The other side is `bridge/java/PythonBridge.java` and
`bridge/java/PythonProxy.java`.
What is asked of whom is in the rooms beside this one.
"""

import json
import logging
import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from inspect import signature
from typing import Any, ClassVar, TypeVar

from py4j.java_gateway import JavaObject

from icefloe.errors import UnsupportedError
from icefloe.spark.bridge.spark_errors import as_spark_error, refusal
from icefloe.spark.runtime.interrupts import interrupt_after_reply

LOG = logging.getLogger(__name__)
F = TypeVar("F", bound=Callable[..., Any])

_ANSWERS = "_icefloe_answers"
# What a method says that answers with the object it is called on.
THIS = "this"


def connector_method(method: F) -> F:
    """Marks a method that Java may ask for by its name."""
    setattr(method, _ANSWERS, True)
    return method


class PythonCallback:
    """Answers questions by the methods marked with `answer`. What the argument's JSON holds is what they take: each of a list, nothing where it is null.

    A list may come from Java, whose texts are JSON and whose other members are objects of Spark's.
    """

    failed: BaseException | None = None  # what the last question that failed met, its own or one of its parts'
    owner: "PythonCallback | None" = None  # whose part it is

    def apply(self, question: str, argument: Any) -> Any:
        """One question. Nothing is raised: an exception would lose its kind on the way through Py4J."""
        given: list[Any] = []
        try:
            method = getattr(self, question, None)
            if method is None or not getattr(method, _ANSWERS, False):
                raise UnsupportedError(f"{type(self).__name__} does not answer {question!r}")
            given = _arguments(argument)
            found = method(*given)
        except BaseException as error:
            self._has_failed(error)
            LOG.debug("%s failed", question, exc_info=True)
            thrown = as_spark_error(error, given[0] if given else None)
            if isinstance(error, KeyboardInterrupt):
                interrupt_after_reply()
            if thrown is not None:
                return thrown
            return refusal(error)
        return found if isinstance(found, PythonCallback | JavaObject) else json.dumps(found)

    def _has_failed(self, error: BaseException) -> None:
        self.failed = error
        if self.owner is not None:
            self.owner._has_failed(error)

    class Java:
        implements: ClassVar[list[str]] = ["java.util.function.BiFunction"]


class ConnectorObject(PythonCallback):
    """Answers for one object of Spark's connector: a Java object that has its `interfaces` passes on calls of the methods marked with `answer`.

    A method is named as Spark's is, in Python's spelling, and has as many parameters: `push_predicates` for `pushPredicates`. Arguments are said by
    `bridge/java/ConnectorJson.java`. What an answer becomes is told by the type that Spark's method returns: schemas are JSON, columns are names, a
    number is the place of an
    object among those that were given last. What a method without arguments answers is kept until another is called with some, unless it is whether
    something was done.
    """

    # Within `org.apache.spark.sql.connector`, those first that are made of others. A version of Spark that does not know one leaves it out.
    interfaces: ClassVar[tuple[str, ...]] = ()

    def identity(self) -> str | None:
        """Equal objects have equal ones; without, each is equal to itself alone."""
        return None

    def says(self) -> Mapping[str, Any]:
        """What methods answer that never change, by Spark's names for them: Spark calls some dozens of times, and Python is asked once."""
        return {}

    @connector_method
    def describe(self) -> dict[str, Any]:
        """What Java has to know of the object."""
        kind: Any = type(self)
        return {"interfaces": self.interfaces, "identity": self.identity(), "says": self.says(), "asked": _asked(kind)}


@cache
def _asked(kind: Any) -> Mapping[str, str]:
    """The questions that a class answers, by the names of Spark's methods and how many parameters these have."""
    marked: Iterable[str] = (name for name in dir(kind) if getattr(getattr(kind, name), _ANSWERS, False))
    counts = {name: len(signature(getattr(kind, name)).parameters) - 1 for name in marked}
    return {re.sub("_(.)", lambda found: found[1].upper(), name) + f"/{count}": name for name, count in counts.items()}


def _arguments(argument: Any) -> list[Any]:
    if not isinstance(argument, str):
        return [json.loads(one) if isinstance(one, str) else one for one in argument]
    found = json.loads(argument)
    return found if isinstance(found, list) else [] if found is None else [found]

"""`PythonCallback` and `ConnectorObject`: Python objects whose marked methods Java calls; and the one place that checks the messages of these calls.

A call is the name of a method and its arguments; `messages.py` has the types of the arguments. The result is returned as JSON, as an object of
Spark or as another callback. Nothing is raised across Py4J, where an exception would lose its class: `spark_errors.py` turns an error into an exception of
Spark or a text. The Java side is `bridge/java/PythonBridge.java` and, for objects of Spark's connector, `bridge/java/PythonProxy.java`.

Spark may call one object from several threads at once; Py4J runs each call in a thread of its own. A method that is called on objects which statements share
(catalogs, tables, scans, functions) therefore changes no state that another call reads. Builders change their state: Spark uses each in one thread.
"""

import json
import logging
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from inspect import Parameter, signature
from typing import Any, ClassVar, TypeVar, get_type_hints

import msgspec
from py4j.java_gateway import JavaObject

from icefloe.errors import EngineError, Problem
from icefloe.spark.bridge.messages import ObjectDescription
from icefloe.spark.bridge.spark_errors import as_spark_error, refusal
from icefloe.spark.runtime.interrupts import interrupt_after_reply

LOG = logging.getLogger(__name__)
_REPLIES = threading.local()  # `last`: the Java object that a callback of the thread returned last
F = TypeVar("F", bound=Callable[..., Any])

_MARK = "_icefloe_connector_method"
# The result of a method that returns the object itself.
THIS = "this"


class MessageError(EngineError):
    """A message from the JVM that does not fit the method that it names."""


@dataclass(frozen=True, slots=True)
class ConnectorMethod:
    """A method that Java may call, with the names and types of its parameters."""

    name: str
    parameters: Mapping[str, Any]

    @classmethod
    def of(cls, name: str, function: Callable[..., Any]) -> "ConnectorMethod":
        """Return the method of this name, given its function, whose first parameter is the object."""
        hints = get_type_hints(function)
        _, *parameters = signature(function).parameters.values()
        return cls(name, {parameter.name: hints.get(parameter.name, Parameter.empty) for parameter in parameters})

    def arguments(self, receiver: str, message: Any) -> list[Any]:
        """Return the arguments of a message, checked.

        Args:
            receiver: The name of the class that has the method, for errors.
            message: JSON text of one argument, of a list of all, or of null where there is none; or a list of JSON texts and Java objects.

        Raises:
            MessageError: The text is not JSON, the number of arguments is wrong, or an argument does not have the type of its parameter.
        """
        values = self._values(receiver, message)
        if len(values) != len(self.parameters):
            raise MessageError(
                f"{receiver}.{self.name} takes {len(self.parameters)} arguments ({', '.join(self.parameters) or 'none'}), and the message has {len(values)}"
            )
        for (name, kind), value in zip(self.parameters.items(), values, strict=True):
            self._check(receiver, name, kind, value)
        return values

    def _values(self, receiver: str, message: Any) -> list[Any]:
        try:
            if not isinstance(message, str):
                return [json.loads(argument) if isinstance(argument, str) else argument for argument in message]
            value = json.loads(message)
        except (ValueError, TypeError, RecursionError) as error:
            raise MessageError(f"the message to {receiver}.{self.name} is not JSON: {type(error).__name__}: {error}") from error
        return value if isinstance(value, list) else [] if value is None else [value]

    def _check(self, receiver: str, name: str, kind: Any, value: Any) -> None:
        if kind is JavaObject:
            if value is None or isinstance(value, str | bool | int | float | dict):
                raise self._wrong(receiver, name, "", f"expected an object of Spark, got {type(value).__name__}")
            return
        try:
            msgspec.convert(value, kind)
        except msgspec.ValidationError as error:
            what, _, path = str(error).partition(" - at ")
            raise self._wrong(receiver, name, path.strip("`$"), what) from error
        except RecursionError as error:
            raise self._wrong(receiver, name, "", "nested too deeply") from error

    def _wrong(self, receiver: str, name: str, path: str, what: str) -> MessageError:
        field = f"{name}{path}"
        return MessageError(f"{receiver}.{self.name} received a wrong argument {field}", problems=[Problem(where=field, what=what)])


def connector_method(method: F) -> F:
    """Mark a method that Java may call by its name; its parameters are annotated with the types of `messages.py`."""
    setattr(method, _MARK, True)
    return method


class PythonCallback:
    """A Python object that Java calls through one function of two arguments: the name of a marked method, and its arguments."""

    last_error: BaseException | None = None  # of the last call that failed, of this object or of one that it owns
    owner: "PythonCallback | None" = None  # the object that also keeps the errors of this one

    def apply(self, method_name: str, message: Any) -> Any:
        """Call a marked method.

        Args:
            method_name: The name of the method.
            message: Its arguments, as `ConnectorMethod.arguments` takes them.

        Returns:
            JSON text of the result, or the result where it is a Java object or another callback. For an error: the exception of Spark for it, or the text
            that `refusal` returns.
        """
        reply = self._reply(method_name, message)
        # Py4J sends the id of a Java object, and the JVM drops an object that Python has released: it could not find the reply. The next call of this thread
        # comes when it has read this one.
        _REPLIES.last = reply if isinstance(reply, JavaObject) else None
        return reply

    def _reply(self, method_name: str, message: Any) -> Any:
        arguments: list[Any] = []
        kind: Any = type(self)
        try:
            method = connector_methods(kind).get(method_name)
            if method is None:
                raise MessageError(f"{type(self).__name__} has no connector method {method_name!r}")
            arguments = method.arguments(type(self).__name__, message)
            result = getattr(self, method_name)(*arguments)
        except BaseException as error:
            self._keep_error(error)
            LOG.debug("%s failed", method_name, exc_info=True)
            exception = as_spark_error(error, arguments[0] if arguments else None)
            if isinstance(error, KeyboardInterrupt):
                interrupt_after_reply()
            return refusal(error) if exception is None else exception
        return result if isinstance(result, PythonCallback | JavaObject) else json.dumps(result)

    def _keep_error(self, error: BaseException) -> None:
        self.last_error = error
        if self.owner is not None:
            self.owner._keep_error(error)

    class Java:
        """Java interfaces of the object, as Py4J reads them."""

        implements: ClassVar[list[str]] = ["java.util.function.BiFunction"]


class ConnectorObject(PythonCallback):
    """A Python object behind a Java object that has the `interfaces` and passes their calls on to the marked methods.

    A method has the name of Spark's method, in Python's spelling, and as many parameters: `push_predicates` for `pushPredicates`. The Java side,
    `bridge/java/PythonProxy.java`, converts the result to the type that Spark's method returns: schemas are JSON, columns are names, a number is the index of
    an object among those that the last call passed. It keeps the result of a method without parameters until a method is called with arguments, unless the
    result is a boolean or nothing.
    """

    # Names within `org.apache.spark.sql.connector`, subclasses before their bases. Interfaces that a version of Spark lacks are left out.
    interfaces: ClassVar[tuple[str, ...]] = ()

    def identity(self) -> str | None:
        """Return a text that is the same for equal objects; None where an object equals only itself."""
        return None

    def constants(self) -> Mapping[str, Any]:
        """Return the results of methods that never change, by the names of Spark's methods, which Spark may call dozens of times."""
        return {}

    @connector_method
    def describe(self) -> ObjectDescription:
        """Return the description that Java creates the proxy of this object from."""
        kind: Any = type(self)
        return {
            "interfaces": self.interfaces,
            "identity": self.identity(),
            "constants": self.constants(),
            "methods": java_signatures(kind),
        }


@cache
def connector_methods(kind: Any) -> Mapping[str, ConnectorMethod]:
    """Return the methods of a class that Java may call, by their names."""
    marked = (name for name in dir(kind) if getattr(getattr(kind, name), _MARK, False))
    return {name: ConnectorMethod.of(name, getattr(kind, name)) for name in marked}


@cache
def java_signatures(kind: Any) -> Mapping[str, str]:
    """Return the names of a class's methods by the name and the number of parameters of the Java methods, such as `pushPredicates/1`."""
    return {
        re.sub("_(.)", lambda match: match[1].upper(), name) + f"/{len(method.parameters)}": name
        for name, method in connector_methods(kind).items()
    }

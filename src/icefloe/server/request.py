"""`Call`: one request as an operation sees it: names, parameters, headers and the body, decoded and checked; and `Answer`, what an operation returns.

Names come percent-encoded in the path, and the levels of a namespace are joined by the unit separator. They are split before they are decoded, so that an
encoded slash is part of a name, which the rules of names then refuse. Spec: REST catalog, parameters.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import unquote

import msgspec

from icefloe.server.access_control import Access
from icefloe.server.error_response import bad_request
from icefloe.spec.identifier import Identifier, to_identifier, to_table_identifier
from icefloe.spec.schema.json_shape import Key, object_problems

# Between the levels of a namespace in a path or a parameter. Spec: REST catalog, namespace.
SEPARATOR = "\x1f"
_WEIGHT = re.compile(r"[01](\.[0-9]{0,3})?")
# Items of a page at most, and where the client names no size.
MAX_PAGE = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The response of an operation: a JSON value, or its bytes; None where there is no body.

    Attributes:
        status: The status code.
        content: The JSON value.
        body: The bytes of the JSON, where they are put together already, or of the type that the header Content-Type names.
        headers: The headers.
        has_credentials: Whether there are credentials in it, which are stored nowhere.
    """

    status: int = 200
    content: Any = None
    body: bytes | memoryview | None = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict)
    has_credentials: bool = False

    def encode(self) -> "Answer":
        """Return the response with the bytes of its JSON value in the place of the value, which takes up to a hundred times their memory."""
        return self if self.body is not None else replace(self, content=None, body=msgspec.json.encode(self.content))


NO_CONTENT = Answer(status=204)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request.

    Attributes:
        path: The parameters of the path, as they came.
        query: The parameters after `?`, decoded.
        headers: The headers, by name in lower case.
        content: The JSON of the body; None without one.
        body: The bytes of the body.
        access: What the user may do whose token came with the request.
        base_url: The address that the client has for the server, without a slash at its end.
    """

    path: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    content: Any = None
    body: bytes = b""
    access: Access = field(default_factory=Access)
    base_url: str = ""

    def namespace(self) -> Identifier:
        """Return the namespace of the path. Raises `InvalidIdentifierError`."""
        return namespace_of(decode_segment(self.path["namespace"]))

    def table(self) -> Identifier:
        """Return the levels of the table's name in the path. Raises `InvalidIdentifierError`."""
        return to_table_identifier((*self.namespace(), decode_segment(self.path["table"])))

    def view(self) -> Identifier:
        """Return the levels of the view's name in the path. Raises `InvalidIdentifierError`."""
        return to_table_identifier((*self.namespace(), decode_segment(self.path["view"])))

    def json_object(self, *keys: Key) -> Mapping[str, Any]:
        """Return the body as a JSON object with these keys.

        Args:
            *keys: the keys, with a check of each value; others are ignored.

        Raises:
            RefusedRequest: there is no body, it is no object, or a key is missing or has another type; every problem is listed.
        """
        return checked_object(self.content, "$", *keys)

    def is_true(self, name: str) -> bool:
        """Return the value of a parameter that is `true` or `false`, which it is without it. Raises `RefusedRequest`."""
        text = self.query.get(name, "false").lower()
        if text not in ("true", "false"):
            raise bad_request(f"the parameter {name} is {text!r}; it is true or false")
        return text == "true"


def checked_object(value: Any, where: str, *keys: Key) -> Mapping[str, Any]:
    """Return a JSON value that is an object with these keys. Raises `RefusedRequest` with every problem."""
    problems = list(object_problems(value, where, keys))
    if problems:
        raise bad_request("the body does not have the form that the protocol requires: " + "; ".join(map(str, problems)))
    assert isinstance(value, Mapping)  # noqa: S101  # the line above refused anything else
    return value


def decode_segment(text: str) -> str:
    """Return a segment of a path, percent-decoded. Raises `RefusedRequest` for bytes that are no UTF-8."""
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        raise bad_request(f"the path has bytes that are no UTF-8: {text!r}") from None


def accepts(header: str, media_type: str) -> bool:
    """Return whether a client accepts a media type by its name, and does not prefer JSON.

    Args:
        header: The header Accept.
        media_type: The type.
    """
    weights = {"application/json": 0.0, media_type: 0.0}
    for text in header.split(","):
        name, *parameters = (part.strip().lower() for part in text.split(";"))
        if name in weights:
            weight = next((parameter[2:] for parameter in parameters if parameter.startswith("q=")), "1")
            weights[name] = float(weight) if _WEIGHT.fullmatch(weight) else 0.0
    return weights[media_type] > 0 and weights[media_type] >= weights["application/json"]


def namespace_of(text: str) -> Identifier:
    """Return the levels of a namespace in a path or a parameter. Raises `InvalidIdentifierError`."""
    return to_identifier(text.split(SEPARATOR))


def identifier_of(value: Any, where: str) -> Identifier:
    """Return the levels of a name in a body. Spec: REST catalog, TableIdentifier.

    Raises:
        RefusedRequest: it is no name.
        InvalidIdentifierError: the catalog cannot have the name.
    """
    named = checked_object(value, where, Key("namespace", levels), Key("name", text_value))
    return to_table_identifier((*named["namespace"], named["name"]))


def identifier_json(identifier: Identifier) -> dict[str, Any]:
    """Return a name as a body has it. Spec: REST catalog, TableIdentifier."""
    return {"namespace": list(identifier[:-1]), "name": identifier[-1]}


def levels(value: Any) -> str | None:
    """Return the problem of a value that should be a list of texts, as of the levels of a name; None if there is none."""
    is_list = isinstance(value, list) and bool(value) and all(isinstance(level, str) for level in value)
    return None if is_list else "expected a list of texts"


def text_value(value: Any) -> str | None:
    """Return the problem of a value that should be text; None if there is none."""
    return None if isinstance(value, str) else "expected text"


@dataclass(frozen=True, slots=True, kw_only=True)
class ListPage:
    """A part of a list, and the token of the next part; None after the last."""

    items: Sequence[Any]
    next_token: str | None


def page_of(names: Sequence[Identifier], call: Call) -> ListPage:
    """Return the requested page of a sorted list.

    The token is the last name of the page before, so that names that are created or dropped meanwhile shift no page.

    Args:
        names: The whole list, sorted.
        call: The request, with `pageToken` and `pageSize`; without both it is the whole list.

    Raises:
        RefusedRequest: the size is not a whole number above 0.
    """
    token, size_text = call.query.get("pageToken"), call.query.get("pageSize")
    if token is None and size_text is None:
        return ListPage(items=names, next_token=None)
    size = MAX_PAGE
    if size_text is not None:
        if not (size_text.isascii() and size_text.isdigit() and len(size_text) < 10 and int(size_text) > 0):
            raise bad_request(f"pageSize is {size_text!r}; it is a whole number above 0")
        size = min(int(size_text), MAX_PAGE)
    rest = [name for name in names if name > tuple(token.split(SEPARATOR))] if token else list(names)
    items = rest[:size]
    return ListPage(items=items, next_token=SEPARATOR.join(items[-1]) if len(rest) > size else None)

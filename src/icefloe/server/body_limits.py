"""The limits on what one request may define: updates, requirements, schemas, partition specs, sort orders, statistics, properties.

Some work grows faster than the size of a body, such as the comparison of each new schema with all others. These limits bound it. All other work is bounded by
the number of bytes and values of the body, which are counted before it is decoded. The limits are checked after the user's rights, and before anything of the
catalog is read.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from icefloe.server.error_response import TOO_LARGE, RefusedRequest
from icefloe.server.server_settings import ServerLimits

# Updates that add a numbered object to a table or view.
_DEFINITIONS = frozenset({"add-schema", "add-spec", "add-sort-order", "add-view-version"})
_STATISTICS = frozenset({"set-statistics", "set-partition-statistics"})
# The noun for the things that each limit counts, for errors.
_NOUNS = {
    "tables": "tables",
    "commit_items": "updates and requirements",
    "definitions": "new schemas, partition specs, sort orders and view versions",
    "columns": "fields of schemas",
    "layout_fields": "fields of one partition spec or sort order",
    "statistics": "statistics files and blobs",
    "properties": "properties",
    "representations": "representations of one view version",
}


def check_amounts(content: Any, limits: ServerLimits) -> None:
    """Refuse the body of a request that defines more than the server accepts at once.

    Args:
        content: The decoded JSON of the body.
        limits: The limits of the server.

    Raises:
        RefusedRequest: The request exceeds a limit, which the message names.
    """
    amounts: Counter[str] = Counter()
    if isinstance(content, dict):
        amounts["tables"] = _length(content.get("table-changes"))
    for part in _commits(content):
        amounts["commit_items"] += _length(part.get("requirements")) + _length(part.get("updates"))
        amounts["properties"] += _length(part.get("properties"))
        # `updates` is an object in a change of a namespace's properties, and a list in a commit.
        amounts["properties"] += (
            sum(map(_length, (part.get("updates"), part.get("removals")))) if isinstance(part.get("updates"), dict) else 0
        )
        for name, update in _updates(part):
            amounts["definitions"] += name in _DEFINITIONS
            amounts["statistics"] += _statistics(name, update)
            amounts["properties"] += _length(update.get("updates")) + _length(update.get("removals"))
        for holder in (part, *(update for _, update in _updates(part))):
            amounts["columns"] += _columns(holder.get("schema"))
            for kind, length in _lengths(holder):
                amounts[kind] = max(amounts[kind], length)
    for kind, amount in amounts.items():
        most = getattr(limits, kind)
        if amount > most:
            raise RefusedRequest(
                TOO_LARGE,
                "BadRequestException",
                f"the request has {amount} {_NOUNS[kind]}, and the server's limit {kind} is {most}; send less in one request",
            )


def _commits(content: Any) -> Iterator[dict[str, Any]]:
    """Yield the body itself, and the commits of single tables in it."""
    if isinstance(content, dict):
        yield content
        changes = content.get("table-changes")
        yield from (change for change in (changes if isinstance(changes, list) else ()) if isinstance(change, dict))


def _updates(part: dict[str, Any]) -> Iterator[tuple[Any, dict[str, Any]]]:
    updates = part.get("updates")
    for update in updates if isinstance(updates, list) else ():
        if isinstance(update, dict):
            action = update.get("action")
            yield action if isinstance(action, str) else "", update


def _statistics(name: str, update: dict[str, Any]) -> int:
    file = update.get("statistics")
    return (name in _STATISTICS) + (_length(file.get("blob-metadata")) if isinstance(file, dict) else 0)


def _columns(schema: Any) -> int:
    """Count the fields of a schema at every depth. There is no recursion, because a schema may be deeper than Python's stack."""
    count, rest = 0, [schema]
    while rest:
        kind = rest.pop()
        if isinstance(kind, dict):
            named = kind.get("fields")
            inner = [field.get("type") for field in named if isinstance(field, dict)] if isinstance(named, list) else []
            inner += [kind[name] for name in ("element", "key", "value") if name in kind]
            count += len(inner)
            rest += inner
    return count


def _lengths(holder: dict[str, Any]) -> Iterator[tuple[str, int]]:
    """Yield, for each list in the definitions of a body or update, the name of the limit that applies to it, and its length."""
    for name in ("partition-spec", "write-order", "spec", "sort-order"):
        yield "layout_fields", _length_of(holder, name, "fields")
    yield "representations", _length_of(holder, "view-version", "representations")


def _length_of(holder: dict[str, Any], name: str, of: str) -> int:
    value = holder.get(name)
    return _length(value.get(of)) if isinstance(value, dict) else 0


def _length(value: Any) -> int:
    return len(value) if isinstance(value, list | dict) else 0

"""The properties of a catalog: from arguments, the environment, Icefloe's file and PyIceberg's file. The first of them that has a property wins.

    icefloe.yaml              in $ICEFLOE_HOME, the working directory, ~ (there also as .icefloe.yaml)
    .pyiceberg.yaml           in $PYICEBERG_HOME, ~, the working directory
    both contain              catalog: {NAME: {uri: ..., warehouse: ...}}, and optionally default-catalog: NAME
    ICEFLOE_CATALOG__NAME__KEY and PYICEBERG_CATALOG__NAME__KEY; in KEY, `__` is a dot and `_` a hyphen, in NAME `_` is itself or a hyphen
    ICEFLOE_CATALOG, PYICEBERG_DEFAULT_CATALOG name the default catalog

As in PyIceberg, every value is a string as it is written, `0123` and `yes` too, and a catalog's name is not case-sensitive.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from icefloe.errors import InvalidPropertyError
from icefloe.formatting import short_text
from icefloe.optional_packages import optional_module
from icefloe.similar_names import similar_name

DEFAULT_CATALOG = "default"
FILE_KEYS = ("catalog", "default-catalog")  # keys of a configuration file that are read; PyIceberg's files have others too
ENVIRONMENT_PREFIXES = ("ICEFLOE_CATALOG__", "PYICEBERG_CATALOG__")
DEFAULT_NAME_VARIABLES = ("ICEFLOE_CATALOG", "PYICEBERG_DEFAULT_CATALOG")


def default_catalog_name() -> str:
    """Return the name of the default catalog: from the environment, else from a file, else `default`."""
    return configured_default_name() or DEFAULT_CATALOG


def configured_default_name() -> str | None:
    """Return the name of the default catalog that the environment or a file configures; None if none does."""
    for variable in DEFAULT_NAME_VARIABLES:
        if os.environ.get(variable):
            return os.environ[variable]
    for _, content in _files():
        if content.get("default-catalog"):
            return str(content["default-catalog"])
    return None


def catalog_properties(name: str, arguments: Mapping[str, str]) -> dict[str, str]:
    """Return the arguments, completed from the environment and the configuration files. Raises `InvalidPropertyError` for an unreadable file."""
    sources = [*_environment(name), *(_section(path, content, name) for path, content in _files())]
    properties: dict[str, str] = {}
    for source in (dict(arguments), *sources):
        for key, value in source.items():
            properties.setdefault(key, value)
    return properties


def is_true(properties: Mapping[str, str], key: str, *, default: bool = False) -> bool:
    """Return the value of a boolean property. In its name hyphens may replace underscores, since PyIceberg has names of both kinds."""
    text = properties.get(key, properties.get(key.replace("_", "-"), default))
    return str(text).lower() == "true"


def known_catalogs() -> list[str]:
    """Return the names of the catalogs that the environment and the configuration files configure."""
    names = {name for _, content in _files() for name in _catalogs(content)}
    variable_parts = {name.lower().replace("-", "_") for name in names}
    for prefix in ENVIRONMENT_PREFIXES:
        names_in_variables = {
            variable[len(prefix) :].split("__")[0].lower() for variable in os.environ if variable.upper().startswith(prefix)
        }
        names |= names_in_variables - variable_parts
    return sorted(names)


def configuration_files() -> list[Path]:
    """Return the configuration files that exist, in the order in which they are read. Raises `InvalidPropertyError` if one cannot be read."""
    return [path for path, _ in _files()]


def _environment(name: str) -> Iterator[dict[str, str]]:
    name_in_variable = name.upper().replace("-", "_")  # shells cannot set a variable whose name has a hyphen
    for prefix in ENVIRONMENT_PREFIXES:
        properties = {}
        for variable, value in os.environ.items():
            if variable.upper().replace("-", "_").startswith(f"{prefix}{name_in_variable}__"):
                key = variable[len(prefix) + len(name) + 2 :]
                properties[key.lower().replace("__", ".").replace("_", "-")] = value
        yield properties


def _files() -> Iterator[tuple[Path, dict[str, Any]]]:
    user_home, working_folder = Path.home(), Path.cwd()
    icefloe_home = [Path(os.environ["ICEFLOE_HOME"])] if os.environ.get("ICEFLOE_HOME") else []
    pyiceberg_home = [Path(os.environ["PYICEBERG_HOME"])] if os.environ.get("PYICEBERG_HOME") else []
    candidates = [folder / "icefloe.yaml" for folder in (*icefloe_home, working_folder, user_home)] + [user_home / ".icefloe.yaml"]
    candidates += [folder / ".pyiceberg.yaml" for folder in (*pyiceberg_home, user_home, working_folder)]
    for path in dict.fromkeys(candidates):
        if path.is_file():
            yield path, _read_file(path)


def _read_file(path: Path) -> dict[str, Any]:
    # Imported only if there is a file, because the import would make the import of this package slower by a twentieth.
    yaml = optional_module("yaml", extra=None, feature="a configuration file")
    try:
        # Scalars stay text: with YAML's own types the password 0123456 would become 42798, and yes would become True.
        content = yaml.load(path.read_text(encoding="utf-8"), Loader=yaml.BaseLoader)
    except yaml.YAMLError as error:
        # The error of the parser is left out: it quotes the line that it stopped at, which may contain a password.
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}, column {mark.column + 1}" if mark is not None else ""
        raise InvalidPropertyError(
            f"the configuration file is not YAML{where}", path=str(path), next_step="mend that line; put a value with : or # in quotes"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidPropertyError(
            f"the configuration file cannot be read: {error}", path=str(path), next_step="mend or remove it"
        ) from error
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise InvalidPropertyError("the configuration file is not a mapping", path=str(path), next_step="begin it with `catalog:`")
    for key in content:
        similar = similar_name(str(key), FILE_KEYS)
        if similar is not None:
            raise InvalidPropertyError(
                f"the configuration file has the unknown key {short_text(str(key))!r}", path=str(path), next_step=f"write {similar!r}"
            )
    return content


def _catalogs(content: Mapping[str, Any]) -> dict[str, Any]:
    section = content.get("catalog") or {}
    return section if isinstance(section, dict) else {}


def _section(path: Path, content: Mapping[str, Any], name: str) -> dict[str, str]:
    catalogs = _catalogs(content)
    section = catalogs.get(name) or next((content for key, content in catalogs.items() if key.lower() == name.lower()), None) or {}
    if not isinstance(section, dict):
        raise InvalidPropertyError(f"catalog.{name} is not a mapping", path=str(path), next_step="write `uri:` and `warehouse:` under it")
    return dict(_flatten(section))


def _flatten(section: Mapping[Any, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield the properties of a section. The properties of a nested mapping, such as PyIceberg's `auth`, get its name and a dot as a prefix."""
    for key, value in section.items():
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", ",".join(map(str, value)) if isinstance(value, list) else str(value)

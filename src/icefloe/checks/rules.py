"""`RULES`: every rule, in the order of the page of rules. New modules of rules must be added to `_MODULES`."""

from collections.abc import Mapping
from types import ModuleType

from icefloe.checks import (
    catalog_rules,
    data_file_rules,
    delete_file_rules,
    delete_rules,
    entry_rules,
    file_column_rules,
    file_history_rules,
    layout_rules,
    manifest_check,
    manifest_header_rules,
    manifest_list_rules,
    manifest_rules,
    metadata_rules,
    metrics_rules,
    row_rules,
    schema_id_rules,
    snapshot_rules,
    statistics_rules,
    summary_rules,
    table_content,
)
from icefloe.checks.rule import Rule
from icefloe.errors import InvalidInputError

_MODULES: tuple[ModuleType, ...] = (
    catalog_rules,
    metadata_rules,
    table_content,
    schema_id_rules,
    layout_rules,
    snapshot_rules,
    summary_rules,
    file_history_rules,
    manifest_list_rules,
    manifest_rules,
    manifest_header_rules,
    entry_rules,
    metrics_rules,
    manifest_check,
    delete_rules,
    delete_file_rules,
    data_file_rules,
    file_column_rules,
    row_rules,
    statistics_rules,
)
RULES: tuple[Rule, ...] = tuple(rule for module in _MODULES for rule in module.RULES)
_BY_ID: Mapping[str, Rule] = {rule.id: rule for rule in RULES}


def rule_named(rule_id: str) -> Rule:
    """Return the rule with an id.

    Args:
        rule_id: The id of the rule, in kebab case.

    Raises:
        InvalidInputError: There is no such rule.
    """
    rule = _BY_ID.get(rule_id)
    if rule is None:
        raise InvalidInputError(f"there is no rule {rule_id!r}", next_step=f"use one of {', '.join(_BY_ID)}")
    return rule

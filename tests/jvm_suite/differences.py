"""The list of expected differences of a suite (`expected.toml`), and the comparison of a run with it."""

import fnmatch
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Difference:
    """A method, or all methods of a pattern, with a known difference."""

    method: str  # "sql.TestSelect.testProjection"; `*` matches any text
    kind: str
    reason: str
    sometimes: bool  # passes at times


@dataclass(frozen=True)
class Outcome:
    """The result of one method: the worst of its invocations."""

    method: str
    status: str  # passed, words, failed, not run
    text: str = ""
    seconds: float = 0.0


def expected_differences(path: Path) -> list[Difference]:
    listed = tomllib.loads(path.read_text())
    return [
        Difference(method, group["kind"], group["reason"], group.get("sometimes", False))
        for group in listed["difference"]
        for method in group["methods"]
    ]


def listed_as(method: str, differences: Iterable[Difference]) -> Difference | None:
    """Return the entry of the list for a method."""
    return next((one for one in differences if fnmatch.fnmatchcase(method, one.method)), None)


def unused(
    differences: Iterable[Difference], found: Mapping[str, Outcome], class_of: Callable[[str], str], *, every_class: bool
) -> list[str]:
    """Return the entries whose methods all pass now, or that match no method, among the classes that ran.

    An entry for classes by a pattern that matches no method is returned only if every class ran: its methods may be in a class that did not run.
    """
    ran = {class_of(method) for method in found}
    stale = []
    for one in differences:
        pattern = class_of(one.method)
        if not one.sometimes and any(fnmatch.fnmatchcase(name, pattern) for name in ran):
            matching = [outcome for method, outcome in found.items() if fnmatch.fnmatchcase(method, one.method)]
            may_match_others = not every_class and not matching and "*" in pattern
            if not may_match_others and not any(outcome.status in ("failed", "not run") for outcome in matching):
                stale.append(one.method)
    return stale


def report(
    found: Mapping[str, Outcome], path: Path, classes: int, class_of: Callable[[str], str], *, is_whole: bool, every_class: bool
) -> int:
    """Print the failures that are not on the list, and the counts.

    Args:
        found: The outcomes of a run, by method.
        path: The list of the suite.
        classes: How many classes ran.
        class_of: The class in the name of a method, or of a pattern.
        is_whole: False if only some methods of the classes ran, so that entries for the others are not judged.
        every_class: Whether all classes of the suite ran.

    Returns:
        The exit code: 1 if there are failures that are not on the list, or entries of the list that fail no more.
    """
    differences = expected_differences(path)
    unexpected: list[Outcome] = []
    counts: Counter[str] = Counter()
    for method, outcome in sorted(found.items()):
        known = listed_as(method, differences)
        if outcome.status == "failed":
            counts[f"expected: {known.kind}" if known else "not on the list"] += 1
            if known is None:
                unexpected.append(outcome)
        else:
            counts[outcome.status] += 1
    for outcome in unexpected:
        print(f"\nFAILED {outcome.method}\n    {outcome.text.replace(chr(10), chr(10) + '    ')}")
    stale = unused(differences, found, class_of, every_class=every_class) if is_whole else []
    for method in stale:
        print(f"\nNOT A DIFFERENCE ANY MORE {method}: take it off tests/{path.parent.name}/{path.name}")
    print(f"\n{len(found)} methods of {classes} classes: " + ", ".join(f"{count} {name}" for name, count in sorted(counts.items())))
    print(f"{sum(outcome.seconds for outcome in found.values()) / 60:.0f} minutes in tests")
    return 1 if unexpected or stale else 0

"""Lists kept as bytes: which entries are decoded, which are shared, how an entry is found."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from icefloe.spec.metadata import raw_entries
from icefloe.spec.metadata.json_text import JsonText
from icefloe.spec.metadata.raw_entries import EntryKind, RawEntries


class Counted:
    """A kind of entry that counts how often it is decoded."""

    def __init__(self) -> None:
        self.decoded = 0
        self.kind: EntryKind[dict[str, Any]] = EntryKind("things", self._decode, dict, id_key="thing-id")

    def _decode(self, value: Any, path: str) -> dict[str, Any]:
        self.decoded += 1
        assert path.startswith("$.things[")
        return dict(value)

    def read(self, *ids: int) -> RawEntries[dict[str, Any]]:
        return RawEntries(self.kind, [msgspec.Raw(b'{"thing-id": %d, "note": {"thing-id": 0}}' % number) for number in ids])


def test_an_entry_is_decoded_once_and_only_when_used() -> None:
    counted = Counted()
    entries = counted.read(*range(100))
    assert len(entries) == 100
    assert entries.get(3) == entries[3]
    assert entries[-97] is entries[3]
    assert counted.decoded == 1


def test_an_entry_is_found_wherever_it_is() -> None:
    entries = Counted().read(5, 3, 9, 7, 1, 8)
    for position, number in enumerate((5, 3, 9, 7, 1, 8)):
        assert entries.position(number) == position
    assert entries.get(2) is None
    assert list(entries.ids()) == [5, 3, 9, 7, 1, 8]


def test_a_longer_list_shares_the_bytes_and_the_decoded_entries() -> None:
    counted = Counted()
    entries = counted.read(*range(50))
    first = entries[0]
    longer = entries.with_entries({"thing-id": 50})
    assert longer[0] is first
    assert all(mine is theirs for mine, theirs in zip(entries.raws, longer.raws, strict=False))
    assert longer.get(50) == {"thing-id": 50}
    assert entries.get(50) is None
    assert counted.decoded == 1


def test_two_lists_made_longer_from_one_do_not_see_each_others_entries() -> None:
    entries = Counted().read(1, 2)
    assert entries.position(9) is None  # builds the index, which the longer list copies
    left, right = entries.with_entries({"thing-id": 3}), entries.with_entries({"thing-id": 4})
    assert (left.get(3), left.get(4)) == ({"thing-id": 3}, None)
    assert (right.get(3), right.get(4)) == (None, {"thing-id": 4})


def test_entries_are_removed_by_id_by_count_and_by_rule_without_changing_the_bytes() -> None:
    entries = Counted().read(1, 2, 3, 4)
    assert [entry["thing-id"] for entry in entries.without([2, 9])] == [1, 3, 4]
    assert entries.without([9]) is entries
    assert [entry["thing-id"] for entry in entries.without_first(3)] == [4]
    assert entries.without_first(0) is entries
    assert list(entries.without_first(4)) == []
    odd = entries.where(lambda entry: entry["thing-id"] % 2 == 1)
    assert [bytes(raw) for raw in odd.raws] == [bytes(entries.raws[0]), bytes(entries.raws[2])]
    assert odd.get(3) == entries[2]


def test_lists_are_equal_by_their_decoded_values() -> None:
    kind = Counted().kind
    tight = RawEntries(kind, [msgspec.Raw(b'{"thing-id":1}')])
    loose = RawEntries(kind, [msgspec.Raw(b'{ "thing-id" : 1 }')])
    assert tight == loose
    assert tight != RawEntries(kind, [msgspec.Raw(b'{"thing-id":2}')])
    assert tight != tight.with_entries({"thing-id": 2})
    assert tight[0:1] == ({"thing-id": 1},)


@given(st.data())
def test_entries_that_another_list_does_not_share_are_listed(data: st.DataObject) -> None:
    counted = Counted()
    first = counted.read(*range(data.draw(st.integers(0, 8))))
    fresh = [{"thing-id": number} for number in range(100, 100 + data.draw(st.integers(0, 3)))]
    other = first.without(data.draw(st.sets(st.integers(0, 8)))).with_entries(*fresh).without_first(data.draw(st.integers(0, 4)))
    for mine, theirs in ((first, other), (other, first), (first, first), (first, counted.read(*range(8)))):
        expected = [at for at, raw in enumerate(mine.raws) if not any(raw is one for one in theirs.raws)]
        assert list(mine.only_here(theirs)) == expected


def test_ids_are_each_once_where_entries_repeat_one_or_have_none() -> None:
    texts = (b'{"thing-id": 5}', b"{}", b'{"thing-id": 2}', b'{"thing-id": 5}', b'{"thing-id": "x"}')
    for default, expected in ((None, {5: 0, 2: 2}), (2, {5: 0, 2: 1})):
        kind = EntryKind("things", lambda value, _: value, dict, id_key="thing-id", default_id=default)
        for raws in (texts, texts[:-1]):  # the last entry is reported when it is decoded
            entries = RawEntries(kind, map(msgspec.Raw, raws))
            assert list(entries.ids()) == list(expected)
            assert all(entries.position(entry_id) == at for entry_id, at in expected.items())


@given(st.data())
def test_a_list_made_by_many_changes_is_the_list_of_its_entries(data: st.DataObject) -> None:
    counted = Counted()
    numbers = list(range(data.draw(st.integers(0, 20))))
    entries = counted.read(*numbers)
    for _ in range(data.draw(st.integers(0, 12))):
        change = data.draw(st.sampled_from(["append", "append", "append", "without", "first", "where", "fresh"]))
        if change == "append":
            fresh = [100 + len(numbers) + number for number in range(data.draw(st.integers(0, 9)))]
            entries, numbers = entries.with_entries(*({"thing-id": number} for number in fresh)), numbers + fresh
        elif change == "without":
            removed = data.draw(st.sets(st.sampled_from([*numbers, 99])))
            entries, numbers = entries.without(removed), [number for number in numbers if number not in removed]
        elif change == "first":
            count = data.draw(st.integers(0, len(numbers) + 1))
            entries, numbers = entries.without_first(count), numbers[count:]
        elif change == "where":
            entries, numbers = entries.where(lambda entry: entry["thing-id"] % 3 > 0), [number for number in numbers if number % 3 > 0]
        else:
            entries = entries.fresh()
        if data.draw(st.booleans()):
            assert list(entries.ids()) == list(dict.fromkeys(numbers))
        assert [entry["thing-id"] for entry in entries] == numbers
        assert [entries[at]["thing-id"] for at in range(-len(numbers), 0)] == numbers
        assert [entry["thing-id"] for entry in entries[1:-1:2]] == numbers[1:-1:2]
        assert len(entries) == len(entries.raws) == len(numbers)
        assert msgspec.json.decode(b"[" + b",".join(part.text for part in entries.texts()) + b"]") == list(entries)
        assert all(numbers[entries.position(number) or 0] == number for number in numbers)
        assert entries.position(98) is None
        with pytest.raises(IndexError):
            entries[len(numbers)]


def test_an_appended_entry_costs_the_same_however_long_the_list_is(monkeypatch: pytest.MonkeyPatch) -> None:
    indexed: list[int] = []
    joined: list[int] = []
    ids_of = EntryKind.ids_of
    monkeypatch.setattr(EntryKind, "ids_of", lambda self, raws: indexed.append(len(raws)) or ids_of(self, raws))
    monkeypatch.setattr(raw_entries, "JsonText", lambda text: joined.append(len(text)) or JsonText(text))
    work = {}
    for length in (100, 10_000):
        entries = Counted().read(*range(length))
        assert entries.position(-1) is None
        entries.texts()
        indexed.clear(), joined.clear()
        for number in range(64):
            longer = entries.with_entries({"thing-id": 100_000 + number})
            assert longer.position(-1) is None
            assert len(longer.texts()) < 10
            assert list(longer.only_here(entries))[-1] == length + number
            assert len(longer.only_here(entries)) == 1
            entries = longer
        work[length] = sum(indexed), sum(joined)
    assert work[100] == work[10_000]


def test_a_fresh_list_shares_bytes_and_has_values_of_its_own() -> None:
    counted = Counted()
    entries = counted.read(1, 2).with_entries({"thing-id": 3})
    entries[0]["thing-id"] = 7
    entries[2]["thing-id"] = 8
    fresh = entries.fresh()
    assert [entry["thing-id"] for entry in fresh] == [1, 2, 3]
    assert all(mine is theirs for mine, theirs in zip(entries.raws, fresh.raws, strict=True))
    assert list(entries.only_here(fresh)) == []


def test_a_list_that_was_read_again_shares_what_it_begins_with(monkeypatch: pytest.MonkeyPatch) -> None:
    indexed: list[int] = []
    ids_of = EntryKind.ids_of
    monkeypatch.setattr(EntryKind, "ids_of", lambda self, raws: indexed.append(len(raws)) or ids_of(self, raws))
    counted = Counted()
    entries = counted.read(*range(1_000))
    assert entries.position(-1) is None
    for last in range(1_000, 1_040):
        text = entries.texts()[0]
        indexed.clear()
        newer = counted.read(*range(last + 1)).sharing(entries)
        assert newer.position(-1) is None
        assert sum(indexed) <= 64
        assert newer.texts()[0] is text
        assert len(newer.texts()) < 10
        assert [entry["thing-id"] for entry in newer] == list(range(last + 1))
        entries = newer
    for numbers in ([], [1], [*range(500)], [0, 2, *range(2, 2_000)]):
        other = counted.read(*numbers)
        assert other.sharing(entries) == other
        assert [entry["thing-id"] for entry in other.sharing(entries)] == numbers
        assert list(other.sharing(entries).ids()) == list(dict.fromkeys(numbers))

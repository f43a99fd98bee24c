"""Split variants into the columns of shredded variants in Parquet.

Values are assigned to columns as Java does: a column stores exactly the values of its type, and all other values stay encoded. Values are decoded for a whole
column at a time. `variant_columns.py` chooses the columns, and `variant_shredding.py` reassembles variants. JAVA: ParquetVariantWriters. Spec: Parquet,
Variant Shredding.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from icefloe.datafile.variant_columns import FIXED_WIDTH, group_type, shredded_type
from icefloe.errors import FormatError
from icefloe.spec import variant_bytes as form

_Numbers = NDArray[np.int64]
_Mask = NDArray[np.bool_]
_KINDS = {arrow: kind for kind, (arrow, _) in FIXED_WIDTH.items()} | {pa.binary(): form.BINARY}
# The bytes of encoded values that are split at once: the positions of single bytes take eight times the memory.
_BYTES_AT_ONCE = 8 * 1024 * 1024
_ROWS_AT_ONCE = 65_536


def shred_variants(variants: Any, typed: Any) -> Any:
    """Return an Arrow chunked array of unshredded variants as an array of `shredded_type(typed)`.

    Raises:
        FormatError: A variant is damaged.
    """
    parts = [_shred_slice(part, typed) for chunk in variants.chunks for part in _slices(chunk)]
    return pa.chunked_array(parts, shredded_type(typed))


def _slices(chunk: Any) -> Iterator[Any]:
    rows = _ROWS_AT_ONCE * _BYTES_AT_ONCE // max(_BYTES_AT_ONCE, chunk.nbytes * _ROWS_AT_ONCE // max(1, len(chunk)))
    return (chunk.slice(start, max(1, rows)) for start in range(0, len(chunk), max(1, rows)))


def _shred_slice(variants: Any, typed: Any) -> Any:
    metadata, values = variants.field("metadata"), variants.field("value")
    _, offset_buffer, data = values.buffers()
    offsets = np.frombuffer(offset_buffer, np.int32, len(values) + 1, 4 * values.offset).astype(np.int64)
    present = variants.is_valid().to_numpy(zero_copy_only=False)
    names = metadata.dictionary_encode()
    buffer = _Buffer(np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8), names.dictionary.to_pylist())
    codes = names.indices.fill_null(0).to_numpy().astype(np.int64)
    group = buffer.group(_Values(np.where(present, offsets[:-1], -1), offsets[1:], codes), typed)
    kind = shredded_type(typed)
    return pa.StructArray.from_arrays([metadata, *group.flatten()], fields=list(kind.fields), mask=pa.array(~present))


class _Values(NamedTuple):
    """Encoded values in a buffer: where each starts (-1 for no value), the end of the bytes of its variant, and the number of the variant's metadata."""

    starts: _Numbers
    ends: _Numbers
    codes: _Numbers

    def take(self, rows: Any) -> "_Values":
        return _Values(self.starts[rows], self.ends[rows], self.codes[rows])


class _Members(NamedTuple):
    """The members of objects or arrays: the row of the container, the id of the name in the variant's metadata (0 in arrays), and where the value starts."""

    rows: _Numbers
    ids: _Numbers
    starts: _Numbers


@dataclass(frozen=True)
class _Buffer:
    """The bytes of all values of a batch of variants, and the metadata of the variants."""

    data: NDArray[np.uint8]
    metadata: list[bytes]

    @cached_property
    def names(self) -> list[form.VariantNames]:
        """The names of each metadata."""
        return [form.read_names(text) if text else form.VariantNames(()) for text in self.metadata]

    @cached_property
    def _name_numbers(self) -> tuple[dict[str, int], _Numbers, _Numbers, _Numbers]:
        """The number of each name; the numbers of the names of all metadata; and for each metadata the first of its names and their count."""
        numbers: dict[str, int] = {}
        flat = [numbers.setdefault(name, len(numbers)) for names in self.names for name in names.names]
        counts = np.array([len(names.names) for names in self.names], np.int64)
        return numbers, np.array(flat, np.int64), np.cumsum(counts) - counts, counts

    def group(self, values: _Values, typed: Any) -> Any:
        """Return the struct of `value` and `typed_value` for each value; both are null where there is no value."""
        rows = np.flatnonzero(values.starts >= 0)
        headers = np.zeros(len(values.starts), np.uint8)
        headers[rows] = self._bytes(values.starts[rows], 1, values.ends[rows])[:, 0]
        is_present = values.starts >= 0
        rest: dict[int, bytes] = {}
        if pa.types.is_struct(typed):
            is_typed = is_present & (headers & 3 == form.OBJECT)
            typed_array, rest = self._objects(values, np.flatnonzero(is_typed), headers, typed)
        elif pa.types.is_list(typed):
            is_typed = is_present & (headers & 3 == form.ARRAY)
            typed_array = self._lists(values, np.flatnonzero(is_typed), headers, typed)
        else:
            is_typed, typed_array = self._primitives(values, is_present, headers, typed)
        stored = self._encoded_values(values, is_present & ~is_typed, headers, rest)
        return pa.StructArray.from_arrays([stored, typed_array], fields=list(group_type(typed).fields))

    def _objects(self, values: _Values, rows: Any, headers: Any, typed: Any) -> tuple[Any, dict[int, bytes]]:
        """Return the structs of the objects in `rows`, and by row the objects of those fields that have no column."""
        members = self._members(values, rows, headers)
        numbers, flat, first, counts = self._name_numbers
        codes = values.codes[members.rows]
        if (members.ids >= counts[codes]).any():
            raise FormatError("an object of a variant has a field whose name is not in the metadata")
        names = flat[first[codes] + members.ids] if len(flat) else members.ids
        is_left = np.ones(len(names), np.bool_)
        columns = []
        for column in typed.fields:
            chosen = np.flatnonzero(names == numbers.get(column.name, -1))
            is_left[chosen] = False
            starts = np.full(len(values.starts), -1, np.int64)
            starts[members.rows[chosen]] = members.starts[chosen]
            columns.append(self.group(values._replace(starts=starts), column.type.field("typed_value").type))
        is_object = np.zeros(len(values.starts), np.bool_)
        is_object[rows] = True
        array = pa.StructArray.from_arrays(columns, fields=list(typed.fields), mask=pa.array(~is_object))
        return array, self._rest(values, _Members(*(part[is_left] for part in members)))

    def _rest(self, values: _Values, members: _Members) -> dict[int, bytes]:
        fields: dict[int, dict[str, bytes]] = {}
        member_values = values.take(members.rows)._replace(starts=members.starts)
        sizes = self._sizes(member_values, self._bytes(member_values.starts, 1, member_values.ends)[:, 0])
        for row, number, start, size in zip(*(part.tolist() for part in members), sizes.tolist(), strict=True):
            name = self.names[int(values.codes[row])].names[number]
            fields.setdefault(row, {})[name] = self.data[start : start + size].tobytes()
        return {row: form.object_value(self.names[int(values.codes[row])], inner) for row, inner in fields.items()}

    def _lists(self, values: _Values, rows: Any, headers: Any, typed: Any) -> Any:
        members = self._members(values, rows, headers)
        elements = values.take(members.rows)._replace(starts=members.starts)
        lengths = np.bincount(members.rows, minlength=len(values.starts))
        is_array = np.zeros(len(values.starts), np.bool_)
        is_array[rows] = True
        offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
        inner = self.group(elements, typed.value_type.field("typed_value").type)
        return pa.Array.from_buffers(typed, len(lengths), [_validity(is_array), pa.py_buffer(offsets)], children=[inner])

    def _primitives(self, values: _Values, is_present: _Mask, headers: Any, typed: Any) -> tuple[_Mask, Any]:
        """Return which values a column of a primitive type stores, and the column."""
        if pa.types.is_boolean(typed):
            is_typed = is_present & np.isin(headers, (form.TRUE << 2, form.FALSE << 2))
            return is_typed, pa.array(headers == form.TRUE << 2, mask=~is_typed)
        if pa.types.is_string(typed):
            is_typed = is_present & ((headers & 3 == form.SHORT_STRING) | (headers == form.STRING << 2))
            is_short = headers & 3 == form.SHORT_STRING
            return is_typed, self._texts(values, is_typed, headers, np.where(is_short, 1, 5), typed)
        if pa.types.is_decimal(typed):
            return self._decimals(values, is_present, headers, typed)
        kind = _KINDS[typed]
        is_typed = is_present & (headers == kind << 2)
        if kind == form.BINARY:
            return is_typed, self._texts(values, is_typed, headers, np.full(len(headers), 5), typed)
        rows = np.flatnonzero(is_typed)
        dtype = np.dtype(FIXED_WIDTH[kind][1])
        column = np.zeros(len(headers), dtype)
        column[rows] = self._bytes(values.starts[rows] + 1, dtype.itemsize, values.ends[rows]).view(dtype)[:, 0]
        return is_typed, pa.Array.from_buffers(typed, len(headers), [_validity(is_typed), pa.py_buffer(column)])

    def _decimals(self, values: _Values, is_present: _Mask, headers: Any, typed: Any) -> tuple[_Mask, Any]:
        kind = form.DECIMAL4 if typed.precision <= 9 else form.DECIMAL8 if typed.precision <= 18 else form.DECIMAL16
        rows = np.flatnonzero(is_present & (headers == kind << 2))
        raw = self._bytes(values.starts[rows] + 1, 1 + form.DECIMAL_WIDTHS[kind], values.ends[rows])
        has_scale = raw[:, 0] == typed.scale
        rows, raw = rows[has_scale], raw[has_scale, 1:]
        most = 10**typed.precision
        fits = np.array([abs(int.from_bytes(number.tobytes(), "little", signed=True)) < most for number in raw], np.bool_)
        rows, raw = rows[fits], raw[fits]
        words = np.zeros((len(headers), 16), np.uint8)
        words[rows] = np.where(raw[:, -1:] >> 7, 0xFF, 0) if len(rows) else 0  # the sign fills the upper bytes
        words[rows, : raw.shape[1]] = raw
        is_typed = np.zeros(len(headers), np.bool_)
        is_typed[rows] = True
        return is_typed, pa.Array.from_buffers(typed, len(headers), [_validity(is_typed), pa.py_buffer(words)])

    def _texts(self, values: _Values, is_typed: _Mask, headers: Any, before: Any, typed: Any) -> Any:
        rows = np.flatnonzero(is_typed)
        sizes = np.zeros(len(headers), np.int64)
        sizes[rows] = self._sizes(values.take(rows), headers[rows]) - before[rows]
        array = self._gather(values.starts + before, sizes, is_typed, typed)
        try:
            array.validate(full=True)
        except pa.ArrowInvalid as error:
            raise FormatError(f"a text of a variant is damaged: {error}") from error
        return array

    def _encoded_values(self, values: _Values, is_stored: _Mask, headers: Any, rest: Mapping[int, bytes]) -> Any:
        """Return the column of encoded values: those in `is_stored`, and those in `rest`, by row."""
        rows = np.flatnonzero(is_stored)
        sizes = np.zeros(len(headers), np.int64)
        sizes[rows] = self._sizes(values.take(rows), headers[rows])
        if not rest:
            return self._gather(values.starts, sizes, is_stored, pa.binary())
        encoded: list[bytes | None] = [None] * len(headers)
        for row in rows.tolist():
            encoded[row] = self.data[values.starts[row] : values.starts[row] + sizes[row]].tobytes()
        for row, value in rest.items():
            encoded[row] = value
        return pa.array(encoded, pa.binary())

    def _gather(self, starts: _Numbers, sizes: _Numbers, is_valid: _Mask, kind: Any) -> Any:
        """Return an array of the bytes at positions; `sizes` is 0 where a value is null."""
        offsets = np.concatenate(([0], np.cumsum(sizes)))
        if offsets[-1] > len(self.data):
            raise FormatError("the values of a variant overlap")
        positions = np.repeat(starts - offsets[:-1], sizes) + np.arange(offsets[-1])
        buffers = [_validity(is_valid), pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(self.data[positions])]
        return pa.Array.from_buffers(kind, len(sizes), buffers)

    def _sizes(self, values: _Values, headers: Any) -> _Numbers:
        """Return the bytes of each value. Raises `FormatError` if a value ends after its variant."""
        sizes = np.zeros(len(headers), np.int64)
        for header in np.unique(headers).tolist():
            rows = np.flatnonzero(headers == header)
            basic, kind = header & 3, header >> 2
            if basic == form.SHORT_STRING:
                sizes[rows] = 1 + kind
            elif basic != form.PRIMITIVE:
                sizes[rows] = self._container(values.take(rows), header).ends - values.starts[rows]
            elif kind in (form.BINARY, form.STRING):
                sizes[rows] = 5 + self._number(values.starts[rows] + 1, 4, values.ends[rows])
            else:
                sizes[rows] = form.primitive_size(kind)
        if (values.starts + sizes > values.ends).any():
            raise FormatError("the value of a variant is damaged: it ends after its bytes")
        return sizes

    def _members(self, values: _Values, rows: Any, headers: Any) -> _Members:
        """Return the members of the objects or arrays in `rows`, in the order of the rows."""
        parts = []
        for header in np.unique(headers[rows]).tolist():
            chosen = rows[headers[rows] == header]
            containers = values.take(chosen)
            layout = self._container(containers, header)
            inside = np.repeat(np.arange(len(chosen)), layout.counts)
            places = np.arange(len(inside)) - np.repeat(np.cumsum(layout.counts) - layout.counts, layout.counts)
            ends = containers.ends[inside]
            ids = np.zeros(len(inside), np.int64)
            if layout.id_width:
                ids = self._number(layout.ids_at[inside] + places * layout.id_width, layout.id_width, ends)
            offsets = self._number(layout.offsets_at[inside] + places * layout.offset_width, layout.offset_width, ends)
            parts.append((chosen[inside], ids, layout.values_at[inside] + offsets))
        if not parts:
            return _Members(*(np.empty(0, np.int64) for _ in range(3)))
        members = [np.concatenate(column) for column in zip(*parts, strict=True)]
        if len(members[0]) > len(self.data):
            raise FormatError("the values of a variant overlap")
        order = np.argsort(members[0], kind="stable")
        return _Members(*(column[order] for column in members))

    def _container(self, values: _Values, header: int) -> "_Layout":
        """Return where the parts of objects or arrays with the same first byte are. Spec: Variant Binary Encoding, Value Data for Object and Array."""
        flags, is_object = header >> 2, header & 3 == form.OBJECT
        offset_width = (flags & 3) + 1
        id_width = (flags >> 2 & 3) + 1 if is_object else 0
        count_width = 4 if flags >> (4 if is_object else 2) & 1 else 1
        counts = self._number(values.starts + 1, count_width, values.ends)
        ids_at = values.starts + 1 + count_width
        offsets_at = ids_at + counts * id_width
        values_at = offsets_at + (counts + 1) * offset_width
        lengths = self._number(values_at - offset_width, offset_width, values.ends)
        return _Layout(counts, ids_at, id_width, offsets_at, offset_width, values_at, values_at + lengths)

    def _number(self, positions: _Numbers, width: int, ends: _Numbers) -> _Numbers:
        """Read unsigned little-endian numbers."""
        raw = self._bytes(positions, width, ends).astype(np.int64)
        numbers: _Numbers = np.sum(raw << (8 * np.arange(width)), axis=1)
        return numbers

    def _bytes(self, positions: _Numbers, width: int, ends: _Numbers) -> NDArray[np.uint8]:
        """Return `width` bytes at each position, as rows. Raises `FormatError` if some are after the end."""
        if (positions + width > ends).any():
            raise FormatError("the value of a variant is damaged: it ends after its bytes")
        return np.ascontiguousarray(self.data[positions[:, None] + np.arange(width)])


class _Layout(NamedTuple):
    """Where the parts of objects or arrays are: the number of members, the ids of names, the offsets of values, the values, and the end."""

    counts: _Numbers
    ids_at: _Numbers
    id_width: int
    offsets_at: _Numbers
    offset_width: int
    values_at: _Numbers
    ends: _Numbers


def _validity(is_valid: _Mask) -> Any:
    """Return the bitmap of an Arrow array."""
    return pa.array(is_valid).buffers()[1]

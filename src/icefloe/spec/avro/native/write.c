/* The writer: steps, compiled from a schema, run over Arrow columns and return the bytes of contiguous records.
 *
 * It also splices: it copies encoded records with a few spans of each replaced. Columns are not trusted: an offset outside of its buffer is refused. The
 * interpreter's lock is released meanwhile. */

#include "source.h"
#include "varint.h"

/* The next value to write of the current row. `write_avro_columns.py` compiles these steps. */
enum Put {
    PUT_NUMBER = 1, /* column */
    PUT_BYTES,      /* column */
    PUT_WIDTH,      /* column */
    PUT_OPTIONAL,   /* column, length; steps for a value that is not null */
    PUT_LIST,       /* column, length; the steps of one item, whose row is the item's */
    PUT_SIZED_LIST, /* the same, with its size in bytes, so that readers can skip it in one step */
};

typedef struct {
    const Source *sources;
    Memory out;
    size_t kept; /* see `put_size_before` */
} Writer;

static Outcome put_number(Writer *writer, const Source *source, int64_t row)
{
    int64_t number;
    size_t at = (size_t)(row + source->offset) * sizeof number;
    if (source->values.obj == NULL || at + sizeof number > (size_t)source->values.len)
        return UNFIT;
    memcpy(&number, (const uint8_t *)source->values.buf + at, sizeof number);
    return append_long(&writer->out, number);
}

static Outcome put_bytes(Writer *writer, const Source *source, int64_t row)
{
    size_t start, size, most = source->values.obj == NULL ? 0 : (size_t)source->values.len;
    if (span_of(source, row, most, &start, &size))
        return UNFIT;
    return append_sized(&writer->out, size ? (const uint8_t *)source->values.buf + start : NULL, size);
}

static Outcome put_width(Writer *writer, const Source *source, int64_t row)
{
    size_t size = (size_t)source->width, start = (size_t)(row + source->offset) * size;
    if (source->values.obj == NULL || start + size > (size_t)source->values.len)
        return UNFIT;
    return memory_append(&writer->out, (const uint8_t *)source->values.buf + start, size);
}

static Outcome put_row(Writer *writer, const int32_t *step, const int32_t *last, int64_t row);

/* Whether a source has 8-byte numbers for all these rows. */
static int has_numbers(const Source *source, size_t start, size_t count)
{
    size_t end = start + count;
    return end <= (size_t)source->length && source->values.obj != NULL
        && end + (size_t)source->offset <= (size_t)source->values.len / sizeof(int64_t);
}

/* Items that consist of numbers only, as in maps of counts: does what `put_row` does, but checks the columns once for all items. */
static Outcome put_numbers(Writer *writer, const int32_t *step, const int32_t *last, size_t start, size_t count)
{
    const Source *sources = writer->sources;
    size_t width = (size_t)(last - step) / 2;
    for (size_t i = 0; i < width; i++)
        if (!has_numbers(&sources[step[2 * i + 1]], start, count))
            return UNFIT;
    if (count > SIZE_MAX / (width * LONGEST_VARINT) || memory_reserve(&writer->out, count * width * LONGEST_VARINT))
        return NO_MEMORY;
    uint8_t *at = writer->out.bytes + writer->out.size;
    for (size_t row = start; row < start + count; row++) {
        for (size_t i = 0; i < width; i++) {
            const Source *source = &sources[step[2 * i + 1]];
            int64_t number;
            memcpy(&number, (const uint8_t *)source->values.buf + (row + (size_t)source->offset) * sizeof number, sizeof number);
            at += put_raw(at, zigzag(number));
        }
    }
    writer->out.size = (size_t)(at - writer->out.bytes);
    return OK;
}

static int are_numbers(const int32_t *step, const int32_t *last)
{
    int32_t other = step == last;
    for (; step < last; step += 2)
        other |= *step != PUT_NUMBER;
    return !other;
}

static Outcome put_items(Writer *writer, const int32_t *step, const int32_t *last, size_t start, size_t count)
{
    Outcome outcome = OK;
    if (are_numbers(step, last))
        return put_numbers(writer, step, last, start, count);
    for (size_t i = 0; i < count && !outcome; i++)
        outcome = put_row(writer, step, last, (int64_t)(start + i));
    return outcome;
}

static Outcome put_list(Writer *writer, const Source *source, int64_t row, int sized, const int32_t *step, const int32_t *last)
{
    size_t start, count;
    if (span_of(source, row, INT32_MAX, &start, &count))
        return UNFIT;
    if (!count)
        return append_long(&writer->out, 0);
    if (append_long(&writer->out, sized ? -(int64_t)count : (int64_t)count))
        return NO_MEMORY;
    if (memory_reserve(&writer->out, LONGEST_VARINT))
        return NO_MEMORY;
    size_t body = writer->out.size += sized ? writer->kept : 0;
    Outcome outcome = put_items(writer, step, last, start, count);
    if (!outcome && sized)
        outcome = put_size_before(&writer->out, body, &writer->kept);
    if (outcome)
        return outcome;
    return append_long(&writer->out, 0);
}

static Outcome put_row(Writer *writer, const int32_t *step, const int32_t *last, int64_t row)
{
    static const uint8_t null_branch = 0, value_branch = 2;
    Outcome outcome = OK;
    while (step < last && !outcome) {
        int32_t what = *step++;
        const Source *source = &writer->sources[*step++];
        if (row >= source->length)
            return UNFIT;
        switch (what) {
        case PUT_NUMBER:
            outcome = put_number(writer, source, row);
            break;
        case PUT_BYTES:
            outcome = put_bytes(writer, source, row);
            break;
        case PUT_WIDTH:
            outcome = put_width(writer, source, row);
            break;
        case PUT_OPTIONAL:
            if (!is_valid(source, row)) {
                outcome = memory_append(&writer->out, &null_branch, 1);
            } else {
                outcome = memory_append(&writer->out, &value_branch, 1);
                if (!outcome)
                    outcome = put_row(writer, step + 1, step + 1 + *step, row);
            }
            step += 1 + *step;
            break;
        case PUT_LIST:
        case PUT_SIZED_LIST:
            outcome = put_list(writer, source, row, what == PUT_SIZED_LIST, step + 1, step + 1 + *step);
            step += 1 + *step;
            break;
        default:
            outcome = UNFIT;
        }
    }
    return outcome;
}

/* ---- from and to Python ---- */

static void release(Source *sources, Py_ssize_t count)
{
    for (Py_ssize_t i = 0; sources && i < count; i++)
        release_source(&sources[i]);
    free(sources);
}

/* The columns of a list of tuples (length, offset, width, validity, offsets, values); NULL with a Python error. */
static Source *sources_of(PyObject *columns)
{
    Py_ssize_t count = PyTuple_Size(columns);
    Source *sources = count < 0 ? NULL : calloc((size_t)count + 1, sizeof(Source));
    if (sources == NULL)
        return (Source *)(PyErr_Occurred() ? NULL : PyErr_NoMemory());
    for (Py_ssize_t i = 0; i < count; i++) {
        if (fill_source(&sources[i], PyTuple_GetItem(columns, i))) {
            release(sources, count);
            return NULL;
        }
    }
    return sources;
}

/* Two buffers: the records, and the end of each (int64). Empties both. */
static PyObject *records_and_ends(Memory *records, Memory *ends)
{
    PyObject *first = memory_lent(records), *second = memory_handed_over(ends);
    PyObject *both = first && second ? Py_BuildValue("(OO)", first, second) : NULL;
    Py_XDECREF(first);
    Py_XDECREF(second);
    return both;
}

PyObject *write_records(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    const char *given;
    Py_ssize_t size, count;
    PyObject *columns;
    if (!PyArg_ParseTuple(arguments, "y#O!n", &given, &size, &PyTuple_Type, &columns, &count))
        return NULL;
    int32_t *steps = malloc((size_t)size + 1); /* a copy, since bytes may not be aligned for int32 */
    Source *sources = steps ? sources_of(columns) : NULL;
    if (sources == NULL) {
        free(steps);
        return PyErr_Occurred() ? NULL : PyErr_NoMemory();
    }
    memcpy(steps, given, (size_t)size);
    Writer writer = {.sources = sources, .out = memory_again()};
    Memory ends = {NULL, 0, 0};
    Outcome outcome = OK;
    int64_t row = 0;
    Py_BEGIN_ALLOW_THREADS
    for (; row < count && !outcome; row++) {
        outcome = put_row(&writer, steps, steps + (size_t)size / sizeof(int32_t), row);
        int64_t end = (int64_t)writer.out.size;
        if (!outcome)
            outcome = memory_append(&ends, &end, sizeof end);
    }
    Py_END_ALLOW_THREADS
    release(sources, PyTuple_Size(columns));
    free(steps);
    PyObject *result = outcome ? raise_outcome(outcome, (size_t)row - 1) : records_and_ends(&writer.out, &ends);
    memory_free(&writer.out);
    memory_free(&ends);
    return result;
}

/* ---- splicing ---- */

/* One span of each record that is replaced: from `starts` to `stops` in the data, by the bytes between the ends of `pieces`. */
typedef struct {
    Py_buffer starts, stops, ends, pieces;
} Cut;

static int64_t number_at(const Py_buffer *buffer, Py_ssize_t index)
{
    int64_t number;
    memcpy(&number, (const uint8_t *)buffer->buf + (size_t)index * sizeof number, sizeof number);
    return number;
}

/* The blocks with the records, and the current one, which has the bytes from `first` to `last` of all. */
typedef struct {
    Py_buffer *buffers;
    Py_ssize_t count, at;
    int64_t first, last;
} Blocks;

/* Moves to the block that contains a record which starts there: records are in order. */
static void find_block(Blocks *blocks, int64_t start)
{
    while (blocks->at + 1 < blocks->count && (blocks->at < 0 || start >= blocks->last)) {
        blocks->first = blocks->last;
        blocks->last += blocks->buffers[++blocks->at].len;
    }
}

/* A record is within one block, and its cuts are within the record, in order; so are the pieces within their bytes. */
static Outcome splice_one(Memory *out, Blocks *blocks, int64_t start, int64_t end, const Cut *cuts, Py_ssize_t cut_count, Py_ssize_t row)
{
    find_block(blocks, start);
    if (start < blocks->first || end < start || end > blocks->last || blocks->at < 0)
        return UNFIT;
    const uint8_t *block = blocks->buffers[blocks->at].buf;
    for (Py_ssize_t i = 0; i < cut_count; i++) {
        const Cut *cut = &cuts[i];
        int64_t from = number_at(&cut->starts, row), to = number_at(&cut->stops, row);
        int64_t first = row ? number_at(&cut->ends, row - 1) : 0, last = number_at(&cut->ends, row);
        if (from < start || to < from || to > end || first < 0 || last < first || last > cut->pieces.len)
            return UNFIT;
        if (memory_append(out, block + (start - blocks->first), (size_t)(from - start))
            || memory_append(out, (const uint8_t *)cut->pieces.buf + first, (size_t)(last - first)))
            return NO_MEMORY;
        start = to;
    }
    return memory_append(out, block + (start - blocks->first), (size_t)(end - start));
}

/* -1 with a Python error. The blocks must be released in any case. */
static int fill_blocks(Blocks *blocks, PyObject *given)
{
    Py_ssize_t count = PyTuple_Size(given);
    *blocks = (Blocks){.buffers = calloc((size_t)count + 1, sizeof(Py_buffer)), .at = -1};
    if (blocks->buffers == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (; blocks->count < count; blocks->count++)
        if (PyObject_GetBuffer(PyTuple_GetItem(given, blocks->count), &blocks->buffers[blocks->count], PyBUF_SIMPLE))
            return -1;
    return 0;
}

static void release_blocks(Blocks *blocks)
{
    for (Py_ssize_t i = 0; i < blocks->count; i++)
        PyBuffer_Release(&blocks->buffers[i]);
    free(blocks->buffers);
}

PyObject *splice_records(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    Py_buffer starts = {0}, stops = {0};
    PyObject *parts, *given, *result = NULL;
    Memory out, ends = {NULL, 0, 0};
    if (!PyArg_ParseTuple(arguments, "O!y*y*O!", &PyTuple_Type, &parts, &starts, &stops, &PyTuple_Type, &given))
        return NULL;
    out = memory_again();
    Blocks blocks;
    int filled = !fill_blocks(&blocks, parts);
    Py_ssize_t cut_count = PyTuple_Size(given), count = starts.len / (Py_ssize_t)sizeof(int64_t), parsed = 0;
    Cut *cuts = calloc((size_t)cut_count + 1, sizeof(Cut));
    int sound = cuts != NULL && stops.len == starts.len;
    for (; filled && sound && parsed < cut_count; parsed++) {
        Cut *cut = &cuts[parsed];
        if (!PyArg_ParseTuple(PyTuple_GetItem(given, parsed), "y*y*y*y*", &cut->starts, &cut->stops, &cut->ends, &cut->pieces))
            break;
        sound = cut->starts.len == starts.len && cut->stops.len == starts.len && cut->ends.len == starts.len;
    }
    if (!PyErr_Occurred()) {
        Outcome outcome = sound ? OK : cuts == NULL ? NO_MEMORY : UNFIT;
        Py_ssize_t row = 0;
        Py_BEGIN_ALLOW_THREADS
        for (; row < count && !outcome; row++) {
            outcome = splice_one(&out, &blocks, number_at(&starts, row), number_at(&stops, row), cuts, cut_count, row);
            int64_t end = (int64_t)out.size;
            if (!outcome)
                outcome = memory_append(&ends, &end, sizeof end);
        }
        Py_END_ALLOW_THREADS
        result = outcome ? raise_outcome(outcome, (size_t)row) : records_and_ends(&out, &ends);
    }
    for (Py_ssize_t i = 0; i < parsed; i++) {
        Py_buffer *buffers[] = {&cuts[i].starts, &cuts[i].stops, &cuts[i].ends, &cuts[i].pieces};
        for (int j = 0; j < 4; j++)
            PyBuffer_Release(buffers[j]);
    }
    free(cuts);
    memory_free(&out);
    memory_free(&ends);
    release_blocks(&blocks);
    PyBuffer_Release(&starts);
    PyBuffer_Release(&stops);
    return result;
}

/* The writer: steps, made of the schema to be written, run over Arrow columns and give the bytes of records, one after another.
 *
 * And splicing: copying records whose bytes are there already, with a few spans of each replaced. Columns are believed as little as files are: an offset that
 * points outside its buffer is refused. The interpreter's lock is free while either works. */

#include "source.h"
#include "varint.h"

/* What to write next, of the row at hand. `steps.py` makes them. */
enum Put {
    PUT_NUMBER = 1, /* column */
    PUT_BYTES,      /* column */
    PUT_WIDTH,      /* column */
    PUT_OPTIONAL,   /* column, length; steps for a value that is not null */
    PUT_LIST,       /* column, length; the steps of one item, whose row is the item's */
    PUT_SIZED_LIST, /* the same, with its size in bytes told, so that readers can pass over it in one step */
};

typedef struct {
    const Source *sources;
    Memory out;
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
    if (append_long(&writer->out, (int64_t)size))
        return NO_MEMORY;
    return size ? memory_append(&writer->out, (const uint8_t *)source->values.buf + start, size) : OK;
}

static Outcome put_width(Writer *writer, const Source *source, int64_t row)
{
    size_t size = (size_t)source->width, start = (size_t)(row + source->offset) * size;
    if (source->values.obj == NULL || start + size > (size_t)source->values.len)
        return UNFIT;
    return memory_append(&writer->out, (const uint8_t *)source->values.buf + start, size);
}

static Outcome put_row(Writer *writer, const int32_t *step, const int32_t *last, int64_t row);

static Outcome put_list(Writer *writer, const Source *source, int64_t row, int sized, const int32_t *step, const int32_t *last)
{
    size_t start, count;
    if (span_of(source, row, INT32_MAX, &start, &count))
        return UNFIT;
    if (!count)
        return append_long(&writer->out, 0);
    if (append_long(&writer->out, sized ? -(int64_t)count : (int64_t)count))
        return NO_MEMORY;
    size_t body = writer->out.size;
    for (size_t i = 0; i < count; i++) {
        Outcome outcome = put_row(writer, step, last, (int64_t)(start + i));
        if (outcome)
            return outcome;
    }
    if (sized) { /* the size stands before the body, and is known behind it */
        uint8_t encoded[LONGEST_VARINT];
        size_t size = writer->out.size - body, head = put_raw(encoded, zigzag((int64_t)size));
        if (memory_reserve(&writer->out, head))
            return NO_MEMORY;
        memmove(writer->out.bytes + body + head, writer->out.bytes + body, size);
        memcpy(writer->out.bytes + body, encoded, head);
        writer->out.size += head;
    }
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

/* Two buffers: the records, and where each ends (int64). Empties both. */
static PyObject *records_and_ends(Memory *records, Memory *ends)
{
    PyObject *first = memory_handed_over(records), *second = memory_handed_over(ends);
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
    int32_t *steps = malloc((size_t)size + 1); /* a copy, since bytes need not lie where numbers may */
    Source *sources = steps ? sources_of(columns) : NULL;
    if (sources == NULL) {
        free(steps);
        return PyErr_Occurred() ? NULL : PyErr_NoMemory();
    }
    memcpy(steps, given, (size_t)size);
    Writer writer = {.sources = sources};
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

/* A record's cuts lie in it, one behind the other; so do the pieces in their bytes. */
static Outcome splice_one(Memory *out, const Py_buffer *data, int64_t start, int64_t end, const Cut *cuts, Py_ssize_t cut_count, Py_ssize_t row)
{
    const uint8_t *bytes = data->buf;
    if (start < 0 || end < start || end > data->len)
        return UNFIT;
    for (Py_ssize_t i = 0; i < cut_count; i++) {
        const Cut *cut = &cuts[i];
        int64_t from = number_at(&cut->starts, row), to = number_at(&cut->stops, row);
        int64_t first = row ? number_at(&cut->ends, row - 1) : 0, last = number_at(&cut->ends, row);
        if (from < start || to < from || to > end || first < 0 || last < first || last > cut->pieces.len)
            return UNFIT;
        if (memory_append(out, bytes + start, (size_t)(from - start))
            || memory_append(out, (const uint8_t *)cut->pieces.buf + first, (size_t)(last - first)))
            return NO_MEMORY;
        start = to;
    }
    return memory_append(out, bytes + start, (size_t)(end - start));
}

PyObject *splice_records(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    Py_buffer data = {0}, starts = {0}, stops = {0};
    PyObject *given, *result = NULL;
    Memory out = {NULL, 0, 0}, ends = {NULL, 0, 0};
    if (!PyArg_ParseTuple(arguments, "y*y*y*O!", &data, &starts, &stops, &PyTuple_Type, &given))
        return NULL;
    Py_ssize_t cut_count = PyTuple_Size(given), count = starts.len / (Py_ssize_t)sizeof(int64_t), parsed = 0;
    Cut *cuts = calloc((size_t)cut_count + 1, sizeof(Cut));
    int sound = cuts != NULL && stops.len == starts.len;
    for (; sound && parsed < cut_count; parsed++) {
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
            outcome = splice_one(&out, &data, number_at(&starts, row), number_at(&stops, row), cuts, cut_count, row);
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
    PyBuffer_Release(&data);
    PyBuffer_Release(&starts);
    PyBuffer_Release(&stops);
    return result;
}

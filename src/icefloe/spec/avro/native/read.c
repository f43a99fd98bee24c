/* The reader: steps, compiled from a writer's schema and a projection, run over uncompressed blocks and fill columns.
 *
 * A step is an opcode and its operands (see `enum Step`); `decode_steps.py` compiles them. No count or size of a file is trusted: each read is checked
 * against the remaining bytes, and memory grows with the bytes that were read. The interpreter's lock is released while the steps run.
 *
 * An error has the reason, the byte, the record and the step; `decode_steps.py` has the field of every step. */

#include "decompress.h"
#include "varint.h"

/* The operation for the next value. Operands follow in this order; lengths count the integers of the nested steps. */
enum Step {
    SKIP_VARINTS = 1,  /* how many, one after another */
    SKIP_BYTES,        /* a string or bytes */
    SKIP_WIDTH,        /* how many bytes */
    SKIP_ITEMS,        /* length; the steps of one item */
    SKIP_VARINT_ITEMS, /* how many varints an item has */
    UNION,             /* how many branches; the length of each; their steps */
    NOTHING,           /* column: null */
    NUMBER,            /* column */
    BYTES,             /* column */
    WIDTH,             /* column, how many bytes */
    LIST,              /* column, length; the steps of one item, which fill their own columns */
    NUMBER_SLOTS,      /* how many; field id and column of each, by field id */
    BYTES_SLOTS,       /* the same */
    MARK,              /* column: where the cursor is, counted over all blocks since columns were taken */
};

typedef enum { OF_NUMBERS, OF_BYTES, OF_WIDTH, OF_LISTS } Form;

typedef struct {
    int32_t form, width;
    Memory values;   /* int64 numbers, fixed widths, or the bytes of all values in a row; empty for lists */
    Memory offsets;  /* int32, one more than there are values: of bytes, and of lists, whose items are in other columns */
    Memory validity; /* Arrow's bitmap; empty as long as there is no null */
    size_t length, nulls;
    uint64_t filled; /* bytes of `values` for nulls, which have one or two bytes in the file and `width` bytes here */
} Column;

/* One projected value of a map, while the map is read. */
typedef struct {
    uint64_t number;
    const uint8_t *bytes;
    size_t size;
    uint64_t run; /* the number of the run that contains it, 0 for none */
} Found;

typedef struct {
    PyObject_HEAD
    int32_t *steps;
    size_t steps_length;
    Column *columns;
    int32_t column_count;
    Found *found; /* as many as the largest number of slots */
    uint64_t most_filled; /* the limit of `filled` of a column */
    uint64_t items_left;  /* how many items the arrays of this block may still have: at most as many as it has bytes */
    const uint8_t *block; /* the current block */
    const int32_t *refused; /* the innermost step that failed */
    size_t bytes_before;  /* of the blocks before it */
    Memory plain;         /* the last decompressed block; with `keeps`, all blocks since they were taken */
    int keeps;
    int state;
} Reader;

enum State { READY, RUNNING, SPOILED };

/* ---- columns ---- */

static Outcome note_validity(Column *column, int valid)
{
    if (valid && !column->nulls) {
        column->length++;
        return OK;
    }
    size_t at = column->length >> 3, bit = column->length & 7;
    if (column->validity.size <= at) { /* the first null: all before it are valid; else the next byte */
        size_t more = at + 1 - column->validity.size;
        if (memory_reserve(&column->validity, more))
            return NO_MEMORY;
        memset(column->validity.bytes + column->validity.size, column->nulls ? 0 : 0xff, more);
        column->validity.size = at + 1;
        if (!column->nulls)
            column->validity.bytes[at] = (uint8_t)((1u << bit) - 1);
    }
    if (valid)
        column->validity.bytes[at] |= (uint8_t)(1u << bit);
    column->nulls += !valid;
    column->length++;
    return OK;
}

/* Appends the end of the last value of bytes, or of the last item of a list. */
static Outcome note_end(Column *column, size_t end)
{
    if (end > INT32_MAX)
        return TOO_LARGE;
    int32_t offset = (int32_t)end;
    return memory_append(&column->offsets, &offset, sizeof offset);
}

static inline Outcome push_number(Column *column, int64_t number)
{
    if (memory_append(&column->values, &number, sizeof number))
        return NO_MEMORY;
    return note_validity(column, 1);
}

static inline Outcome push_bytes(Column *column, const uint8_t *bytes, size_t size)
{
    Outcome outcome = memory_append(&column->values, bytes, size);
    if (!outcome && column->form == OF_BYTES)
        outcome = note_end(column, column->values.size);
    return outcome ? outcome : note_validity(column, 1);
}

static size_t last_end(const Column *column)
{
    int32_t end;
    memcpy(&end, column->offsets.bytes + column->offsets.size - sizeof end, sizeof end);
    return (size_t)end;
}

static Outcome push_null(Reader *reader, Column *column)
{
    static const uint8_t zeros[16];
    Outcome outcome = OK;
    if (column->form == OF_BYTES || column->form == OF_LISTS)
        outcome = note_end(column, last_end(column));
    else if ((column->filled += (uint64_t)column->width) > reader->most_filled)
        return TOO_LARGE;
    else
        for (size_t left = (size_t)column->width; left && !outcome; left -= left < 16 ? left : 16)
            outcome = memory_append(&column->values, zeros, left < 16 ? left : 16);
    return outcome ? outcome : note_validity(column, 0);
}

/* ---- arrays ---- */

/* A run of contiguous items of an array; an array consists of runs, and ends with an empty one. */
typedef struct {
    uint64_t count;
    int sized;            /* whether the file has a size: `size` bytes from `start`, which must be checked before use */
    const uint8_t *start;
    uint64_t size;
} Run;

static Outcome read_run(Cursor *cursor, Run *run)
{
    uint64_t raw, size = 0;
    if (read_raw(cursor, &raw))
        return TORN;
    run->sized = raw & 1; /* after a negative count follows the size of the run in bytes */
    run->count = (raw >> 1) + (raw & 1);
    if (run->sized && read_raw(cursor, &size))
        return TORN;
    if (size & 1)
        return NEGATIVE;
    run->start = cursor->at;
    run->size = size >> 1;
    return OK;
}

/* Moves the cursor to the end of a sized run. */
static Outcome leave_run(Cursor *cursor, const Run *run)
{
    if (run->size > (uint64_t)(cursor->end - run->start))
        return TORN;
    cursor->at = run->start + run->size;
    return OK;
}

static Outcome run_steps(Reader *reader, const int32_t *step, const int32_t *last, Cursor *cursor);

/* Skips a number of one byte, and bytes whose length has one byte, as most bounds are; false, without a move, for any other pair and for damaged ones. A plan of
 * all files takes 3 to 8 % less time than with the steps of a pair. */
static inline int skip_short_pair(Cursor *cursor)
{
    const uint8_t *at = cursor->at;
    size_t left = bytes_left(cursor);
    if (left < 2 || at[0] > 127 || at[1] > 127 || (at[1] & 1) || (size_t)(at[1] >> 1) > left - 2)
        return 0;
    cursor->at = at + 2 + (at[1] >> 1);
    return 1;
}

static Outcome skip_items(Reader *reader, const int32_t *step, const int32_t *last, Cursor *cursor)
{
    const int is_pair = last - step == 3 && step[0] == SKIP_VARINTS && step[1] == 1 && step[2] == SKIP_BYTES;
    Run run;
    for (;;) {
        Outcome outcome = read_run(cursor, &run);
        if (outcome || !run.count)
            return outcome;
        if (run.sized)
            outcome = leave_run(cursor, &run);
        else if (step != last && run.count > bytes_left(cursor)) /* items without bytes need no loop, which a damaged count would make endless */
            return TOO_MANY;
        else if (step != last)
            while (run.count-- && !outcome)
                outcome = is_pair && skip_short_pair(cursor) ? OK : run_steps(reader, step, last, cursor);
        if (outcome)
            return outcome;
    }
}

static Outcome skip_varint_items(uint64_t varints, Cursor *cursor)
{
    Run run;
    for (;;) {
        Outcome outcome = read_run(cursor, &run);
        if (outcome || !run.count)
            return outcome;
        if (!run.sized && run.count > bytes_left(cursor))
            return TOO_MANY;
        if (run.sized ? leave_run(cursor, &run) : skip_varints(cursor, run.count * varints))
            return TORN;
    }
}

static Outcome read_list(Reader *reader, Column *column, const int32_t *step, const int32_t *last, Cursor *cursor)
{
    size_t items = last_end(column);
    for (;;) {
        Run run;
        Outcome outcome = read_run(cursor, &run);
        if (outcome)
            return outcome;
        if (!run.count)
            break;
        /* An item of a valid file has at least one byte. Items without bytes are created too, so all arrays together are limited by the bytes of the block. */
        if (run.count > reader->items_left)
            return TOO_MANY;
        reader->items_left -= run.count;
        items += (size_t)run.count;
        while (run.count--) {
            outcome = run_steps(reader, step, last, cursor);
            if (outcome)
                return outcome;
        }
    }
    Outcome outcome = note_end(column, items);
    return outcome ? outcome : note_validity(column, 1);
}

/* ---- single values of maps ---- */

/* The index of the slot (`count` pairs of field id and column, by field id) with this key, or `count`. Keys are mostly in order, so the next is tried first. */
static inline int32_t slot_of(const int32_t *slots, int32_t count, int32_t guess, int64_t key)
{
    if (guess < count && slots[2 * guess] == key)
        return guess;
    int32_t low = 0, high = count;
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if (slots[2 * middle] < key)
            low = middle + 1;
        else
            high = middle;
    }
    return low < count && slots[2 * low] == key ? low : count;
}

/* A key of any length, since it may not be projected; `sound` is true if it has no unnecessary bytes and not more than an id can have. */
static inline Outcome read_number_key(Cursor *cursor, int64_t *key, int *sound)
{
    const uint8_t *start = cursor->at;
    uint64_t raw = 0;
    for (int shift = 0;; shift += 7) {
        if (cursor->at == cursor->end)
            return TORN;
        uint8_t byte = *cursor->at++;
        if (shift < 35)
            raw |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) {
            *sound = shift < 35 && (byte || cursor->at == start + 1);
            *key = unzigzag(raw);
            return OK;
        }
    }
}

static Outcome find_numbers(Found *found, const int32_t *slots, int32_t slot_count, Cursor *cursor)
{
    for (uint64_t number = 1;; number++) {
        Run run;
        int32_t guess = 0, hits = 0;
        Outcome outcome = read_run(cursor, &run);
        if (outcome || !run.count)
            return outcome;
        while (run.count && hits < slot_count) {
            int64_t key;
            int sound;
            run.count--;
            if (read_number_key(cursor, &key, &sound))
                return TORN;
            int32_t slot = sound ? slot_of(slots, slot_count, guess, key) : slot_count;
            if (slot == slot_count) {
                if (skip_varints(cursor, 1))
                    return TORN;
                continue;
            }
            if (read_raw(cursor, &found[slot].number))
                return TORN;
            hits += found[slot].run != number;
            found[slot].run = number;
            guess = slot + 1;
        }
        if (run.count > bytes_left(cursor))
            return TOO_MANY;
        if (skip_varints(cursor, 2 * run.count)) /* the other keys are not projected */
            return TORN;
    }
}

static Outcome find_bytes(Found *found, const int32_t *slots, int32_t slot_count, Cursor *cursor)
{
    for (uint64_t number = 1;; number++) {
        Run run;
        int32_t guess = 0, hits = 0;
        Outcome outcome = read_run(cursor, &run);
        if (outcome || !run.count)
            return outcome;
        while (run.count--) {
            uint64_t raw;
            size_t size;
            if (read_raw(cursor, &raw))
                return TORN;
            outcome = read_length(cursor, &size);
            if (outcome)
                return outcome;
            int32_t slot = slot_of(slots, slot_count, guess, unzigzag(raw));
            if (slot < slot_count) {
                hits += found[slot].run != number;
                found[slot] = (Found){0, cursor->at, size, number};
                guess = slot + 1;
            }
            cursor->at += size;
            if (run.sized && hits == slot_count) { /* all slots are filled, and the run has a size */
                if (leave_run(cursor, &run))
                    return TORN;
                break;
            }
        }
    }
}

static Outcome read_slots(Reader *reader, const int32_t *slots, int32_t slot_count, int of_numbers, Cursor *cursor)
{
    Found *found = reader->found;
    for (int32_t slot = 0; slot < slot_count; slot++)
        found[slot].run = 0;
    Outcome outcome = of_numbers ? find_numbers(found, slots, slot_count, cursor) : find_bytes(found, slots, slot_count, cursor);
    for (int32_t slot = 0; slot < slot_count && !outcome; slot++) {
        Column *column = &reader->columns[slots[2 * slot + 1]];
        outcome = !found[slot].run ? push_null(reader, column)
                : of_numbers       ? push_number(column, unzigzag(found[slot].number))
                                   : push_bytes(column, found[slot].bytes, found[slot].size);
    }
    return outcome;
}

/* ---- the steps ---- */

/* Stores the innermost step that failed: the first one that returns an error. `step` is any integer of the step. */
static Outcome refuse(Reader *reader, const int32_t *step, Outcome outcome)
{
    if (reader->refused == NULL)
        reader->refused = step;
    return outcome;
}

/* Runs the steps of the branch with the index of the next byte, and moves `step` behind all branches. */
static Outcome run_union(Reader *reader, const int32_t **step, Cursor *cursor)
{
    int32_t branches = **step;
    const int32_t *lengths = *step + 1, *branch = lengths + branches, *chosen = NULL;
    if (cursor->at == cursor->end)
        return TORN;
    uint8_t raw = *cursor->at++;
    int32_t index = raw & 1 ? -1 : raw >> 1;
    for (int32_t i = 0; i < branches; branch += lengths[i++])
        if (i == index)
            chosen = branch;
    *step = branch;
    return chosen == NULL ? refuse(reader, lengths, NO_BRANCH) : run_steps(reader, chosen, chosen + lengths[index], cursor);
}

static Outcome run_steps(Reader *reader, const int32_t *step, const int32_t *last, Cursor *cursor)
{
    Column *columns = reader->columns;
    Outcome outcome = OK;
    uint64_t raw;
    size_t size;
    while (step < last && !outcome) {
        switch (*step++) {
        case SKIP_VARINTS:
            outcome = skip_varints(cursor, (uint64_t)*step++);
            break;
        case SKIP_BYTES:
            outcome = read_length(cursor, &size);
            cursor->at += outcome ? 0 : size;
            break;
        case SKIP_WIDTH:
            outcome = skip_bytes(cursor, (size_t)*step++);
            break;
        case SKIP_ITEMS:
            outcome = skip_items(reader, step + 1, step + 1 + *step, cursor);
            if (outcome)
                return refuse(reader, step, outcome);
            step += 1 + *step;
            break;
        case SKIP_VARINT_ITEMS:
            outcome = skip_varint_items((uint64_t)*step++, cursor);
            break;
        case UNION:
            outcome = run_union(reader, &step, cursor);
            break;
        case NOTHING:
            outcome = push_null(reader, &columns[*step++]);
            break;
        case NUMBER:
            outcome = read_raw(cursor, &raw) ? TORN : push_number(&columns[*step], unzigzag(raw));
            step++;
            break;
        case BYTES:
            outcome = read_length(cursor, &size);
            if (!outcome)
                outcome = push_bytes(&columns[*step], cursor->at, size);
            cursor->at += outcome ? 0 : size;
            step++;
            break;
        case WIDTH:
            size = (size_t)step[1];
            outcome = size > bytes_left(cursor) ? TORN : push_bytes(&columns[*step], cursor->at, size);
            cursor->at += outcome ? 0 : size;
            step += 2;
            break;
        case LIST:
            outcome = read_list(reader, &columns[step[0]], step + 2, step + 2 + step[1], cursor);
            if (outcome)
                return refuse(reader, step, outcome);
            step += 2 + step[1];
            break;
        case NUMBER_SLOTS:
        case BYTES_SLOTS:
            outcome = read_slots(reader, step + 1, *step, step[-1] == NUMBER_SLOTS, cursor);
            step += 1 + 2 * *step;
            break;
        case MARK:
            outcome = push_number(&columns[*step++], (int64_t)(reader->bytes_before + (size_t)(cursor->at - reader->block)));
            break;
        default:
            outcome = UNFIT;
        }
    }
    return outcome ? refuse(reader, step - 1, outcome) : OK;
}

/* ---- the Python type ---- */

PyDoc_STRVAR(reader_doc, "Reader(steps, columns, most_slots, most_filled, keeps)\n\n"
             "A reader of blocks into columns. `steps` and `columns` are int32 arrays from `decode_steps.py`: the steps of one record, "
             "and form and width of each column. The nulls of a column may take `most_filled` bytes. With `keeps`, the uncompressed "
             "bytes are kept for `take_blocks`.");

static int start_column(Column *column, const int32_t *shape)
{
    column->form = shape[0];
    column->width = shape[1];
    return (column->form == OF_BYTES || column->form == OF_LISTS) ? (int)note_end(column, 0) : 0;
}

static PyObject *reader_new(PyTypeObject *type, PyObject *arguments, PyObject *Py_UNUSED(names))
{
    const char *steps, *shapes;
    Py_ssize_t steps_size, shapes_size, most_slots;
    unsigned long long most_filled;
    int keeps;
    if (!PyArg_ParseTuple(arguments, "y#y#nKp", &steps, &steps_size, &shapes, &shapes_size, &most_slots, &most_filled, &keeps))
        return NULL;
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    Reader *reader = (Reader *)allocate(type, 0); /* all zero */
    if (reader == NULL)
        return NULL;
    reader->most_filled = most_filled;
    reader->keeps = keeps;
    reader->steps_length = (size_t)steps_size / sizeof(int32_t);
    reader->column_count = (int32_t)((size_t)shapes_size / (2 * sizeof(int32_t)));
    reader->steps = malloc((size_t)steps_size + 1);
    reader->columns = calloc((size_t)reader->column_count + 1, sizeof(Column));
    reader->found = calloc((size_t)most_slots + 1, sizeof(Found));
    int failed = !reader->steps || !reader->columns || !reader->found;
    for (int32_t i = 0; !failed && i < reader->column_count; i++) {
        int32_t shape[2];
        memcpy(shape, shapes + (size_t)i * sizeof shape, sizeof shape);
        failed = start_column(&reader->columns[i], shape);
    }
    if (failed) {
        Py_DECREF(reader);
        return PyErr_NoMemory();
    }
    memcpy(reader->steps, steps, (size_t)steps_size);
    return (PyObject *)reader;
}

static void free_columns(Reader *reader)
{
    for (int32_t i = 0; reader->columns && i < reader->column_count; i++) {
        memory_free(&reader->columns[i].values);
        memory_free(&reader->columns[i].offsets);
        memory_free(&reader->columns[i].validity);
    }
}

static void reader_dealloc(PyObject *self)
{
    Reader *reader = (Reader *)self;
    PyTypeObject *type = Py_TYPE(self);
    free_columns(reader);
    memory_free(&reader->plain);
    free(reader->columns);
    free(reader->steps);
    free(reader->found);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF(type);
}

PyDoc_STRVAR(run_doc, "run(block, count)\n\n"
             "Run the steps over the `count` records of an uncompressed block, which must end with the last record. Raises ValueError "
             "if the bytes do not match the schema, OverflowError if a column becomes too large; the columns are lost then. The "
             "arguments of the error are the reason, the byte of the block, the number of the record, the number of the step (-1 "
             "after the last step), and the size of the block.");

/* Where a reader stopped in a block: after `record` records, at the byte `position` of `size`. */
typedef struct {
    size_t position, size;
    unsigned long long record;
} Stop;

static PyObject *raise_refusal(const Reader *reader, Outcome outcome, const Stop *stop, size_t offset)
{
    static const char *const whats[] = {
        [TORN] = "the bytes end inside a value, or a number has more than 64 bits",
        [NEGATIVE] = "a length is negative",
        [NO_BRANCH] = "a union has no such branch",
        [TOO_MANY] = "the arrays of a block claim more items than there are bytes",
        [LEFT_OVER] = "the records of a block end before it does",
        [TOO_LARGE] = "a column is larger than 2 GiB, or its nulls are larger than the limit avro_block_bytes",
        [UNFIT] = "the steps contradict themselves",
    };
    if (outcome == NO_MEMORY)
        return PyErr_NoMemory();
    Py_ssize_t step = reader->refused == NULL ? -1 : (Py_ssize_t)(reader->refused - reader->steps);
    PyObject *arguments =
        Py_BuildValue("(snKnnn)", whats[outcome], (Py_ssize_t)stop->position, stop->record, step, (Py_ssize_t)stop->size, (Py_ssize_t)offset);
    if (arguments != NULL)
        PyErr_SetObject(outcome == TOO_LARGE ? PyExc_OverflowError : PyExc_ValueError, arguments);
    Py_XDECREF(arguments);
    return NULL;
}

/* -1 with a Python error if the reader is in use or has failed. */
static int start_running(Reader *reader)
{
    if (reader->state == READY) {
        reader->state = RUNNING;
        return 0;
    }
    PyErr_SetString(PyExc_RuntimeError, "a reader works for one thread, and no more after it has refused a block");
    return -1;
}

/* Runs the steps over the records of one block. */
static Outcome run_block(Reader *reader, const uint8_t *block, size_t size, uint64_t count, Stop *stop)
{
    Cursor cursor = {block, block + size};
    const int32_t *last = reader->steps + reader->steps_length;
    Outcome outcome = OK;
    reader->block = block;
    reader->items_left = size;
    stop->size = size;
    stop->record = 0;
    while (stop->record < count && !(outcome = run_steps(reader, reader->steps, last, &cursor)))
        stop->record++;
    if (!outcome && cursor.at != cursor.end)
        outcome = LEFT_OVER;
    stop->position = (size_t)(cursor.at - block);
    if (!outcome)
        reader->bytes_before += size;
    return outcome;
}

static PyObject *reader_run(PyObject *self, PyObject *arguments)
{
    Reader *reader = (Reader *)self;
    Py_buffer block;
    unsigned long long count;
    if (!PyArg_ParseTuple(arguments, "y*K", &block, &count))
        return NULL;
    if (start_running(reader)) {
        PyBuffer_Release(&block);
        return NULL;
    }
    Stop stop = {0};
    Outcome outcome;
    Py_BEGIN_ALLOW_THREADS
    outcome = reader->keeps ? memory_append(&reader->plain, block.buf, (size_t)block.len) : OK;
    if (!outcome)
        outcome = run_block(reader, block.buf, (size_t)block.len, count, &stop);
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&block);
    reader->state = outcome ? SPOILED : READY;
    if (outcome)
        return raise_refusal(reader, outcome, &stop, 0);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(run_file_doc, "run_file(content, start, sync, codec, most_block_bytes, most_file_bytes, batch_bytes, batch_records)\n\n"
             "Run the steps over the blocks of a file from the byte `start` on, without the interpreter's lock. `codec` is 0 for "
             "uncompressed blocks, 1 for raw deflate data, 2 for zstandard, 3 for snappy. Returns where it stopped, the records and the uncompressed "
             "bytes up to there. It stops at the end, after the block with which it has `batch_bytes` or `batch_records`, and "
             "before a block that is damaged or exceeds a limit, for which the caller has the error, and before any "
             "compressed block if there is no library for it. Raises as `run`, and the last argument of an error is the byte of the file where the block starts.");

enum { SYNC_LENGTH = 16 };

/* What a block of a file is, by its header. */
typedef struct {
    uint64_t count;
    const uint8_t *start;
    size_t size;
} Block;

/* Reads the header of the next block and moves the cursor to the block after it; false if the block is not whole. */
static int next_block(Cursor *cursor, const uint8_t *sync, Block *block)
{
    uint64_t count;
    if (read_raw(cursor, &count) || (count & 1) || read_length(cursor, &block->size))
        return 0;
    block->count = count >> 1;
    block->start = cursor->at;
    if (bytes_left(cursor) - block->size < SYNC_LENGTH || memcmp(cursor->at + block->size, sync, SYNC_LENGTH))
        return 0;
    cursor->at += block->size + SYNC_LENGTH;
    return 1;
}

typedef struct {
    int codec;
    unsigned long long most_block_bytes, most_file_bytes, batch_bytes, batch_records;
} Bounds;

/* The blocks from `file->at` on, which becomes the position where it stopped. `records` and `bytes` are counted. */
static Outcome run_file(Reader *reader, Decompressor *decompressor, Cursor *file, const uint8_t *sync, const Bounds *bounds, uint64_t *records, uint64_t *bytes,
                        Stop *stop)
{
    Memory *plain = &reader->plain;
    while (file->at < file->end && *bytes < bounds->batch_bytes && *records < bounds->batch_records) {
        Cursor next = *file;
        Block block;
        if (!next_block(&next, sync, &block))
            return OK;
        uint64_t left = bounds->most_file_bytes - *bytes, most = left < bounds->most_block_bytes ? left : bounds->most_block_bytes;
        size_t before = reader->keeps ? plain->size : 0;
        if (bounds->codec != UNCOMPRESSED) {
            plain->size = before;
            Outcome outcome = decompress_into(decompressor, (Codec)bounds->codec, block.start, block.size, (size_t)most, plain);
            if (outcome)
                return outcome == NO_MEMORY ? NO_MEMORY : OK;
            block.start = plain->bytes + before;
            block.size = plain->size - before;
        } else if (reader->keeps && memory_append(plain, block.start, block.size)) {
            return NO_MEMORY;
        }
        if (block.size > most || block.count > block.size) { /* a record has at least one byte */
            plain->size = before;
            return OK;
        }
        Outcome outcome = run_block(reader, block.start, block.size, block.count, stop);
        if (outcome)
            return outcome;
        *file = next;
        *records += block.count;
        *bytes += block.size;
    }
    return OK;
}

static PyObject *reader_run_file(PyObject *self, PyObject *arguments)
{
    Reader *reader = (Reader *)self;
    Py_buffer content, sync;
    Bounds bounds;
    Py_ssize_t start;
    if (!PyArg_ParseTuple(arguments, "y*ny*iKKKK", &content, &start, &sync, &bounds.codec, &bounds.most_block_bytes, &bounds.most_file_bytes,
                          &bounds.batch_bytes, &bounds.batch_records))
        return NULL;
    PyObject *result = NULL;
    if (start < 0 || start > content.len || sync.len != SYNC_LENGTH) {
        PyErr_SetString(PyExc_ValueError, "the blocks start outside of the file, or the sync marker does not have 16 bytes");
    } else if (!start_running(reader)) {
        const uint8_t *bytes = content.buf;
        Cursor file = {bytes + start, bytes + content.len};
        uint64_t records = 0, size = 0;
        Stop stop = {0};
        Outcome outcome;
        Decompressor decompressor;
        decompressor_start(&decompressor);
        Py_BEGIN_ALLOW_THREADS
        outcome = run_file(reader, &decompressor, &file, sync.buf, &bounds, &records, &size, &stop);
        decompressor_end(&decompressor);
        Py_END_ALLOW_THREADS
        reader->state = outcome ? SPOILED : READY;
        size_t position = (size_t)(file.at - bytes);
        result = outcome ? raise_refusal(reader, outcome, &stop, position)
                         : Py_BuildValue("(nKK)", (Py_ssize_t)position, (unsigned long long)records, (unsigned long long)size);
    }
    PyBuffer_Release(&content);
    PyBuffer_Release(&sync);
    return result;
}

PyDoc_STRVAR(take_blocks_doc, "take_blocks()\n\n"
             "Return the uncompressed bytes of all blocks since the last call, of a reader that keeps them.");

static PyObject *reader_take_blocks(PyObject *self, PyObject *Py_UNUSED(nothing))
{
    Reader *reader = (Reader *)self;
    if (reader->state != READY || !reader->keeps) {
        PyErr_SetString(PyExc_RuntimeError, "a reader that is at work, has refused a block or does not keep blocks has none to give");
        return NULL;
    }
    return memory_handed_over(&reader->plain);
}

PyDoc_STRVAR(take_doc, "take()\n\n"
             "Return the columns as tuples (length, validity, offsets, values), and start new ones. Buffers have the layout of Arrow; "
             "None for a buffer that the column does not have, and for the validity of a column without nulls.");

static PyObject *taken(Column *column)
{
    int has_offsets = column->form == OF_BYTES || column->form == OF_LISTS;
    PyObject *validity = NULL, *offsets = NULL, *values = NULL, *all = NULL;
    validity = column->nulls ? memory_handed_over(&column->validity) : Py_NewRef(Py_None);
    offsets = has_offsets ? memory_handed_over(&column->offsets) : Py_NewRef(Py_None);
    values = column->form != OF_LISTS ? memory_handed_over(&column->values) : Py_NewRef(Py_None);
    if (validity && offsets && values)
        all = Py_BuildValue("(nOOO)", (Py_ssize_t)column->length, validity, offsets, values);
    Py_XDECREF(validity);
    Py_XDECREF(offsets);
    Py_XDECREF(values);
    int32_t shape[2] = {column->form, column->width};
    memory_free(&column->validity);
    memory_free(&column->offsets);
    memory_free(&column->values);
    *column = (Column){0};
    if (start_column(column, shape)) {
        Py_XDECREF(all);
        return PyErr_NoMemory();
    }
    return all;
}

static PyObject *reader_take(PyObject *self, PyObject *Py_UNUSED(nothing))
{
    Reader *reader = (Reader *)self;
    if (reader->state != READY) {
        PyErr_SetString(PyExc_RuntimeError, "a reader that is at work, or has refused a block, has no columns to give");
        return NULL;
    }
    PyObject *columns = PyTuple_New(reader->column_count);
    for (int32_t i = 0; columns && i < reader->column_count; i++) {
        PyObject *column = taken(&reader->columns[i]);
        if (column == NULL || PyTuple_SetItem(columns, i, column)) {
            reader->state = SPOILED;
            Py_CLEAR(columns);
        }
    }
    reader->bytes_before = 0;
    return columns;
}

static PyMethodDef reader_methods[] = {
    {"run", reader_run, METH_VARARGS, run_doc},
    {"run_file", reader_run_file, METH_VARARGS, run_file_doc},
    {"take_blocks", reader_take_blocks, METH_NOARGS, take_blocks_doc},
    {"take", reader_take, METH_NOARGS, take_doc},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot reader_slots[] = {
    {Py_tp_doc, (void *)reader_doc},
    {Py_tp_new, reader_new},
    {Py_tp_dealloc, reader_dealloc},
    {Py_tp_methods, reader_methods},
    {0, NULL},
};

static PyType_Spec reader_spec = {
    .name = "icefloe.spec.avro.native._manifest.Reader",
    .basicsize = sizeof(Reader),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = reader_slots,
};

int add_reader_type(PyObject *module)
{
    PyObject *type = PyType_FromModuleAndSpec(module, &reader_spec, NULL);
    if (type == NULL)
        return -1;
    int failed = PyModule_AddType(module, (PyTypeObject *)type);
    Py_DECREF(type);
    return failed;
}

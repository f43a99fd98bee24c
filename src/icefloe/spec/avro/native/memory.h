/* Memory that grows, and its conversion to a Python object with the buffer protocol, which Arrow wraps without copying. */

#ifndef ICEFLOE_MEMORY_H
#define ICEFLOE_MEMORY_H

#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Every function that can fail returns one of these; `OK` is 0, so that `if (f()) return ...` reads well. */
typedef enum {
    OK = 0,
    TORN,         /* the bytes end inside a value, or a number has more than 64 bits */
    NEGATIVE,     /* a length is negative */
    NO_BRANCH,    /* a union has no branch of that number */
    TOO_MANY,     /* arrays claim more items than there are bytes */
    LEFT_OVER,    /* the block has more bytes than its records */
    TOO_LARGE,    /* a column would outgrow Arrow's 32-bit offsets */
    NO_MEMORY,
    UNFIT,        /* a column to write is inconsistent */
} Outcome;

typedef struct {
    uint8_t *bytes;
    size_t size; /* bytes in use */
    size_t room; /* bytes allocated */
} Memory;

/* Reserves `more` bytes after the used ones. The number is computed from bytes that were read, never from a count or size of a file. */
static inline Outcome memory_reserve(Memory *memory, size_t more)
{
    if (memory->room - memory->size >= more)
        return OK;
    size_t room = memory->room < 1024 ? 1024 : memory->room + memory->room / 2;
    if (room - memory->size < more)
        room = memory->size + more;
    if (room < memory->size)
        return NO_MEMORY;
    uint8_t *bytes = realloc(memory->bytes, room);
    if (bytes == NULL)
        return NO_MEMORY;
    memory->bytes = bytes;
    memory->room = room;
    return OK;
}

static inline Outcome memory_append(Memory *memory, const void *bytes, size_t size)
{
    if (memory_reserve(memory, size))
        return NO_MEMORY;
    if (size)
        memcpy(memory->bytes + memory->size, bytes, size);
    memory->size += size;
    return OK;
}

static inline void memory_free(Memory *memory)
{
    free(memory->bytes);
    *memory = (Memory){NULL, 0, 0};
}

/* A bytes-like object that owns the content of `memory`, which becomes empty. NULL with a Python error if the object cannot be allocated. */
PyObject *memory_handed_over(Memory *memory);

/* The same for bytes that are freed soon: they keep their unused allocation, which the next `memory_again` reuses when they are freed. */
PyObject *memory_lent(Memory *memory);

/* Empty memory with the allocation of freed bytes, if there is one. A new allocation costs a writer as much time as the bytes it writes there. */
Memory memory_again(void);

/* The Python error of an outcome that is not OK; always NULL. */
PyObject *raise_outcome(Outcome outcome, size_t position);

/* The types of this module, created when it is imported. */
int add_memory_type(PyObject *module);
int add_reader_type(PyObject *module);
PyObject *write_records(PyObject *module, PyObject *arguments);
PyObject *splice_records(PyObject *module, PyObject *arguments);
PyObject *make_objects(PyObject *module, PyObject *arguments);
PyObject *encode_objects(PyObject *module, PyObject *arguments);
PyObject *open_libdeflate(PyObject *module, PyObject *path);
PyObject *open_libzstd(PyObject *module, PyObject *path);
PyObject *open_libsnappy(PyObject *module, PyObject *path);

#endif

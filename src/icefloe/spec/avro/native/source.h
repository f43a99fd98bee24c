/* Arrow arrays as arguments. They are not trusted: an offset outside of its buffer is refused. */

#ifndef ICEFLOE_SOURCE_H
#define ICEFLOE_SOURCE_H

#include "memory.h"

/* An Arrow array with buffers in Arrow's layout; `offset` is the index of its first row in them. */
typedef struct {
    int64_t length, offset, width;
    Py_buffer validity, offsets, values; /* `obj` is NULL for a missing buffer */
} Source;

static inline int is_valid(const Source *source, int64_t row)
{
    if (source->validity.obj == NULL)
        return 1;
    size_t bit = (size_t)(row + source->offset);
    return (size_t)source->validity.len > bit >> 3 && ((const uint8_t *)source->validity.buf)[bit >> 3] >> (bit & 7) & 1;
}

/* The start of the value of a row in `values`, or of its items in their columns, and its number of bytes or items. */
static inline Outcome span_of(const Source *source, int64_t row, size_t most, size_t *start, size_t *size)
{
    int32_t ends[2];
    size_t at = (size_t)(row + source->offset) * sizeof(int32_t);
    if (source->offsets.obj == NULL || at + sizeof ends > (size_t)source->offsets.len)
        return UNFIT;
    memcpy(ends, (const uint8_t *)source->offsets.buf + at, sizeof ends);
    if (ends[0] < 0 || ends[1] < ends[0] || (size_t)ends[1] > most)
        return UNFIT;
    *start = (size_t)ends[0];
    *size = (size_t)(ends[1] - ends[0]);
    return OK;
}

/* An integer of 4 or 8 bytes (`width`). */
static inline Outcome number_of(const Source *source, int64_t row, int64_t *number)
{
    size_t width = (size_t)source->width, at = (size_t)(row + source->offset) * width;
    if (source->values.obj == NULL || at + width > (size_t)source->values.len)
        return UNFIT;
    if (width == sizeof *number) {
        memcpy(number, (const uint8_t *)source->values.buf + at, sizeof *number);
        return OK;
    }
    int32_t narrow;
    if (width != sizeof narrow)
        return UNFIT;
    memcpy(&narrow, (const uint8_t *)source->values.buf + at, sizeof narrow);
    *number = narrow;
    return OK;
}

static inline int optional_buffer(PyObject *object, Py_buffer *buffer)
{
    if (object == Py_None) {
        buffer->obj = NULL;
        return 0;
    }
    return PyObject_GetBuffer(object, buffer, PyBUF_SIMPLE);
}

static inline void release_source(Source *source)
{
    Py_buffer *buffers[] = {&source->validity, &source->offsets, &source->values};
    for (int i = 0; i < 3; i++)
        if (buffers[i]->obj)
            PyBuffer_Release(buffers[i]);
}

/* From the tuple (length, offset, width, validity, offsets, values); -1 with a Python error. The source must be released in any case. */
static inline int fill_source(Source *source, PyObject *given)
{
    PyObject *validity, *offsets, *values;
    if (!PyArg_ParseTuple(given, "LLLOOO", &source->length, &source->offset, &source->width, &validity, &offsets, &values)
        || optional_buffer(validity, &source->validity) || optional_buffer(offsets, &source->offsets) || optional_buffer(values, &source->values))
        return -1;
    if (source->length >= 0 && source->offset >= 0 && source->width >= 0)
        return 0;
    PyErr_SetString(PyExc_ValueError, "a column has a negative length, offset or width");
    return -1;
}

#endif

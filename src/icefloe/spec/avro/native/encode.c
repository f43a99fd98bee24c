/* Encodes Python objects as records, field by field, as `avro_encoder.py` does value by value. Objects that this code refuses are encoded there again, whose
 * errors have the reason. */

#include "memory.h"
#include "varint.h"

/* How a value is written. `write_avro_rows.py` makes the steps. */
enum Encode {
    ENCODE_RAW = 1,  /* bytes that are encoded already */
    ENCODE_LONG,
    ENCODE_TEXT,
    ENCODE_BYTES,
    ENCODE_OPTIONAL, /* length; steps for a value that is not None */
    ENCODE_LIST,     /* length; the steps of one item */
    ENCODE_ID_MAP,   /* length; the steps of one value; keys are numbers, and the size in bytes is written */
    ENCODE_TUPLE,    /* length; for each item its length and its steps */
};

static int failed(Outcome outcome)
{
    return outcome ? (raise_outcome(outcome, 0), -1) : 0;
}

static int put_long(Memory *out, PyObject *value)
{
    int64_t number = PyLong_AsLongLong(value);
    return (number == -1 && PyErr_Occurred()) || failed(append_long(out, number)) ? -1 : 0;
}

static int put_value(Memory *out, const int32_t *step, PyObject *value);

static int put_items(Memory *out, const int32_t *step, PyObject *values)
{
    int is_tuple = PyTuple_Check(values);
    if (!is_tuple && !PyList_Check(values)) {
        PyErr_SetString(PyExc_TypeError, "a list is neither a tuple nor a list");
        return -1;
    }
    Py_ssize_t count = is_tuple ? PyTuple_Size(values) : PyList_Size(values);
    if (count && failed(append_long(out, count)))
        return -1;
    for (Py_ssize_t i = 0; i < count; i++)
        if (put_value(out, step, is_tuple ? PyTuple_GetItem(values, i) : PyList_GetItem(values, i)))
            return -1;
    return failed(append_long(out, 0));
}

static int put_id_map(Memory *out, const int32_t *step, PyObject *pairs)
{
    if (!PyDict_Check(pairs)) {
        PyErr_SetString(PyExc_TypeError, "a map is not a dict");
        return -1;
    }
    Py_ssize_t count = PyDict_Size(pairs), position = 0;
    if (!count)
        return failed(append_long(out, 0));
    if (failed(append_long(out, -(int64_t)count)))
        return -1;
    size_t body = out->size;
    PyObject *key, *value;
    while (PyDict_Next(pairs, &position, &key, &value))
        if (put_long(out, key) || put_value(out, step, value))
            return -1;
    uint8_t encoded[LONGEST_VARINT]; /* the size precedes the body, and is known only after it */
    size_t size = out->size - body, head = put_raw(encoded, zigzag((int64_t)size));
    if (failed(memory_reserve(out, head)))
        return -1;
    memmove(out->bytes + body + head, out->bytes + body, size);
    memcpy(out->bytes + body, encoded, head);
    out->size += head;
    return failed(append_long(out, 0));
}

static int put_tuple(Memory *out, const int32_t *step, PyObject *values)
{
    const int32_t *end = step + 2 + step[1];
    Py_ssize_t count = PyTuple_Check(values) ? PyTuple_Size(values) : -1, i = 0;
    for (step += 2; step < end && i < count; step += 1 + step[0], i++)
        if (put_value(out, step + 1, PyTuple_GetItem(values, i)))
            return -1;
    if (step == end && i == count)
        return 0;
    PyErr_SetString(PyExc_ValueError, "a record inside is not a tuple of as many values as it has fields");
    return -1;
}

static int put_value(Memory *out, const int32_t *step, PyObject *value)
{
    static const uint8_t null_branch = 0, value_branch = 2;
    const char *text;
    char *bytes;
    Py_ssize_t size;
    switch (step[0]) {
    case ENCODE_RAW:
        return PyBytes_AsStringAndSize(value, &bytes, &size) ? -1 : failed(memory_append(out, bytes, (size_t)size));
    case ENCODE_LONG:
        return put_long(out, value);
    case ENCODE_TEXT:
        text = PyUnicode_AsUTF8AndSize(value, &size);
        return text == NULL ? -1 : failed(append_sized(out, text, (size_t)size));
    case ENCODE_BYTES:
        return PyBytes_AsStringAndSize(value, &bytes, &size) ? -1 : failed(append_sized(out, bytes, (size_t)size));
    case ENCODE_OPTIONAL:
        if (value == Py_None)
            return failed(memory_append(out, &null_branch, 1));
        return failed(memory_append(out, &value_branch, 1)) ? -1 : put_value(out, step + 2, value);
    case ENCODE_LIST:
        return put_items(out, step + 2, value);
    case ENCODE_ID_MAP:
        return put_id_map(out, step + 2, value);
    case ENCODE_TUPLE:
        return put_tuple(out, step, value);
    default:
        PyErr_SetString(PyExc_ValueError, "there is no such step");
        return -1;
    }
}

/* A field: its steps, and either its encoded bytes for all records, or a list with one value per record, or the name of an attribute of the objects. */
typedef struct {
    const int32_t *steps;
    const char *bytes;
    Py_ssize_t size;
    PyObject *list;
    PyObject *name;
} Field;

static int put_record(Memory *out, const Field *fields, Py_ssize_t count, PyObject *objects, Py_ssize_t row)
{
    PyObject *object = PyList_GetItem(objects, row);
    for (const Field *field = fields; object && field < fields + count; field++) {
        if (field->bytes) {
            if (failed(memory_append(out, field->bytes, (size_t)field->size)))
                return -1;
            continue;
        }
        PyObject *value = field->list ? PyList_GetItem(field->list, row) : PyObject_GetAttr(object, field->name);
        int broken = value == NULL || put_value(out, field->steps, value);
        if (field->name)
            Py_XDECREF(value);
        if (broken)
            return -1;
    }
    return object ? 0 : -1;
}

static int fill_field(Field *field, PyObject *given, Py_ssize_t count)
{
    PyObject *steps, *values;
    char *bytes;
    if (!PyArg_ParseTuple(given, "SO", &steps, &values))
        return -1;
    field->steps = (const int32_t *)(const void *)PyBytes_AsString(steps);
    if (PyBytes_Check(values)) {
        int broken = PyBytes_AsStringAndSize(values, &bytes, &field->size);
        field->bytes = bytes;
        return broken;
    }
    field->list = PyList_Check(values) && PyList_Size(values) == count ? values : NULL;
    field->name = PyUnicode_Check(values) ? values : NULL;
    if ((field->list || field->name) && PyBytes_Size(steps) >= 8)
        return 0;
    PyErr_SetString(PyExc_ValueError, "a field does not have as many values as there are records");
    return -1;
}

static PyObject *encoded(const Field *fields, Py_ssize_t width, PyObject *objects)
{
    Memory out = memory_again(), ends = {NULL, 0, 0};
    PyObject *result = NULL;
    int broken = 0;
    for (Py_ssize_t row = 0; row < PyList_Size(objects) && !broken; row++) {
        broken = put_record(&out, fields, width, objects, row);
        int64_t end = (int64_t)out.size;
        broken = broken || failed(memory_append(&ends, &end, sizeof end));
    }
    if (!broken) {
        PyObject *first = memory_lent(&out), *second = memory_handed_over(&ends);
        result = first && second ? Py_BuildValue("(OO)", first, second) : NULL;
        Py_XDECREF(first);
        Py_XDECREF(second);
    }
    memory_free(&out);
    memory_free(&ends);
    return result;
}

PyObject *encode_objects(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    PyObject *given, *objects, *result = NULL;
    if (!PyArg_ParseTuple(arguments, "O!O!", &PyTuple_Type, &given, &PyList_Type, &objects))
        return NULL;
    Py_ssize_t width = PyTuple_Size(given), known = 0;
    Field *fields = calloc((size_t)width + 1, sizeof(Field));
    if (fields == NULL)
        return PyErr_NoMemory();
    while (known < width && !fill_field(&fields[known], PyTuple_GetItem(given, known), PyList_Size(objects)))
        known++;
    if (known == width)
        result = encoded(fields, width, objects);
    free(fields);
    return result;
}

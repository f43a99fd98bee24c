/* Creates objects from columns: sets the slots of many objects of one class from Arrow columns, without a Python call for each value. */

#include "source.h"

/* The values of one field; a value that equals that of the previous row shares its object. */
typedef struct {
    const Source *source;
    PyObject *last; /* of the previous row, or NULL */
    int64_t number;
    size_t start, size;
} Values;

static PyObject *text_of(Values *values, int64_t row)
{
    const Source *source = values->source;
    const char *bytes = source->values.obj == NULL ? "" : (const char *)source->values.buf;
    size_t start, size, most = source->values.obj == NULL ? 0 : (size_t)source->values.len;
    Outcome outcome = span_of(source, row, most, &start, &size);
    if (outcome)
        return raise_outcome(outcome, (size_t)row);
    if (values->last && values->size == size && memcmp(bytes + start, bytes + values->start, size) == 0)
        return Py_NewRef(values->last);
    values->start = start;
    values->size = size;
    return PyUnicode_DecodeUTF8(bytes + start, (Py_ssize_t)size, "strict");
}

static PyObject *number_object(Values *values, int64_t row)
{
    int64_t number;
    Outcome outcome = number_of(values->source, row, &number);
    if (outcome)
        return raise_outcome(outcome, (size_t)row);
    if (values->last && values->number == number)
        return Py_NewRef(values->last);
    values->number = number;
    return PyLong_FromLongLong(number);
}

static PyObject *value_of(Values *values, int64_t row)
{
    if (!is_valid(values->source, row))
        return Py_NewRef(Py_None);
    PyObject *value = values->source->offsets.obj ? text_of(values, row) : number_object(values, row);
    if (value) {
        Py_XDECREF(values->last);
        values->last = Py_NewRef(value);
    }
    return value;
}

static int set_column(PyObject *objects, PyObject *slot, descrsetfunc set, PyObject *given)
{
    Source source = {0};
    Py_ssize_t count = PyList_Size(objects);
    int failed = fill_source(&source, given);
    if (!failed && source.length < count) {
        PyErr_SetString(PyExc_ValueError, "a column has fewer values than there are objects");
        failed = -1;
    }
    Values values = {.source = &source};
    for (Py_ssize_t row = 0; row < count && !failed; row++) {
        PyObject *value = value_of(&values, row);
        failed = value == NULL ? -1 : set(slot, PyList_GetItem(objects, row), value);
        Py_XDECREF(value);
    }
    Py_XDECREF(values.last);
    release_source(&source);
    return failed;
}

static int set_listed(PyObject *objects, PyObject *slot, descrsetfunc set, PyObject *values)
{
    Py_ssize_t count = PyList_Size(objects);
    if (PyList_Size(values) != count) {
        PyErr_SetString(PyExc_ValueError, "a field does not have as many values as there are objects");
        return -1;
    }
    int failed = 0;
    for (Py_ssize_t row = 0; row < count && !failed; row++)
        failed = set(slot, PyList_GetItem(objects, row), PyList_GetItem(values, row));
    return failed;
}

static int set_same(PyObject *objects, PyObject *slot, descrsetfunc set, PyObject *value)
{
    Py_ssize_t count = PyList_Size(objects);
    int failed = 0;
    for (Py_ssize_t row = 0; row < count && !failed; row++)
        failed = set(slot, PyList_GetItem(objects, row), value);
    return failed;
}

static PyObject *new_objects(PyTypeObject *kind, Py_ssize_t count)
{
    allocfunc allocate = (allocfunc)PyType_GetSlot(kind, Py_tp_alloc);
    PyObject *objects = PyList_New(count);
    for (Py_ssize_t row = 0; objects && row < count; row++) {
        PyObject *object = allocate(kind, 0);
        /* Frozen objects that refer only to older objects cannot be in a reference cycle, so the garbage collector does not need to track them. With hundreds
         * of thousands of them it would take a quarter of the time. */
        if (object != NULL && PyType_HasFeature(kind, Py_TPFLAGS_HAVE_GC))
            PyObject_GC_UnTrack(object);
        if (object == NULL || PyList_SetItem(objects, row, object))
            Py_CLEAR(objects);
    }
    return objects;
}

/* A field is the tuple (descriptor of its slot, values): a list has one value per object, a tuple is a column, any other object is the value of all. */
static int set_field(PyObject *objects, PyObject *field)
{
    PyObject *slot, *values;
    if (!PyArg_ParseTuple(field, "OO", &slot, &values))
        return -1;
    descrsetfunc set = (descrsetfunc)PyType_GetSlot(Py_TYPE(slot), Py_tp_descr_set);
    if (set == NULL) {
        PyErr_SetString(PyExc_TypeError, "a field is not a slot");
        return -1;
    }
    if (PyList_Check(values))
        return set_listed(objects, slot, set, values);
    return PyTuple_Check(values) ? set_column(objects, slot, set, values) : set_same(objects, slot, set, values);
}

PyObject *make_objects(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    PyObject *kind, *fields;
    Py_ssize_t count;
    if (!PyArg_ParseTuple(arguments, "O!O!n", &PyType_Type, &kind, &PyTuple_Type, &fields, &count))
        return NULL;
    if (!(PyType_GetFlags((PyTypeObject *)kind) & Py_TPFLAGS_HEAPTYPE) || count < 0) {
        PyErr_SetString(PyExc_TypeError, "objects are made of classes written in Python, none or more");
        return NULL;
    }
    PyObject *objects = new_objects((PyTypeObject *)kind, count);
    for (Py_ssize_t i = 0; objects && i < PyTuple_Size(fields); i++)
        if (set_field(objects, PyTuple_GetItem(fields, i)))
            Py_CLEAR(objects);
    return objects;
}

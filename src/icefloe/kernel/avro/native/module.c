/* The module `_manifest`: a reader of blocks into columns, a writer of columns into records, and a maker of objects of columns. What it is for is told in
 * `decode_steps.py`. */

#include "memory.h"

/* Raised whenever steps or arguments change their meaning, so that a module built from older sources is left aside; `compiled_codec.py` has the same number. */
enum { INTERFACE = 6 };

/* ---- memory that has been handed over ---- */

typedef struct {
    PyObject_HEAD
    Memory memory;
    int lent;
} Handed;

static PyTypeObject *handed_type;

/* Room that was lent and is free again: one piece, of at most so many bytes. Whoever looks at it has the interpreter's lock. */
enum { MOST_KEPT = 8 * 1024 * 1024 };
static Memory kept;

static int handed_buffer(PyObject *self, Py_buffer *view, int flags)
{
    static uint8_t nothing; /* Arrow takes no NULL for an empty buffer */
    Memory *memory = &((Handed *)self)->memory;
    void *bytes = memory->bytes ? memory->bytes : &nothing;
    return PyBuffer_FillInfo(view, self, bytes, (Py_ssize_t)memory->size, 1, flags);
}

static void handed_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    Handed *handed = (Handed *)self;
    if (handed->lent && handed->memory.room > kept.room && handed->memory.room <= MOST_KEPT) {
        memory_free(&kept);
        kept = handed->memory;
    } else {
        memory_free(&handed->memory);
    }
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF(type);
}

static PyObject *handed_over(Memory *memory, int lent)
{
    allocfunc allocate = (allocfunc)PyType_GetSlot(handed_type, Py_tp_alloc);
    Handed *handed = (Handed *)allocate(handed_type, 0);
    if (handed == NULL)
        return NULL;
    handed->memory = *memory;
    handed->lent = lent;
    *memory = (Memory){NULL, 0, 0};
    return (PyObject *)handed;
}

PyObject *memory_handed_over(Memory *memory)
{
    if (memory->size && memory->size < memory->room) { /* what was kept for growth is given back */
        uint8_t *bytes = realloc(memory->bytes, memory->size);
        memory->bytes = bytes ? bytes : memory->bytes;
        memory->room = bytes ? memory->size : memory->room;
    }
    return handed_over(memory, 0);
}

PyObject *memory_lent(Memory *memory)
{
    return handed_over(memory, 1);
}

Memory memory_again(void)
{
    Memory memory = {kept.bytes, 0, kept.room};
    kept = (Memory){NULL, 0, 0};
    return memory;
}

static PyType_Slot handed_slots[] = {
    {Py_tp_doc, "Bytes that a reader or a writer has made; read-only."},
    {Py_tp_dealloc, handed_dealloc},
    {Py_bf_getbuffer, handed_buffer},
    {0, NULL},
};

static PyType_Spec handed_spec = {
    .name = "icefloe.kernel.avro.native._manifest.Memory",
    .basicsize = sizeof(Handed),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = handed_slots,
};

int add_memory_type(PyObject *module)
{
    handed_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &handed_spec, NULL);
    return handed_type == NULL ? -1 : PyModule_AddType(module, handed_type);
}

/* ---- errors ---- */

PyObject *raise_outcome(Outcome outcome, size_t position)
{
    if (outcome == NO_MEMORY)
        return PyErr_NoMemory();
    const char *what = outcome == TOO_LARGE ? "a column is larger than 2 GiB" : "a column contradicts itself";
    return PyErr_Format(PyExc_ValueError, "%s (at byte or row %zu)", what, position);
}

/* ---- the module ---- */

PyDoc_STRVAR(write_doc, "write_records(steps, columns, count)\n\nThe first `count` rows of columns as records: their bytes, and where each ends (int64). A column "
                        "is a tuple (length, offset, width, validity, offsets, values) of an Arrow array. Raises ValueError where columns contradict themselves.");
PyDoc_STRVAR(splice_doc, "splice_records(blocks, starts, stops, cuts)\n\nCopies the records that lie between `starts` and `stops` (int64), in order, each in one of the blocks; positions "
                         "count over all of these. A cut, the tuple (starts, stops, ends, pieces), replaces a span of each record by the bytes of `pieces` up to the "
                         "record's end. As `write_records` otherwise.");

PyDoc_STRVAR(objects_doc, "make_objects(kind, fields, count)\n\n`count` new objects of a slotted class, whose `__init__` does not run. A field is a tuple of its slot's "
                          "descriptor and its values: a list of one for each object, a column of text or of numbers as `write_records` takes it, or one object "
                          "(neither list nor tuple) for all.");

PyDoc_STRVAR(encode_doc, "encode_objects(fields, objects)\n\nA record of each object, as `write_records` gives them. A field is a tuple of its steps (int32) and its "
                         "values: the name of an attribute, a list of one for each object, or the bytes that it is in all of them. Raises TypeError, ValueError, "
                         "OverflowError, AttributeError for a value that does not fit.");

static PyMethodDef functions[] = {
    {"write_records", write_records, METH_VARARGS, write_doc},
    {"splice_records", splice_records, METH_VARARGS, splice_doc},
    {"make_objects", make_objects, METH_VARARGS, objects_doc},
    {"encode_objects", encode_objects, METH_VARARGS, encode_doc},
    {NULL, NULL, 0, NULL},
};

static int fill_module(PyObject *module)
{
    if (add_memory_type(module) || add_reader_type(module))
        return -1;
    return PyModule_AddIntConstant(module, "INTERFACE", INTERFACE);
}

static PyModuleDef_Slot module_slots[] = {
    {Py_mod_exec, fill_module},
    {0, NULL},
};

static PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_manifest",
    .m_doc = "Manifests between Avro blocks and columns; see the Python side, icefloe.kernel.avro.",
    .m_methods = functions,
    .m_slots = module_slots,
};

PyMODINIT_FUNC PyInit__manifest(void)
{
    return PyModuleDef_Init(&definition);
}

/* The module `_manifest`: reads blocks into columns, writes columns as records, and creates objects from columns. `decode_steps.py` describes the steps. */

#include "memory.h"

/* Raised whenever steps or arguments change their meaning, so that a module built from older sources is not used; `compiled_codec.py` has the same number. */
enum { INTERFACE = 12 };

/* ---- memory that Python owns ---- */

typedef struct {
    PyObject_HEAD
    Memory memory;
    int lent;
} Handed;

static PyTypeObject *handed_type;

/* A freed allocation that is kept for reuse: only one, of limited size. It is accessed only with the interpreter's lock. */
enum { MOST_KEPT = 8 * 1024 * 1024 };
static Memory kept;

static int handed_buffer(PyObject *self, Py_buffer *view, int flags)
{
    static uint8_t nothing; /* Arrow does not accept NULL for an empty buffer */
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
    if (memory->size && memory->size < memory->room) { /* memory reserved for growth is freed */
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
    {Py_tp_doc, "Read-only bytes that a reader or a writer returned."},
    {Py_tp_dealloc, handed_dealloc},
    {Py_bf_getbuffer, handed_buffer},
    {0, NULL},
};

static PyType_Spec handed_spec = {
    .name = "icefloe.spec.avro.native._manifest.Memory",
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

PyDoc_STRVAR(write_doc, "write_records(steps, columns, count)\n\n"
             "Return the first `count` rows of columns as encoded records: their bytes, and the end of each (int64). A column is a "
             "tuple (length, offset, width, validity, offsets, values) of an Arrow array. Raises ValueError for inconsistent columns.");
PyDoc_STRVAR(splice_doc, "splice_records(blocks, starts, stops, cuts)\n\n"
             "Copy the records between `starts` and `stops` (int64), in order. Positions count over all blocks; each record is within "
             "one block. A cut is a tuple (starts, stops, ends, pieces): a span of each record is replaced by the bytes of `pieces` up "
             "to the end of the record. Returns and raises as `write_records`.");

PyDoc_STRVAR(objects_doc, "make_objects(kind, fields, count)\n\n"
             "Return `count` new objects of a slotted class without calling `__init__`. A field is a tuple of the descriptor of its "
             "slot and its values: a list with one per object, a column of text or numbers as for `write_records`, or one object "
             "(neither list nor tuple) for all.");

PyDoc_STRVAR(encode_doc, "encode_objects(fields, objects)\n\n"
             "Return one encoded record per object, as `write_records` does. A field is a tuple of its steps (int32) and its values: "
             "the name of an attribute, a list with one per object, or the encoded bytes for all records. Raises TypeError, "
             "ValueError, OverflowError, AttributeError for an invalid value.");

PyDoc_STRVAR(libzstd_doc, "open_libzstd(path)\n\n"
             "Decompress zstandard data with the library at this path from now on. Returns False if it cannot be loaded or is no libzstd.");

PyDoc_STRVAR(libsnappy_doc, "open_libsnappy(path)\n\n"
             "Decompress snappy data with the library at this path from now on. Returns False if it cannot be loaded or is no libsnappy.");

PyDoc_STRVAR(libdeflate_doc, "open_libdeflate(path)\n\n"
             "Decompress deflate data with the library at this path from now on. Returns False if it cannot be loaded or is no libdeflate; "
             "readers then leave deflated blocks to their caller.");

static PyMethodDef functions[] = {
    {"write_records", write_records, METH_VARARGS, write_doc},
    {"splice_records", splice_records, METH_VARARGS, splice_doc},
    {"make_objects", make_objects, METH_VARARGS, objects_doc},
    {"encode_objects", encode_objects, METH_VARARGS, encode_doc},
    {"open_libdeflate", open_libdeflate, METH_O, libdeflate_doc},
    {"open_libzstd", open_libzstd, METH_O, libzstd_doc},
    {"open_libsnappy", open_libsnappy, METH_O, libsnappy_doc},
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
    .m_doc = "Conversion between Avro blocks and columns; the Python side is icefloe.spec.avro.",
    .m_methods = functions,
    .m_slots = module_slots,
};

PyMODINIT_FUNC PyInit__manifest(void)
{
    return PyModuleDef_Init(&definition);
}

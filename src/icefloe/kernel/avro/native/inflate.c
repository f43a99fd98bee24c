#include "inflate.h"

#include <dlfcn.h>
#include <limits.h>

enum {
    RAW_DEFLATE = -15, /* window bits: negative without a header of zlib, and the largest window */
    FINISH = 4,
    FINISHED = 1,
    MORE = 0,
    MEMORY_ERROR = -4,
    BUFFER_ERROR = -5,     /* the output is full, or the input has ended */
    LEAST_ROOM = 16 * 1024, /* zlib is fast as long as there is room for the longest match */
};

/* Changed only with the interpreter's lock, and never closed, since a reader may be at work. */
static Zlib zlib;

static int start_stream(const Zlib *from, Stream *stream)
{
    *stream = (Stream){0};
    return from->init(stream, RAW_DEFLATE, "1.2.3", (int)sizeof *stream); /* zlib compares the first digit */
}

PyObject *open_zlib(PyObject *Py_UNUSED(module), PyObject *name)
{
    PyObject *path = NULL;
    if (!PyUnicode_FSConverter(name, &path))
        return NULL;
    void *library = dlopen(PyBytes_AsString(path), RTLD_NOW | RTLD_LOCAL);
    Py_DECREF(path);
    Zlib found = {NULL, NULL, NULL, NULL};
    if (library != NULL) {
        found.init = (int (*)(Stream *, int, const char *, int))dlsym(library, "inflateInit2_");
        found.inflate = (int (*)(Stream *, int))dlsym(library, "inflate");
        found.reset = (int (*)(Stream *))dlsym(library, "inflateReset");
        found.end = (int (*)(Stream *))dlsym(library, "inflateEnd");
    }
    Stream stream;
    int is_fit = found.init && found.inflate && found.reset && found.end && start_stream(&found, &stream) == MORE;
    if (is_fit)
        found.end(&stream);
    else if (library != NULL)
        dlclose(library);
    zlib = is_fit ? found : (Zlib){NULL, NULL, NULL, NULL};
    return PyBool_FromLong(is_fit);
}

void inflater_start(Inflater *inflater)
{
    inflater->zlib = zlib;
    inflater->started = 0;
}

void inflater_end(Inflater *inflater)
{
    if (inflater->started)
        inflater->zlib.end(&inflater->stream);
    inflater->started = 0;
}

/* Makes the stream ready for the next block. */
static Outcome next_stream(Inflater *inflater)
{
    if (inflater->zlib.inflate == NULL)
        return TORN;
    if (inflater->started)
        return inflater->zlib.reset(&inflater->stream) == MORE ? OK : TORN;
    int result = start_stream(&inflater->zlib, &inflater->stream);
    inflater->started = result == MORE;
    return result == MORE ? OK : result == MEMORY_ERROR ? NO_MEMORY : TORN;
}

Outcome inflate_into(Inflater *inflater, const uint8_t *data, size_t size, size_t most, Memory *out)
{
    Stream *stream = &inflater->stream;
    size_t start = out->size;
    int result = MORE, moved = 1;
    Outcome outcome = next_stream(inflater);
    while (!outcome && result != FINISHED) {
        outcome = memory_reserve(out, LEAST_ROOM);
        if (outcome)
            break;
        size_t room = out->room - out->size, left = most - (out->size - start);
        if (room > left) /* one byte more than the limit shows that it is exceeded */
            room = left + 1;
        unsigned int space = room < UINT_MAX ? (unsigned int)room : UINT_MAX, given = size < UINT_MAX ? (unsigned int)size : UINT_MAX;
        stream->next_in = data;
        stream->avail_in = given;
        stream->next_out = out->bytes + out->size;
        stream->avail_out = space;
        result = inflater->zlib.inflate(stream, FINISH); /* without its own copy of the last bytes, unless the output gets full */
        unsigned int consumed = given - stream->avail_in, appended = space - stream->avail_out;
        data += consumed;
        size -= consumed;
        out->size += appended;
        moved = consumed || appended;
        if (result == MEMORY_ERROR)
            outcome = NO_MEMORY;
        else if (out->size - start > most || (result != FINISHED && (!moved || (result != MORE && result != BUFFER_ERROR))))
            outcome = TORN;
    }
    if (outcome)
        out->size = start;
    return outcome;
}

"""The host of an OpenCL folder in C99: NAME.h, NAME.c, a program that runs it, and CMakeLists.txt.

Tables say what is launched on what; the functions that walk them are the same in every folder.
"""

from __future__ import annotations

from collections.abc import Sequence

from polytc.codegen.opencl.text import safe
from polytc.export.bundle import Bundle, Place, offsets
from polytc.export.folder import Folder, described
from polytc.graph.headers import c_type

_AREAS = {"argument": "ARGUMENT", "weight": "WEIGHT", "value": "BUFFER"}


def _rendered(text: str, **values: object) -> str:
    """A template with @NAME@ in place of `{name}`, since C has braces of its own."""
    for key, value in values.items():
        text = text.replace(f"@{key}@", str(value))
    return text


def header(folder: Folder) -> str:
    """NAME.h."""
    b = folder.bundle
    listed = "\n".join(f" *   {safe(described(a))}" for a in b.arguments)
    return _rendered(_HEADER, NAME=b.name, GUARD=f"{b.name.upper()}_H", ARGUMENTS=listed, MEMS=_mems(b),
                     WEIGHTS=f" and {b.name}.weights" if b.weights else "")


def _mems(b: Bundle) -> str:
    return ", ".join(f"cl_mem {a.name}" for a in b.arguments)


def code(folder: Folder) -> str:
    """NAME.c."""
    b = folder.bundle
    starts = offsets(b.weights)
    copies = [f"{{{_place(folder, c.source)}, {c.target}, {c.bytes}u}}" for c in b.copies]
    tables = [_table("struct launch", "launches", _launches(folder), '{"", 0, 0, 0, {0}, {0}}'),
              _table("struct place", "places", _places(folder), "{0, 0}"),
              _table("size_t", "argument_bytes", [f"{a.type.bytes}u" for a in b.arguments]),
              _table("size_t", "weight_offsets", [f"{at}u" for at in starts]),
              _table("size_t", "weight_bytes", [f"{w.nbytes}u" for w in b.weights]),
              _table("size_t", "buffer_bytes", [f"{n}u" for n in folder.slots.bytes]),
              _table("struct copy", "copies", copies, "{{0, 0}, 0, 0}")]
    counts = {"ARGUMENTS": b.arguments, "WEIGHTS": b.weights, "BUFFERS": folder.slots.bytes, "LAUNCHES": folder.tasks,
              "COPIES": b.copies}
    return _rendered(_CODE, NAME=b.name, MEMS=_mems(b), TABLES="\n".join(tables),
                     COUNTS=", ".join(f"{n} = {len(rows)}" for n, rows in counts.items()),
                     GIVEN=", ".join(a.name for a in b.arguments), BUILD=folder.library.build,
                     TOO_SMALL=" || ".join(_limits(folder)))


def _limits(folder: Folder) -> list[str]:
    """Conditions under which a device cannot run the kernels."""
    found = [f"group < {folder.largest_group}u"]
    found += [f"local < {folder.largest_local}u"] if folder.largest_local else []
    return found + (["!doubles"] if folder.library.doubles else [])


def _launches(folder: Folder) -> list[str]:
    rows, first = [], 0
    for t in folder.tasks:
        sizes = [f"{{{', '.join(map(str, (*s, 1, 1)[:3]))}}}" for s in (t.launch.global_size, t.launch.local_size)]
        rows.append(f'{{"{t.launch.entry}", {first}, {len(t.places)}, {len(t.launch.global_size)}, {sizes[0]}, {sizes[1]}}}')
        first += len(t.places)
    return rows


def _places(folder: Folder) -> list[str]:
    return [f"{_place(folder, p)}" for t in folder.tasks for p in t.places]


def _place(folder: Folder, place: Place) -> str:
    return f"{{{_AREAS[place.area]}, {folder.number(place)}}}"


def _table(ctype: str, name: str, rows: Sequence[str], empty: str = "0") -> str:
    """A constant table, with the row `empty` where it would be empty, which C does not allow."""
    body = ",\n    ".join(_filled(rows or [empty]))
    return f"static const {ctype} {name}[] = {{\n    {body}\n}};"


def _filled(rows: Sequence[str]) -> list[str]:
    """Short rows several to a line."""
    lines = [""]
    for row in rows:
        if lines[-1] and len(lines[-1]) + len(row) > 100:
            lines.append("")
        lines[-1] += f", {row}" if lines[-1] else row
    return lines


def main(folder: Folder) -> str:
    """main.c."""
    b = folder.bundle
    rows = [f'{{"{a.name}", {a.type.bytes}u, {int(a.role != "output")}, {int(a.role != "input")}, '
            f"{_FORMATS.get(c_type(a.type.dtype), 'BYTES')}}}" for a in b.arguments]
    values = "".join(f", arguments[{k}]" for k in range(len(b.arguments)))
    table = _table("struct argument", "about", rows, '{"", 0, 0, 0, BYTES}')
    return _rendered(_MAIN, NAME=b.name, ROWS=table, COUNT=len(b.arguments), VALUES=values)


_FORMATS = {"float": "FLOAT", "double": "DOUBLE", "int32_t": "INT", "int64_t": "LONG"}


def cmake(name: str) -> str:
    """CMakeLists.txt."""
    return _rendered(_CMAKE, NAME=name)


_HEADER = '''\
/* @NAME@: host code for the kernels of @NAME@.cl, in C99 and OpenCL 1.2.
 *
 * Arguments, row-major without padding:
@ARGUMENTS@
 */
#ifndef @GUARD@
#define @GUARD@

#include <stddef.h>

#ifndef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 120
#endif
#ifdef __APPLE__
#include <OpenCL/opencl.h>
#else
#include <CL/cl.h>
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The built kernels, the weights and the memory between kernels. */
typedef struct @NAME@ @NAME@;

/* Results are OpenCL's error codes, which are negative, CL_SUCCESS, or one of these. */
enum {
    @NAME@_NO_SOURCE = 1,  /* @NAME@.cl cannot be read */
    @NAME@_NO_WEIGHTS = 2, /* @NAME@.weights cannot be read, or is not of these kernels */
    @NAME@_NO_MEMORY = 3,  /* of the host */
    @NAME@_TOO_SMALL = 4   /* the device lacks f64, local memory, or work-items in a group */
};

/* What a result means. */
const char *@NAME@_error(cl_int code);

/* Reads @NAME@.cl@WEIGHTS@ from a folder and builds the kernels for a device of the context, which
 * must outlive what is made. log: gets the compiler's words if it refuses; may be NULL. */
cl_int @NAME@_create(cl_context context, cl_device_id device, const char *folder, @NAME@ **made, char *log, size_t log_bytes);

/* Enqueues one run on an in-order queue. It begins when the events of wait_list are complete; done, if it is not NULL, is an
 * event that is complete when the run is, for the caller to release. Runs of one object share its memory: enqueue them on one
 * queue. Not to be called by two threads at once. */
cl_int @NAME@_enqueue(@NAME@ *self, cl_command_queue queue, @MEMS@,
                      cl_uint waits, const cl_event *wait_list, cl_event *done);

/* Frees everything; NULL is allowed. */
void @NAME@_release(@NAME@ *self);

#ifdef __cplusplus
}
#endif
#endif
'''

_CODE = '''\
/* See @NAME@.h. Made by polytc: change the tables together with @NAME@.cl and @NAME@.json. */
#include "@NAME@.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { @COUNTS@ };
enum area { ARGUMENT, WEIGHT, BUFFER };

/* What a kernel's argument is: the caller's, a weight, or a buffer between kernels. */
struct place {
    int area, number;
};

/* A kernel, the first of its `count` places, and its NDRange on `axes` axes in work-items. */
struct launch {
    const char *kernel;
    int first, count;
    cl_uint axes;
    size_t global[3], local[3];
};

/* An output that is another value, too. */
struct copy {
    struct place from;
    int to;
    size_t bytes;
};

@TABLES@

static const char build_options[] = "@BUILD@";

struct @NAME@ {
    cl_program program;
    cl_kernel kernels[LAUNCHES + 1];
    cl_mem weights[WEIGHTS + 1], buffers[BUFFERS + 1];
};

const char *@NAME@_error(cl_int code)
{
    switch (code) {
    case CL_SUCCESS: return "success";
    case @NAME@_NO_SOURCE: return "@NAME@.cl cannot be read";
    case @NAME@_NO_WEIGHTS: return "@NAME@.weights cannot be read, or is of other kernels";
    case @NAME@_NO_MEMORY: return "the host has no memory";
    case @NAME@_TOO_SMALL: return "the device lacks f64, local memory, or work-items in a group";
    case CL_BUILD_PROGRAM_FAILURE: return "the device's compiler refuses the kernels";
    case CL_MEM_OBJECT_ALLOCATION_FAILURE: return "the device has no memory";
    case CL_OUT_OF_RESOURCES: return "the device has no resources left";
    case CL_INVALID_MEM_OBJECT: return "an argument is no buffer";
    case CL_INVALID_BUFFER_SIZE: return "an argument has too few bytes";
    case CL_INVALID_QUEUE_PROPERTIES: return "the queue is not in order";
    default: return "an OpenCL call failed; its code says why";
    }
}

/* A whole file and a zero after it, or NULL. */
static char *read_file(const char *folder, const char *name, size_t *bytes)
{
    size_t length = strlen(folder) + strlen(name) + 2;
    char *path = malloc(length), *text = NULL;
    FILE *file;
    long size;
    if (!path) return NULL;
    snprintf(path, length, "%s/%s", folder, name);
    file = fopen(path, "rb");
    free(path);
    if (!file) return NULL;
    if (fseek(file, 0, SEEK_END) == 0 && (size = ftell(file)) >= 0 && fseek(file, 0, SEEK_SET) == 0) {
        text = malloc((size_t)size + 1);
        if (text && fread(text, 1, (size_t)size, file) == (size_t)size) {
            text[size] = 0;
            *bytes = (size_t)size;
        } else {
            free(text);
            text = NULL;
        }
    }
    fclose(file);
    return text;
}

static cl_int check_device(cl_device_id device)
{
    cl_device_fp_config doubles = 0;
    cl_ulong local = 0;
    size_t group = 0;
    clGetDeviceInfo(device, CL_DEVICE_DOUBLE_FP_CONFIG, sizeof doubles, &doubles, NULL);
    clGetDeviceInfo(device, CL_DEVICE_LOCAL_MEM_SIZE, sizeof local, &local, NULL);
    clGetDeviceInfo(device, CL_DEVICE_MAX_WORK_GROUP_SIZE, sizeof group, &group, NULL);
    return @TOO_SMALL@ ? @NAME@_TOO_SMALL : CL_SUCCESS;
}

static cl_int build(@NAME@ *self, cl_context context, cl_device_id device, const char *folder, char *log, size_t log_bytes)
{
    size_t bytes = 0;
    cl_int error;
    const char *text = read_file(folder, "@NAME@.cl", &bytes);
    if (!text) return @NAME@_NO_SOURCE;
    self->program = clCreateProgramWithSource(context, 1, &text, &bytes, &error);
    free((void *)text);
    if (error) return error;
    error = clBuildProgram(self->program, 1, &device, build_options, NULL, NULL);
    if (error && log && log_bytes) {
        size_t needed = 0;
        char *whole;
        clGetProgramBuildInfo(self->program, device, CL_PROGRAM_BUILD_LOG, 0, NULL, &needed);
        whole = calloc(1, needed + 1);
        if (whole) clGetProgramBuildInfo(self->program, device, CL_PROGRAM_BUILD_LOG, needed, whole, NULL);
        snprintf(log, log_bytes, "%s", whole ? whole : "");
        free(whole);
    }
    return error;
}

static cl_int make_memory(@NAME@ *self, cl_context context, const char *folder)
{
    cl_int error = CL_SUCCESS;
    size_t bytes = 0;
    char *data = WEIGHTS ? read_file(folder, "@NAME@.weights", &bytes) : NULL;
    int k;
    if (WEIGHTS && (!data || bytes != weight_offsets[WEIGHTS])) error = @NAME@_NO_WEIGHTS;
    for (k = 0; k < WEIGHTS && !error; k++)
        self->weights[k] = weight_bytes[k] ? clCreateBuffer(context, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, weight_bytes[k],
                                                            data + weight_offsets[k], &error)
                                           : clCreateBuffer(context, CL_MEM_READ_ONLY, 1, NULL, &error);
    free(data);
    for (k = 0; k < BUFFERS && !error; k++)
        self->buffers[k] = clCreateBuffer(context, CL_MEM_READ_WRITE, buffer_bytes[k], NULL, &error);
    return error;
}

/* The kernels, with those arguments that are always the same. */
static cl_int make_kernels(@NAME@ *self, cl_device_id device)
{
    cl_int error = CL_SUCCESS;
    int k, a;
    for (k = 0; k < LAUNCHES && !error; k++) {
        const struct launch *l = &launches[k];
        size_t most = 0;
        self->kernels[k] = clCreateKernel(self->program, l->kernel, &error);
        if (error) break;
        error = clGetKernelWorkGroupInfo(self->kernels[k], device, CL_KERNEL_WORK_GROUP_SIZE, sizeof most, &most, NULL);
        if (!error && most < l->local[0] * l->local[1] * l->local[2]) error = @NAME@_TOO_SMALL;
        for (a = 0; a < l->count && !error; a++) {
            const struct place *p = &places[l->first + a];
            if (p->area != ARGUMENT)
                error = clSetKernelArg(self->kernels[k], (cl_uint)a, sizeof(cl_mem),
                                       p->area == WEIGHT ? &self->weights[p->number] : &self->buffers[p->number]);
        }
    }
    return error;
}

cl_int @NAME@_create(cl_context context, cl_device_id device, const char *folder, @NAME@ **made, char *log, size_t log_bytes)
{
    @NAME@ *self = calloc(1, sizeof *self);
    cl_int error;
    if (log && log_bytes) log[0] = 0;
    *made = NULL;
    if (!self) return @NAME@_NO_MEMORY;
    error = check_device(device);
    if (!error) error = build(self, context, device, folder, log, log_bytes);
    if (!error) error = make_memory(self, context, folder);
    if (!error) error = make_kernels(self, device);
    if (error) @NAME@_release(self);
    else *made = self;
    return error;
}

static cl_int check_call(cl_command_queue queue, const cl_mem *given)
{
    cl_command_queue_properties properties = 0;
    cl_int error = clGetCommandQueueInfo(queue, CL_QUEUE_PROPERTIES, sizeof properties, &properties, NULL);
    int a;
    if (!error && (properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE)) error = CL_INVALID_QUEUE_PROPERTIES;
    for (a = 0; a < ARGUMENTS && !error; a++) {
        size_t bytes = 0;
        error = clGetMemObjectInfo(given[a], CL_MEM_SIZE, sizeof bytes, &bytes, NULL);
        if (!error && bytes < argument_bytes[a]) error = CL_INVALID_BUFFER_SIZE;
    }
    return error;
}

cl_int @NAME@_enqueue(@NAME@ *self, cl_command_queue queue, @MEMS@,
                      cl_uint waits, const cl_event *wait_list, cl_event *done)
{
    const cl_mem given[] = {@GIVEN@};
    cl_int error = check_call(queue, given);
    int k, a;
    if (!error && waits) error = clEnqueueBarrierWithWaitList(queue, waits, wait_list, NULL);
    for (k = 0; k < LAUNCHES && !error; k++) {
        const struct launch *l = &launches[k];
        for (a = 0; a < l->count && !error; a++) {
            const struct place *p = &places[l->first + a];
            if (p->area == ARGUMENT) error = clSetKernelArg(self->kernels[k], (cl_uint)a, sizeof(cl_mem), &given[p->number]);
        }
        if (!error)
            error = clEnqueueNDRangeKernel(queue, self->kernels[k], l->axes, NULL, l->global, l->local, 0, NULL, NULL);
    }
    for (k = 0; k < COPIES && !error; k++) {
        const struct copy *c = &copies[k];
        cl_mem from = c->from.area == ARGUMENT ? given[c->from.number]
                    : c->from.area == WEIGHT ? self->weights[c->from.number] : self->buffers[c->from.number];
        error = clEnqueueCopyBuffer(queue, from, given[c->to], 0, 0, c->bytes, 0, NULL, NULL);
    }
    if (!error && done) error = clEnqueueMarkerWithWaitList(queue, 0, NULL, done);
    return error;
}

void @NAME@_release(@NAME@ *self)
{
    int k;
    if (!self) return;
    for (k = 0; k < LAUNCHES; k++)
        if (self->kernels[k]) clReleaseKernel(self->kernels[k]);
    for (k = 0; k < WEIGHTS; k++)
        if (self->weights[k]) clReleaseMemObject(self->weights[k]);
    for (k = 0; k < BUFFERS; k++)
        if (self->buffers[k]) clReleaseMemObject(self->buffers[k]);
    if (self->program) clReleaseProgram(self->program);
    free(self);
}
'''

_MAIN = '''\
/* main FOLDER [FILE ...]: runs the kernels of a folder once, on the first device for which they build.
 * FILE: raw data, one for each argument in order; those of inputs are read, those of outputs are written, - is no file.
 * Inputs without a file are zeros. Prints the first elements of each output. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "@NAME@.h"

enum { COUNT = @COUNT@, DEVICES = 16 };
enum format { BYTES, FLOAT, DOUBLE, INT, LONG };

struct argument {
    const char *name;
    size_t bytes;
    int read, written;
    enum format format;
};

@ROWS@

static int fail(const char *what, const char *why)
{
    fprintf(stderr, "%s: %s\\n", what, why);
    return 1;
}

static void print(const struct argument *a, const void *data)
{
    const size_t sizes[] = {1, 4, 8, 4, 8};
    size_t k, count = a->bytes / sizes[a->format];
    printf("%s", a->name);
    for (k = 0; k < count && k < 8; k++) {
        if (a->format == FLOAT) printf(" %.9g", ((const float *)data)[k]);
        else if (a->format == DOUBLE) printf(" %.17g", ((const double *)data)[k]);
        else if (a->format == INT) printf(" %ld", (long)((const int32_t *)data)[k]);
        else if (a->format == LONG) printf(" %lld", (long long)((const int64_t *)data)[k]);
        else printf(" %u", ((const unsigned char *)data)[k]);
    }
    printf("\\n");
}

static int transfer(const char *path, const char *mode, void *data, size_t bytes)
{
    FILE *file = fopen(path, mode);
    size_t got = !file ? 0 : mode[0] == 'r' ? fread(data, 1, bytes, file) : fwrite(data, 1, bytes, file);
    if (file && fclose(file)) got = 0;
    return file && got == bytes;
}

static cl_int find(const char *folder, cl_context *context, cl_device_id *device, @NAME@ **made)
{
    cl_platform_id platforms[DEVICES];
    cl_device_id devices[DEVICES];
    cl_uint p, d, platform_count = 0, device_count;
    cl_int error = CL_DEVICE_NOT_FOUND;
    char log[4096];
    clGetPlatformIDs(DEVICES, platforms, &platform_count);
    for (p = 0; p < platform_count && p < DEVICES; p++) {
        device_count = 0;
        if (clGetDeviceIDs(platforms[p], CL_DEVICE_TYPE_ALL, DEVICES, devices, &device_count)) continue;
        for (d = 0; d < device_count && d < DEVICES; d++) {
            *device = devices[d];
            *context = clCreateContext(NULL, 1, device, NULL, NULL, &error);
            if (error) continue;
            error = @NAME@_create(*context, *device, folder, made, log, sizeof log);
            if (!error) return error;
            if (log[0]) fprintf(stderr, "%s\\n", log);
            clReleaseContext(*context);
        }
    }
    return error;
}

int main(int argc, char **argv)
{
    cl_context context;
    cl_device_id device;
    cl_command_queue queue;
    cl_event done;
    cl_int error;
    cl_mem arguments[COUNT + 1];
    char *data[COUNT + 1];
    @NAME@ *self;
    int k;
    if (argc < 2) return fail("usage", "main FOLDER [FILE ...]");
    error = find(argv[1], &context, &device, &self);
    if (error) return fail(argv[1], @NAME@_error(error));
    queue = clCreateCommandQueue(context, device, 0, &error);
    for (k = 0; k < COUNT; k++) {
        data[k] = calloc(1, about[k].bytes + 1);
        if (!data[k]) return fail(about[k].name, "no memory");
        if (about[k].read && argc > k + 2 && strcmp(argv[k + 2], "-") && !transfer(argv[k + 2], "rb", data[k], about[k].bytes))
            return fail(argv[k + 2], "cannot be read, or is too short");
        if (!error)
            arguments[k] = clCreateBuffer(context, CL_MEM_COPY_HOST_PTR, about[k].bytes + 1, data[k], &error);
    }
    if (!error) error = @NAME@_enqueue(self, queue@VALUES@, 0, NULL, &done);
    if (!error) error = clWaitForEvents(1, &done);
    for (k = 0; k < COUNT && !error; k++) {
        if (!about[k].written) continue;
        error = clEnqueueReadBuffer(queue, arguments[k], CL_TRUE, 0, about[k].bytes + 1, data[k], 0, NULL, NULL);
        if (!error) print(&about[k], data[k]);
        if (!error && argc > k + 2 && strcmp(argv[k + 2], "-") && !about[k].read
            && !transfer(argv[k + 2], "wb", data[k], about[k].bytes)) return fail(argv[k + 2], "cannot be written");
    }
    if (error) return fail("OpenCL", @NAME@_error(error));
    clReleaseEvent(done);
    for (k = 0; k < COUNT; k++) {
        clReleaseMemObject(arguments[k]);
        free(data[k]);
    }
    clReleaseCommandQueue(queue);
    @NAME@_release(self);
    clReleaseContext(context);
    return 0;
}
'''

_CMAKE = '''\
cmake_minimum_required(VERSION 3.10)
project(@NAME@ C)
set(CMAKE_C_STANDARD 99)
find_package(OpenCL REQUIRED)

add_library(@NAME@ @NAME@.c)
target_include_directories(@NAME@ PUBLIC ${CMAKE_CURRENT_SOURCE_DIR})
target_link_libraries(@NAME@ PUBLIC OpenCL::OpenCL)

add_executable(@NAME@_main main.c)
target_link_libraries(@NAME@_main @NAME@)
'''

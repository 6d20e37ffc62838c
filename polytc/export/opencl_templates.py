"""The C files of an OpenCL folder, as templates: @NAME@ and the like are filled in by opencl_host."""

from polytc.export.templates import HEADER_END

HEADER = '''\
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
    @NAME@_TOO_SMALL = 4,  /* the device lacks f64, local memory, or work-items in a group */
    @NAME@_TOO_LARGE = 5,  /* an array has more elements than the kernels count */
    @NAME@_NO_SIZES = 6,   /* the sizes are not set: @NAME@_resize has not been called, or has failed */
    @NAME@_SHARED = 7,     /* an array that is written shares memory with another argument */
    @NAME@_ONLY = 8        /* an array that is written may only be read, or the other way round */
};

/* What a result means. */
const char *@NAME@_error(cl_int code);

@BUILDS@@RESIZE@@VARIANTS@/* Bytes of argument `number`, counted from 0; 0 while the sizes are not set. */
size_t @NAME@_bytes(const @NAME@ *self, int number);

/* Enqueues one run on an in-order queue.@SIZED@ No array that is written may share memory with another. It begins when
 * the events of wait_list are complete; done, if it is not NULL, is an event that is complete when the run is, for the caller
 * to release. Runs of one object share its memory: enqueue them on one queue, and have a clone for another one. Not to be
 * called by two threads at once. */
cl_int @NAME@_enqueue(@NAME@ *self, cl_command_queue queue, @MEMS@,
                      cl_uint waits, const cl_event *wait_list, cl_event *done);

''' + HEADER_END

CODE = '''\
/* See @NAME@.h. Made by polytc: change the tables together with @NAME@.cl and @NAME@.json. */
#include "@NAME@.h"

#include "@NAME@_cl.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { @COUNTS@ };
enum area { ARGUMENT, WEIGHT, BUFFER, SIZE@COUNTER@ };

/* What a kernel's argument is: the caller's, a weight, a buffer between kernels, or a size@COUNTED@. */
struct place {
    int area, number;
};

/* A kernel, the first of its `count` places, and its work-groups on `axes` axes. */
struct launch {
    const char *kernel;
    int first, count;
    cl_uint axes;
    size_t local[3];
};

/* An output that is another value, too. */
struct copy {
    struct place from;
    int to;
    size_t bytes;
};

@TABLES@

static const char build_options[] = "@BUILD@", rounded_options[] = "@ROUNDED@";

/* The launches of variant v are those from firsts[v] up to firsts[v + 1]; it has buffer_counts[v] buffers. */
struct @NAME@ {
    int variant, forced; /* number of the variant that runs; of the one that has to, or -1 */
    cl_program program;
    cl_kernel kernels[LAUNCHES + 1];
    cl_mem weights[WEIGHTS + 1], buffers[BUFFERS + 1];
    cl_int sizes[SIZES + PRODUCTS + 1];
    int ready; /* are the sizes set, and is there memory for them? */
    cl_device_id device;
    int restored; /* from a binary? */
    unsigned char key[16];
    @NAME@_observer observer;
    void *observed; /* data of the observer's */
    size_t grids[LAUNCHES + 1][3], argument_bytes[ARGUMENTS + 1], buffer_bytes[BUFFERS + 1];
};

const char *@NAME@_error(cl_int code)
{
    switch (code) {
    case CL_SUCCESS: return "success";
    case @NAME@_NO_SOURCE: return "@NAME@.cl cannot be read";
    case @NAME@_NO_WEIGHTS: return "@NAME@.weights cannot be read, or is of other kernels";
    case @NAME@_NO_MEMORY: return "the host has no memory";
    case @NAME@_TOO_SMALL: return "the device lacks f64, local memory, or work-items in a group";
    case @NAME@_TOO_LARGE: return "an array has more elements than the kernels count";
    case @NAME@_NO_SIZES: return "the sizes are not set";
    case @NAME@_SHARED: return "an array that is written shares memory with another argument";
    case @NAME@_ONLY: return "a buffer that is written is CL_MEM_READ_ONLY, or one that is read CL_MEM_WRITE_ONLY";
    case CL_DEVICE_NOT_FOUND:
        return "there is no OpenCL device: install its driver, or a runtime for CPUs; `clinfo -l` lists what is there";
    case CL_BUILD_PROGRAM_FAILURE: return "the device's compiler refuses the kernels";
    case CL_MEM_OBJECT_ALLOCATION_FAILURE: return "the device has no memory";
    case CL_OUT_OF_RESOURCES: return "the device has no resources left";
    case CL_INVALID_MEM_OBJECT: return "an argument is no buffer";
    case CL_INVALID_CONTEXT: return "an argument or the queue is of another context";
    case CL_INVALID_BUFFER_SIZE: return "an argument has too few bytes";
    case CL_INVALID_VALUE: return "a number is out of range, such as a size below 1@BELOW@";
    case CL_INVALID_KERNEL_NAME: return "@NAME@.cl lacks a kernel: it is of another export";
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

static cl_int check_device(cl_device_id device, char *log, size_t log_bytes)
{
    cl_device_fp_config doubles = 0;
    cl_ulong local = 0;
    size_t group = 0;
    clGetDeviceInfo(device, CL_DEVICE_DOUBLE_FP_CONFIG, sizeof doubles, &doubles, NULL);
    clGetDeviceInfo(device, CL_DEVICE_LOCAL_MEM_SIZE, sizeof local, &local, NULL);
    clGetDeviceInfo(device, CL_DEVICE_MAX_WORK_GROUP_SIZE, sizeof group, &group, NULL);
    if (!(@TOO_SMALL@)) return CL_SUCCESS;
    if (log && log_bytes)
        snprintf(log, log_bytes, "the kernels need @NEEDED@; the device has groups of %lu, %lu bytes%s",
                 (unsigned long)group, (unsigned long)local, doubles ? ", f64" : ", no f64");
    return @NAME@_TOO_SMALL;
}

@BUILD_FUNCTIONS@@WEIGHTS@static cl_int read_weights(@NAME@ *self, cl_context context, const char *folder)
{
    cl_int error = CL_SUCCESS;
    size_t bytes = 0;
    char *data = WEIGHTS ? read_file(folder, "@NAME@.weights", &bytes) : NULL;
    int k;
@CHECK@    for (k = 0; k < WEIGHTS && !error; k++)
        self->weights[k] = weight_bytes[k] ? clCreateBuffer(context, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, weight_bytes[k],
                                                            data + weight_offsets[k], &error)
                                           : clCreateBuffer(context, CL_MEM_READ_ONLY, 1, NULL, &error);
    free(data);
    return error;
}

@FLOORDIV@@SATURATED@/* The NDRanges in work-items, and the bytes of arguments and buffers. */
static void measure(@NAME@ *self)
{
@MEASURE@
}

static cl_int make_buffers(@NAME@ *self, cl_context context)
{
    cl_int error = CL_SUCCESS;
    int k;
    for (k = 0; k < BUFFERS && !error; k++) {
        if (self->buffers[k]) clReleaseMemObject(self->buffers[k]);
        self->buffers[k] = NULL;
        if (k < buffer_counts[self->variant])
            self->buffers[k] = clCreateBuffer(context, CL_MEM_READ_WRITE, self->buffer_bytes[k], NULL, &error);
    }
    return error;
}

static cl_int make_kernels(@NAME@ *self, cl_device_id device)
{
    cl_int error = CL_SUCCESS;
    int k;
    for (k = 0; k < LAUNCHES && !error; k++) {
        const struct launch *l = &launches[k];
        size_t most = 0;
        self->kernels[k] = clCreateKernel(self->program, l->kernel, &error);
        if (error) break;
        error = clGetKernelWorkGroupInfo(self->kernels[k], device, CL_KERNEL_WORK_GROUP_SIZE, sizeof most, &most, NULL);
        if (!error && most < l->local[0] * l->local[1] * l->local[2]) error = @NAME@_TOO_SMALL;
    }
    return error;
}

/* Those arguments of kernels that are the same in each run. */
static cl_int set_arguments(@NAME@ *self)
{
    cl_int error = CL_SUCCESS;
    int k, a;
    for (k = firsts[self->variant]; k < firsts[self->variant + 1]; k++) {
        for (a = 0; a < launches[k].count && !error; a++) {
            const struct place *p = &places[launches[k].first + a];
            if (p->area == SIZE)
                error = clSetKernelArg(self->kernels[k], (cl_uint)a, sizeof(cl_int), &self->sizes[p->number]);
            else if (p->area == WEIGHT || p->area == BUFFER)
                error = clSetKernelArg(self->kernels[k], (cl_uint)a, sizeof(cl_mem),
                                       p->area == WEIGHT ? &self->weights[p->number] : &self->buffers[p->number]);
        }
    }
    return error;
}
@CHOICE@@RESIZE@@CREATE@
size_t @NAME@_bytes(const @NAME@ *self, int number)
{
    return self->ready && number >= 0 && number < ARGUMENTS ? self->argument_bytes[number] : 0;
}

/* Where the bytes of a buffer begin: in itself, or in the buffer that it is a part of. */
struct block {
    cl_mem memory;
    size_t first;
};

/* The block of a buffer of this context that has enough bytes, and none of the flags. */
static cl_int check_buffer(cl_mem given, cl_context context, size_t needed, cl_mem_flags refused, struct block *found)
{
    size_t bytes = 0;
    cl_mem_flags flags = 0, of_whole = 0;
    cl_context own = NULL;
    cl_mem whole = NULL;
    cl_int error = clGetMemObjectInfo(given, CL_MEM_SIZE, sizeof bytes, &bytes, NULL);
    if (!error) error = clGetMemObjectInfo(given, CL_MEM_CONTEXT, sizeof own, &own, NULL);
    if (!error) error = clGetMemObjectInfo(given, CL_MEM_ASSOCIATED_MEMOBJECT, sizeof whole, &whole, NULL);
    if (!error) error = clGetMemObjectInfo(given, CL_MEM_OFFSET, sizeof found->first, &found->first, NULL);
    if (!error) error = clGetMemObjectInfo(given, CL_MEM_FLAGS, sizeof flags, &flags, NULL);
    if (!error && whole) error = clGetMemObjectInfo(whole, CL_MEM_FLAGS, sizeof of_whole, &of_whole, NULL);
    found->memory = whole ? whole : given;
    if (!error && (flags | of_whole) & refused) error = @NAME@_ONLY;
    if (!error && own != context) error = CL_INVALID_CONTEXT;
    return !error && bytes < needed ? CL_INVALID_BUFFER_SIZE : error;
}

static cl_int check_call(const @NAME@ *self, cl_command_queue queue, const cl_mem *given)
{
    cl_command_queue_properties properties = 0;
    cl_context context = NULL, own = NULL;
    struct block blocks[ARGUMENTS + 1];
    cl_int error = clGetCommandQueueInfo(queue, CL_QUEUE_PROPERTIES, sizeof properties, &properties, NULL);
    int a, b;
    if (!self->ready) return @NAME@_NO_SIZES;
    if (!error) error = clGetCommandQueueInfo(queue, CL_QUEUE_CONTEXT, sizeof context, &context, NULL);
    if (!error) error = clGetProgramInfo(self->program, CL_PROGRAM_CONTEXT, sizeof own, &own, NULL);
    if (!error && own != context) error = CL_INVALID_CONTEXT;
    if (!error && (properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE)) error = CL_INVALID_QUEUE_PROPERTIES;
    for (a = 0; a < ARGUMENTS && !error; a++) {
        cl_mem_flags refused = (written[a] ? CL_MEM_READ_ONLY : 0) | (given_values[a] ? CL_MEM_WRITE_ONLY : 0);
        error = check_buffer(given[a], context, self->argument_bytes[a], refused, &blocks[a]);
        for (b = 0; b < a && !error; b++)
            if ((written[a] || written[b]) && blocks[a].memory == blocks[b].memory
                && blocks[a].first < blocks[b].first + self->argument_bytes[b]
                && blocks[b].first < blocks[a].first + self->argument_bytes[a]) error = @NAME@_SHARED;
    }
    return error;
}

@START@@RUN@cl_int @NAME@_enqueue(@NAME@ *self, cl_command_queue queue, @MEMS@,
                      cl_uint waits, const cl_event *wait_list, cl_event *done)
{
    const cl_mem given[] = {@GIVEN@};
    cl_int error = check_call(self, queue, given);
    int k, a;
    if (!error && waits) error = clEnqueueBarrierWithWaitList(queue, waits, wait_list, NULL);
    for (k = firsts[self->variant]; k < firsts[self->variant + 1] && !error; k++) {
        const struct launch *l = &launches[k];
        for (a = 0; a < l->count && !error; a++) {
            const struct place *p = &places[l->first + a];
            if (p->area == ARGUMENT) error = clSetKernelArg(self->kernels[k], (cl_uint)a, sizeof(cl_mem), &given[p->number]);
        }
@ENQUEUE@    for (k = 0; k < COPIES && !error; k++) {
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

CHECK = "    if (!data || !are_weights(data, bytes)) error = @NAME@_NO_WEIGHTS;\n"

CHOOSE = '''\
    self->variant = @NAME@_variant(self, @GIVEN@);
    if (self->variant < 0) {
        self->variant = 0;
        return self->forced < 0 ? @NAME@_TOO_LARGE : CL_INVALID_VALUE;
    }
'''

RESIZE_DECLARED = '''\
/* Sets the sizes of the runs that follow, each at least 1, and makes memory for them; none are set if it fails.
 * Not while a run is under way. */
cl_int @NAME@_resize(@NAME@ *self, @INTS@);

'''

RESIZE = '''
cl_int @NAME@_resize(@NAME@ *self, @INTS@)
{
    const cl_int sizes[] = {@GIVEN@};
    cl_context context;
    cl_int error = clGetProgramInfo(self->program, CL_PROGRAM_CONTEXT, sizeof context, &context, NULL);
    int k;
    self->ready = 0;
    for (k = 0; k < SIZES; k++)
        if (sizes[k] < 1) return CL_INVALID_VALUE;
@LIMITS@@CHOOSE@    memcpy(self->sizes, sizes, sizeof sizes);
    measure(self);
    for (k = 0; k < ARGUMENTS + buffer_counts[self->variant]; k++) {
        size_t bytes = k < ARGUMENTS ? self->argument_bytes[k] : self->buffer_bytes[k - ARGUMENTS];
        size_t each = element_bytes[k < ARGUMENTS ? k : k + self->variant * BUFFERS];
        if (bytes / each > @LARGEST@u) return @NAME@_TOO_LARGE;
    }
    if (!error) error = make_buffers(self, context);
    if (!error) error = set_arguments(self);
    self->ready = !error;
    return error;
}
'''

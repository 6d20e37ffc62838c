"""The part of an OpenCL host in C that builds programs: from the text in a folder, the text in the host, or a binary; as
templates that opencl_host fills in."""

from __future__ import annotations

import json

from polytc.export.templates import rendered

DECLARED = '''\
/* Builds the kernels for a device of the context, which must outlive what is made. folder: has @NAME@.cl@WEIGHTS@; NULL:
 * the kernels are those that this library was compiled with@UNREAD@. log: gets the compiler's words if it refuses, or what the
 * device lacks; may be NULL. */
cl_int @NAME@_create(cl_context context, cl_device_id device, const char *folder, @NAME@ **made, char *log, size_t log_bytes);

/* As @NAME@_create, from the bytes that @NAME@_save gave; from the text where these are of another text, device or driver, or
 * NULL. So a later process need not compile. */
cl_int @NAME@_restore(cl_context context, cl_device_id device, const char *folder, const unsigned char *binary, size_t bytes,
                      @NAME@ **made, char *log, size_t log_bytes);

/* Was it made from a binary? */
int @NAME@_is_restored(const @NAME@ *self);

/* The device's code. bytes: how many there is room for at `binary`, which may be NULL; then how many there are. */
cl_int @NAME@_save(const @NAME@ *self, unsigned char *binary, size_t *bytes);

/* Another object with the same code@SHARED@, and kernels and memory of its own: one for each queue whose runs are to
 * overlap, and for each thread.@CLONED@ */
cl_int @NAME@_clone(const @NAME@ *self, @NAME@ **made);

/* Is called with each launch of a kernel, whose event it has to release: on a queue with CL_QUEUE_PROFILING_ENABLE it says when
 * the kernel ran. */
typedef void (*@NAME@_observer)(void *data, const char *kernel, cl_event event);

/* Has all launches from now on observed; NULL: none. */
void @NAME@_observe(@NAME@ *self, @NAME@_observer observer, void *data);

'''

FUNCTIONS = '''\
enum { KEY = 16 }; /* bytes before a binary */

static const char key_begin[] = "polytc 1";

static void mix(uint64_t *hash, const char *text)
{
    for (; *text; text++) *hash = (*hash ^ (unsigned char)*text) * UINT64_C(1099511628211);
}

/* What a binary is for: this text, these options, this device and its driver. */
static void identify(@NAME@ *self, const char *const *lines, cl_uint count, const char *options)
{
    uint64_t hash = UINT64_C(14695981039346656037);
    const cl_device_info asked[] = {CL_DEVICE_NAME, CL_DEVICE_VERSION, CL_DRIVER_VERSION};
    char told[256];
    cl_uint k;
    for (k = 0; k < count; k++) mix(&hash, lines[k]);
    mix(&hash, options);
    for (k = 0; k < 3; k++) {
        memset(told, 0, sizeof told);
        clGetDeviceInfo(self->device, asked[k], sizeof told - 1, told, NULL);
        mix(&hash, told);
    }
    memcpy(self->key, key_begin, 8);
    memcpy(self->key + 8, &hash, 8);
}

static cl_int compile(@NAME@ *self, const char *options, char *log, size_t log_bytes)
{
    cl_int error = clBuildProgram(self->program, 1, &self->device, options, NULL, NULL);
    if (error && log && log_bytes) {
        size_t needed = 0;
        char *whole;
        clGetProgramBuildInfo(self->program, self->device, CL_PROGRAM_BUILD_LOG, 0, NULL, &needed);
        whole = calloc(1, needed + 1);
        if (whole) clGetProgramBuildInfo(self->program, self->device, CL_PROGRAM_BUILD_LOG, needed, whole, NULL);
        snprintf(log, log_bytes, "%s", whole ? whole : "");
        free(whole);
    }
    return error;
}

/* The program of a binary, if it is one for this text and device. */
static void load(@NAME@ *self, cl_context context, const char *options, const unsigned char *binary, size_t bytes)
{
    const unsigned char *code = binary + KEY;
    size_t length = bytes - KEY;
    cl_int status, error;
    if (!binary || bytes <= KEY || memcmp(binary, self->key, KEY)) return;
    self->program = clCreateProgramWithBinary(context, 1, &self->device, &length, &code, &status, &error);
    if (error) self->program = NULL;
    if (!error && compile(self, options, NULL, 0)) {
        clReleaseProgram(self->program);
        self->program = NULL;
    }
    self->restored = self->program != NULL;
}

static cl_int build(@NAME@ *self, cl_context context, const char *folder, const unsigned char *binary, size_t length, char *log,
                    size_t log_bytes)
{
    size_t bytes = 0;
    cl_device_fp_config singles = 0;
    cl_int error = CL_SUCCESS;
    const char *options, *text = folder ? read_file(folder, "@NAME@.cl", &bytes) : NULL;
    const char *const *lines = text ? &text : kernel_text;
    cl_uint count = text ? 1 : (cl_uint)(sizeof kernel_text / sizeof kernel_text[0]);
    if (folder && !text) return @NAME@_NO_SOURCE;
    clGetDeviceInfo(self->device, CL_DEVICE_SINGLE_FP_CONFIG, sizeof singles, &singles, NULL);
    options = singles & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT ? rounded_options : build_options;
    identify(self, lines, count, options);
    load(self, context, options, binary, length);
    if (!self->program) {
        self->program = clCreateProgramWithSource(context, count, (const char **)lines, NULL, &error);
        if (!error) error = compile(self, options, log, log_bytes);
    }
    free((void *)text);
    return error;
}

'''

CREATE = '''
cl_int @NAME@_restore(cl_context context, cl_device_id device, const char *folder, const unsigned char *binary, size_t bytes,
                      @NAME@ **made, char *log, size_t log_bytes)
{
    @NAME@ *self = calloc(1, sizeof *self);
    cl_int error;
    if (log && log_bytes) log[0] = 0;
    *made = NULL;
    if (!self) return @NAME@_NO_MEMORY;
    self->device = device;
    self->forced = -1;
    error = check_device(device, log, log_bytes);
    if (!error) error = build(self, context, folder, binary, bytes, log, log_bytes);
    if (!error) error = read_weights(self, context, folder);
    if (!error) error = make_kernels(self, device);
@PREPARE@    if (error) @NAME@_release(self);
    else *made = self;
    return error;
}

cl_int @NAME@_create(cl_context context, cl_device_id device, const char *folder, @NAME@ **made, char *log, size_t log_bytes)
{
    return @NAME@_restore(context, device, folder, NULL, 0, made, log, log_bytes);
}

cl_int @NAME@_clone(const @NAME@ *other, @NAME@ **made)
{
    @NAME@ *self = calloc(1, sizeof *self);
    cl_context context;
    cl_int error;
    int k;
    *made = NULL;
    if (!self) return @NAME@_NO_MEMORY;
    self->device = other->device;
    self->forced = other->forced;
    self->program = other->program;
    self->restored = other->restored;
    memcpy(self->key, other->key, sizeof self->key);
    clRetainProgram(self->program);
    for (k = 0; k < WEIGHTS; k++) {
        self->weights[k] = other->weights[k];
        clRetainMemObject(self->weights[k]);
    }
    error = clGetProgramInfo(self->program, CL_PROGRAM_CONTEXT, sizeof context, &context, NULL);
    if (!error) error = make_kernels(self, self->device);
@PREPARE@    if (error) @NAME@_release(self);
    else *made = self;
    return error;
}

int @NAME@_is_restored(const @NAME@ *self)
{
    return self->restored;
}

cl_int @NAME@_save(const @NAME@ *self, unsigned char *binary, size_t *bytes)
{
    size_t length = 0, room = *bytes;
    unsigned char *code = binary + KEY;
    cl_int error = clGetProgramInfo(self->program, CL_PROGRAM_BINARY_SIZES, sizeof length, &length, NULL);
    *bytes = length + KEY;
    if (error || !binary) return error;
    if (room < *bytes) return CL_INVALID_BUFFER_SIZE;
    memcpy(binary, self->key, KEY);
    return clGetProgramInfo(self->program, CL_PROGRAM_BINARIES, sizeof code, &code, NULL);
}

void @NAME@_observe(@NAME@ *self, @NAME@_observer observer, void *data)
{
    self->observer = observer;
    self->observed = data;
}
'''

START = '''\
/* Enqueues a kernel whose arguments are set, unless it has no groups. */
static cl_int start(@NAME@ *self, cl_command_queue queue, int k)
{
    cl_event event = NULL;
    cl_int error;
    if (!self->grids[k][0] || !self->grids[k][1] || !self->grids[k][2]) return CL_SUCCESS;
    error = clEnqueueNDRangeKernel(queue, self->kernels[k], launches[k].axes, NULL, self->grids[k], launches[k].local, 0, NULL,
                                   self->observer ? &event : NULL);
    if (!error && self->observer) self->observer(self->observed, launches[k].kernel, event);
    return error;
}

'''


def embedded(name: str, text: str) -> str:
    """NAME_cl.h: the kernels as strings, a line each."""
    lines = ",\n    ".join(json.dumps(f"{line}\n") for line in text.splitlines())
    return rendered("/* The text of @NAME@.cl, for @NAME@.c. */\nstatic const char *const kernel_text[] = {\n    @LINES@\n};\n",
                    NAME=name, LINES=lines)

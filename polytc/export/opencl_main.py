"""The program that runs an OpenCL folder, and what is its own in CMakeLists.txt, as templates."""

MAIN = '''\
/* main FOLDER@USAGE@ [FILE ...]: runs the kernels of a folder once, on the first device for which they build.
@COMMON@
static int refused(const char *what, cl_int error)
{
    fprintf(stderr, "%s: %s (code %d)\\n", what, @NAME@_error(error), (int)error);
    return 1;
}

static cl_int find(const char *folder, cl_context *context, cl_device_id *device, @NAME@ **made)
{
    cl_platform_id platforms[DEVICES];
    cl_device_id devices[DEVICES];
    cl_uint p, d, platform_count = 0, device_count;
    cl_int error = CL_DEVICE_NOT_FOUND;
    char log[4096] = "";
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
    if (misused(argc, argv)) return 1;
    error = find(argv[1], &context, &device, &self);
    if (error) return refused(argv[1], error);
    queue = clCreateCommandQueue(context, device, 0, &error);
@RESIZE@    for (k = 0; k < COUNT && !error; k++) {
        size_t bytes = @NAME@_bytes(self, k);
        data[k] = loaded(&about[k], file_of(argc, argv, k), bytes);
        if (!data[k]) return 1;
        arguments[k] = clCreateBuffer(context, CL_MEM_COPY_HOST_PTR, bytes + 1, data[k], &error);
    }
    if (!error) error = @NAME@_enqueue(self, queue@VALUES@, 0, NULL, &done);
    if (!error) error = clWaitForEvents(1, &done);
    for (k = 0; k < COUNT && !error; k++) {
        size_t bytes = @NAME@_bytes(self, k);
        if (!about[k].written) continue;
        error = clEnqueueReadBuffer(queue, arguments[k], CL_TRUE, 0, bytes + 1, data[k], 0, NULL, NULL);
        if (!error && stored(&about[k], file_of(argc, argv, k), data[k], bytes)) return 1;
    }
    if (error) return refused("OpenCL", error);
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

FIND = "find_package(OpenCL REQUIRED)\n"

LINK = "target_link_libraries(@NAME@ PUBLIC OpenCL::OpenCL)\n"

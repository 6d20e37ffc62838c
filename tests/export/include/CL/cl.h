/* What exported hosts use of OpenCL 1.2, declared for tests where no package has its header; see the OpenCL 1.2 Specification. */
#ifndef CL_H
#define CL_H
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

typedef int32_t cl_int;
typedef uint32_t cl_uint, cl_bool;
typedef uint64_t cl_ulong, cl_bitfield;
typedef cl_bitfield cl_command_queue_properties, cl_device_fp_config, cl_device_type, cl_mem_flags;
typedef cl_uint cl_device_info, cl_mem_info, cl_program_info, cl_program_build_info, cl_kernel_work_group_info, cl_command_queue_info;
typedef struct _cl_platform_id *cl_platform_id;
typedef struct _cl_device_id *cl_device_id;
typedef struct _cl_context *cl_context;
typedef struct _cl_command_queue *cl_command_queue;
typedef struct _cl_mem *cl_mem;
typedef struct _cl_program *cl_program;
typedef struct _cl_kernel *cl_kernel;
typedef struct _cl_event *cl_event;
typedef intptr_t cl_context_properties;

#define CL_BUILD_PROGRAM_FAILURE -11
#define CL_DEVICE_DOUBLE_FP_CONFIG 0x1032
#define CL_DEVICE_LOCAL_MEM_SIZE 0x1023
#define CL_DEVICE_MAX_WORK_GROUP_SIZE 0x1004
#define CL_DEVICE_NAME 0x102B
#define CL_DEVICE_NOT_FOUND -1
#define CL_DEVICE_SINGLE_FP_CONFIG 0x101B
#define CL_DEVICE_TYPE_ALL 0xFFFFFFFF
#define CL_DEVICE_VERSION 0x102F
#define CL_DRIVER_VERSION 0x102D
#define CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT (1 << 7)
#define CL_INVALID_BUFFER_SIZE -61
#define CL_INVALID_CONTEXT -34
#define CL_INVALID_KERNEL_NAME -46
#define CL_INVALID_MEM_OBJECT -38
#define CL_INVALID_QUEUE_PROPERTIES -35
#define CL_INVALID_VALUE -30
#define CL_KERNEL_WORK_GROUP_SIZE 0x11B0
#define CL_MEM_ASSOCIATED_MEMOBJECT 0x1107
#define CL_MEM_CONTEXT 0x1106
#define CL_MEM_COPY_HOST_PTR (1 << 5)
#define CL_MEM_FLAGS 0x1101
#define CL_MEM_OBJECT_ALLOCATION_FAILURE -4
#define CL_MEM_OFFSET 0x1108
#define CL_MEM_READ_ONLY (1 << 2)
#define CL_MEM_READ_WRITE (1 << 0)
#define CL_MEM_SIZE 0x1102
#define CL_MEM_WRITE_ONLY (1 << 1)
#define CL_OUT_OF_RESOURCES -5
#define CL_PROGRAM_BINARIES 0x1166
#define CL_PROGRAM_BINARY_SIZES 0x1165
#define CL_PROGRAM_BUILD_LOG 0x1183
#define CL_PROGRAM_CONTEXT 0x1161
#define CL_QUEUE_CONTEXT 0x1090
#define CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE (1 << 0)
#define CL_QUEUE_PROPERTIES 0x1093
#define CL_SUCCESS 0
#define CL_TRUE 1

cl_int clGetPlatformIDs(cl_uint, cl_platform_id *, cl_uint *);
cl_int clGetDeviceIDs(cl_platform_id, cl_device_type, cl_uint, cl_device_id *, cl_uint *);
cl_int clGetDeviceInfo(cl_device_id, cl_device_info, size_t, void *, size_t *);
cl_context clCreateContext(const cl_context_properties *, cl_uint, const cl_device_id *,
                           void (*)(const char *, const void *, size_t, void *), void *, cl_int *);
cl_int clReleaseContext(cl_context);
cl_command_queue clCreateCommandQueue(cl_context, cl_device_id, cl_command_queue_properties, cl_int *);
cl_int clGetCommandQueueInfo(cl_command_queue, cl_command_queue_info, size_t, void *, size_t *);
cl_int clReleaseCommandQueue(cl_command_queue);
cl_mem clCreateBuffer(cl_context, cl_mem_flags, size_t, void *, cl_int *);
cl_int clGetMemObjectInfo(cl_mem, cl_mem_info, size_t, void *, size_t *);
cl_int clRetainMemObject(cl_mem);
cl_int clReleaseMemObject(cl_mem);
cl_program clCreateProgramWithSource(cl_context, cl_uint, const char **, const size_t *, cl_int *);
cl_program clCreateProgramWithBinary(cl_context, cl_uint, const cl_device_id *, const size_t *, const unsigned char **, cl_int *,
                                     cl_int *);
cl_int clBuildProgram(cl_program, cl_uint, const cl_device_id *, const char *, void (*)(cl_program, void *), void *);
cl_int clGetProgramInfo(cl_program, cl_program_info, size_t, void *, size_t *);
cl_int clGetProgramBuildInfo(cl_program, cl_device_id, cl_program_build_info, size_t, void *, size_t *);
cl_int clRetainProgram(cl_program);
cl_int clReleaseProgram(cl_program);
cl_kernel clCreateKernel(cl_program, const char *, cl_int *);
cl_int clSetKernelArg(cl_kernel, cl_uint, size_t, const void *);
cl_int clGetKernelWorkGroupInfo(cl_kernel, cl_device_id, cl_kernel_work_group_info, size_t, void *, size_t *);
cl_int clReleaseKernel(cl_kernel);
cl_int clEnqueueNDRangeKernel(cl_command_queue, cl_kernel, cl_uint, const size_t *, const size_t *, const size_t *, cl_uint,
                              const cl_event *, cl_event *);
cl_int clEnqueueCopyBuffer(cl_command_queue, cl_mem, cl_mem, size_t, size_t, size_t, cl_uint, const cl_event *, cl_event *);
cl_int clEnqueueReadBuffer(cl_command_queue, cl_mem, cl_bool, size_t, size_t, void *, cl_uint, const cl_event *, cl_event *);
cl_int clEnqueueBarrierWithWaitList(cl_command_queue, cl_uint, const cl_event *, cl_event *);
cl_int clEnqueueMarkerWithWaitList(cl_command_queue, cl_uint, const cl_event *, cl_event *);
cl_int clWaitForEvents(cl_uint, const cl_event *);
cl_int clReleaseEvent(cl_event);

#ifdef __cplusplus
}
#endif
#endif

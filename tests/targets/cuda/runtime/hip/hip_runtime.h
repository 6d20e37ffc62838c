/* HIP's names of the same calls. */
#pragma GCC system_header
#include "../cuda_runtime.h"

#define hipError_t cudaError_t
#define hipStream_t cudaStream_t
#define hipSuccess cudaSuccess
#define hipMemcpyHostToDevice cudaMemcpyHostToDevice
#define hipMemcpyDeviceToHost cudaMemcpyDeviceToHost
#define hipMemcpyDeviceToDevice cudaMemcpyDeviceToDevice
#define hipMalloc cudaMalloc
#define hipFree cudaFree
#define hipMemcpy cudaMemcpy
#define hipMemcpyAsync cudaMemcpyAsync
#define hipStreamSynchronize cudaStreamSynchronize
#define hipGetErrorString cudaGetErrorString
#define hipLaunchKernel cudaLaunchKernel
#define hipPointerAttribute_t cudaPointerAttributes
#define hipGetDevice cudaGetDevice
#define hipPointerGetAttributes cudaPointerGetAttributes
#define hipGetLastError cudaGetLastError

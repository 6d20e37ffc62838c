"""The target CUDA: C for NVIDIA's GPUs, which HIP takes for AMD's, too."""

"""OpenCL C for an operator, made without any device: text to ship, and how to launch it."""

import polytc

lowered = polytc.lower("C[i,j] += A[i,k] * B[k,j]", target="opencl", shapes={"A": (1024, 256), "B": (256, 512)})
print(lowered.source)
for launch in lowered.source.launches:
    print(launch.entry, "arguments", launch.args, "global size", launch.global_size, "local size", launch.local_size)

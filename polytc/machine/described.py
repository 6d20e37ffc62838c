"""Machines that are described: for tests, and for code that is made without the machine."""

from __future__ import annotations

from polytc.machine.records import Cache, Machine

GENERIC_CPU = Machine("cpu", 16, 16, 4, 2, (Cache(32 << 10, 8, 64), Cache(256 << 10, 8, 64)), 1)
AVX2 = Machine("cpu", 32, 16, 4, 2, (Cache(32 << 10, 8, 64), Cache(512 << 10, 8, 64), Cache(16 << 20, 16, 64)), 2)
AVX512 = Machine("cpu", 64, 32, 4, 2, (Cache(48 << 10, 12, 64), Cache(1 << 20, 16, 64), Cache(32 << 20, 16, 64)), 2,
                 masked=True)
NEON = Machine("cpu", 16, 32, 4, 2, (Cache(64 << 10, 4, 64), Cache(1 << 20, 8, 64)), 4, features="+neon")
SVE = Machine("cpu", 32, 32, 4, 2, (Cache(64 << 10, 4, 64), Cache(1 << 20, 8, 64), Cache(32 << 20, 16, 64)), 4,
              masked=True, cpu="neoverse-v1", features="+neon,+sve")
GENERIC_GPU = Machine("gpu", 16, 128, 4, 1, (Cache(32 << 10, 4, 128), Cache(4 << 20, 16, 128)), 32,
                      max_work_group=256, local_bytes=32 << 10, warp=32, item_registers=128, fast_local_memory=True)
"""Descriptions for tests and for generating code without the machine."""


def _gpu(cores: int, warp: int, local: int, group: int, line: int, l2: int, *, registers: int = 128,
         fast_local_memory: bool = True, unit_local: int = 0) -> Machine:
    """A GPU: compute units, work-items in lockstep, bytes of local memory of a group, items of a group, bytes of a cache line
    and of the second cache, and of local memory of a compute unit."""
    return Machine("gpu", 16, registers, 4, 1, (Cache(32 << 10, 4, line), Cache(l2, 16, line)), cores, max_work_group=group,
                   local_bytes=local, warp=warp, item_registers=registers, fast_local_memory=fast_local_memory,
                   unit_local_bytes=unit_local)


DEVICES = {
    "generic-gpu": GENERIC_GPU,
    "nvidia-sm90": _gpu(132, 32, 48 << 10, 1024, 128, 50 << 20, unit_local=228 << 10),
    "nvidia-sm80": _gpu(108, 32, 48 << 10, 1024, 128, 40 << 20, unit_local=164 << 10),
    "nvidia-sm86": _gpu(68, 32, 48 << 10, 1024, 128, 5 << 20, unit_local=100 << 10),
    "nvidia-sm89": _gpu(128, 32, 48 << 10, 1024, 128, 72 << 20, unit_local=100 << 10),
    "amd-gfx90a": _gpu(104, 64, 64 << 10, 1024, 128, 8 << 20),
    "amd-gfx1030": _gpu(72, 32, 64 << 10, 1024, 128, 4 << 20),
    "amd-gfx1100": _gpu(96, 32, 64 << 10, 1024, 128, 6 << 20),
    "apple-m1": _gpu(8, 32, 32 << 10, 1024, 128, 8 << 20),
    "intel-xe": _gpu(32, 16, 64 << 10, 1024, 64, 16 << 20, fast_local_memory=False),
    "mali": _gpu(10, 16, 32 << 10, 512, 64, 2 << 20, registers=64, fast_local_memory=False),
    "adreno": _gpu(6, 64, 32 << 10, 1024, 64, 1 << 20, registers=64),
    "pocl-cpu": Machine("cpu", 64, 32, 4, 2, AVX512.caches, 2, max_work_group=4096, local_bytes=1 << 20),
}
"""Devices by name, for code that is made without them. Sources: NVIDIA's H100 white paper (132 SMs; 48 KiB of static shared
memory a block) and CUDA programming guide (shared memory of a multiprocessor), those of the A100 (108 SMs, 40 MB of second
cache), of the GA102 (the GeForce RTX 3080: 68 SMs, 5 MB) and of Ada (the GeForce RTX 4090: 128 SMs, 72 MB); AMD's CDNA 2
white paper (104 of 110 compute units of one die, wavefronts of 64, 64 KiB LDS), its RDNA white paper and ISA guides (the
Radeon RX 6800 XT, gfx1030: 72 compute units, wavefronts of 32, 64 KiB LDS a group, 4 MB; the RX 7900 XTX, gfx1100: 96
compute units, 6 MB); Apple's Metal feature set tables (the M1: SIMD groups of 32, 1024 threads and 32 KiB a threadgroup; 8
cores; its second cache and line are guesses); Intel's and Arm's programming guides (Xe cores with sub-groups of 16; Mali
keeps local memory in the caches). On Xe and Mali the tuned kernels of CLBlast's database read operands from the caches, so
that nothing is copied to local memory there."""

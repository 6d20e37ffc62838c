"""Machines that are described: for tests, and for code that is made without the machine."""

from __future__ import annotations

from dataclasses import replace

from polytc.machine.records import Cache, Machine, MatrixUnit

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


SAME_SIGNS, EITHER_SIGN = ("dot_i8i8", "dot_u8u8"), ("dot_i8i8", "dot_u8u8", "dot_u8i8")
"""Dot products of bytes that devices have instructions for, see Machine.word_dots."""


def _gpu(cores: int, warp: int, local: int, group: int, line: int, l2: int, *, registers: int = 128,
         fast_local_memory: bool = True) -> Machine:
    """A GPU: compute units, work-items in lockstep, bytes of local memory of a group, items of a group, bytes of a cache line
    and of the second cache."""
    return Machine("gpu", 16, registers, 4, 1, (Cache(32 << 10, 4, line), Cache(l2, 16, line)), cores, max_work_group=group,
                   local_bytes=local, warp=warp, item_registers=registers, fast_local_memory=fast_local_memory)


def _amd(cores: int, warp: int, l2: int, dots: tuple[str, ...], double: float) -> Machine:
    """A GPU of AMD: compute units, items of a wavefront, bytes of the second cache, see Machine.word_dots and
    costs.groups.double."""
    hoisted = "measured: clang 14 takes 256 registers for 64 sums and 16 steps of 16 operands at once, 126 for 4 steps"
    lanes = "documented: AMD, CDNA 2 and RDNA instruction sets: 64 lanes of a compute unit start a multiply-add in a cycle"
    dot = "documented: AMD, CDNA 2 and RDNA 2 instruction sets: v_dot4 at the rate of multiply-adds of f32"
    rate = "documented: AMD, CDNA 2 white paper: f64 at the rate of f32; RDNA instruction sets: at a sixteenth"
    integer = "guess: products of bytes are v_mad_i32_i24, at the rate of multiply-adds of f32"
    waiting = ("documented: HIP, programming model: a group stays on its compute unit until it ends; LLVM, User Guide for "
               "AMDGPU, memory model: volatile accesses pass the caches of a unit")
    made = _gpu(cores, warp, 64 << 10, 1024, 128, l2).costing({"groups.hoisted": 1.0, "groups.lanes": 64, "groups.dot": 1.0,
                                                              "groups.integer": 1.0, "groups.double": double})
    return replace(made, word_dots=dots, waiting_groups=True, origins=(
        ("waiting_groups", waiting), ("costs.groups.hoisted", hoisted), ("costs.groups.lanes", lanes),
        ("costs.groups.dot", dot), ("costs.groups.integer", integer), ("costs.groups.double", rate)))


def _xe() -> Machine:
    """A GPU of Intel with Xe cores."""
    dot = "documented: Intel, Xe-HPG architecture: 16 operations of f32 and 64 of bytes (dp4a) of a vector engine in a cycle"
    made = _gpu(32, 16, 64 << 10, 1024, 64, 16 << 20, fast_local_memory=False).costing({"groups.dot": 1.0})
    return replace(made, word_dots=EITHER_SIGN, origins=(("costs.groups.dot", dot),))


def _nvidia(cores: int, l2: int, unit: int, faster: tuple[float, float], clock: float, double: float = 2.0) -> Machine:
    """A GPU of NVIDIA from compute capability 8.0 on: multiprocessors, bytes of its second cache and of the shared memory of a
    multiprocessor, see MatrixUnit of halves and of bytes, cycles a second, see costs.groups.double."""
    matrix_unit = MatrixUnit(16, 8, 16, ("f16", "bf16"), *faster)
    made = _gpu(cores, 32, 48 << 10, 1024, 128, l2).costing({"groups.double": double})
    rate = "documented: NVIDIA, CUDA C++ Programming Guide, arithmetic throughput: 2 of f64, 128 of f32 of 8.6 and 8.9"
    waiting = ("documented: CUDA C++ Programming Guide, execution model: a thread that has begun goes on (weakly parallel "
               "forward progress); PTX ISA, memory consistency model: volatile accesses are relaxed")
    origins = (("waiting_groups", waiting), *((("costs.groups.double", rate),) if double != 2.0 else ()))
    return replace(made, unit_local_bytes=unit, matrix_unit=matrix_unit, word_dots=EITHER_SIGN, clock=clock,
                   waiting_groups=True, origins=origins)


DEVICES = {
    "generic-gpu": GENERIC_GPU,
    "nvidia-sm90": _nvidia(132, 50 << 20, 228 << 10, (9.6, 19.2), 1.98e9),
    "nvidia-sm80": _nvidia(108, 40 << 20, 164 << 10, (16.0, 32.0), 1.41e9),
    "nvidia-sm86": _nvidia(68, 5 << 20, 100 << 10, (2.0, 8.0), 1.71e9, 64.0),
    "nvidia-sm89": _nvidia(128, 72 << 20, 100 << 10, (2.0, 8.0), 2.52e9, 64.0),
    "amd-gfx90a": _amd(104, 64, 8 << 20, SAME_SIGNS, 1.0),
    "amd-gfx1030": _amd(72, 32, 4 << 20, SAME_SIGNS, 16.0),
    "amd-gfx1100": _amd(96, 32, 6 << 20, EITHER_SIGN, 16.0),
    "apple-m1": _gpu(8, 32, 32 << 10, 1024, 128, 8 << 20),
    "intel-xe": _xe(),
    "mali": _gpu(10, 16, 32 << 10, 512, 64, 2 << 20, registers=64, fast_local_memory=False),
    "adreno": _gpu(6, 64, 32 << 10, 1024, 64, 1 << 20, registers=64),
    "pocl-cpu": Machine("cpu", 64, 32, 4, 2, AVX512.caches, 2, max_work_group=4096, local_bytes=1 << 20),
}
"""Devices by name, for code that is made without them. Sources: NVIDIA's H100 white paper (132 SMs; 48 KiB of static
shared memory a block), those of the A100 (108 SMs, 40 MB of second cache), of the GA102 (the GeForce RTX 3080: 68 SMs, 5 MB)
and of Ada (the GeForce RTX 4090: 128 SMs, 72 MB), for all of which it documents the boost clock, the shared memory of a
multiprocessor (CUDA C++ Programming Guide, table of compute capabilities), and TFLOP/s of f32 and of f16 with sums in f32:
19.5 and 312 (sm80), 29.8 and 59.5 (sm86), 82.6 and 165 (sm89), 67 and 989 (sm90), of which the instruction `mma.sync` reaches
some 65 in 100 (Luo et al., Benchmarking and Dissecting the Nvidia Hopper GPU Architecture, 2024), and tera-operations of bytes:
624, 238, 661 and 1979, of which some 65 in 100 again; PTX ISA, dp4a (from sm_61 on: bytes of either sign on each side) and
mma.m16n8k32; AMD's CDNA 2 white paper (104 of 110 compute units of one die, wavefronts of 64, 64 KiB LDS), its RDNA white
paper and ISA guides (the Radeon RX 6800 XT, gfx1030: 72 compute units, wavefronts of 32, 64 KiB LDS a group, 4 MB; the RX 7900
XTX, gfx1100: 96 compute units, 6 MB; v_dot4_i32_i8 and v_dot4_u32_u8 of CDNA 2 and RDNA 2, v_dot4_i32_iu8 of RDNA 3);
Apple's Metal feature set tables (the M1: SIMD groups of 32, 1024 threads and 32 KiB a threadgroup; 8 cores; its second cache
and line are guesses); Intel's and Arm's programming guides (Xe cores with sub-groups of 16; Mali keeps local memory in the
caches), and Intel's list of cl_khr_integer_dot_product for Xe (dp4a). On Xe and Mali the tuned kernels of CLBlast's database
read operands from the caches, so that nothing is copied to local memory there."""

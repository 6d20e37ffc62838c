"""The functions of OpenCL that kernels call, by the names that clang's targets for GPUs have themselves, without libraries.

exp and log are the devices' instructions; tanh, erf (Abramowitz & Stegun, 7.1.26) and pow are made of them, about as long as a
library's but less exact. Halves are loaded, converted and stored by the devices' instructions. Good for counting what a kernel
uses, not for results.
"""

from __future__ import annotations

from collections.abc import Iterator

_ITEMS = "#define get_{0}_id(n) ((n) == 0 ? {1}x() : (n) == 1 ? {1}y() : {1}z())\n"
_LANES = (2, 4, 8, 16)
_TYPES = ("char", "uchar", "short", "ushort", "int", "uint", "long", "ulong", "float", "double")
_ATOMICS = ("add", "min", "max", "and", "or", "xor")


def _vectors() -> Iterator[str]:
    """Macros: loads and stores of vectors of any element, conversions, the bits of values, atomic updates."""
    for n in _LANES:
        loaded, stored = ", ".join(f"(p)[{k}]" for k in range(n)), " ".join(f"(p)[{k}] = w.s{k:x};" for k in range(n))
        yield f"#define vload{n}(o, p) ((__typeof__(({{ (p)[0]; }})) __attribute__((ext_vector_type({n}))))({loaded}))"
        yield f"#define vstore{n}(v, o, p) {{ const __typeof__(v) w = (v); {stored} }}"
    for ctype in _TYPES:
        for name in (ctype, *(f"{ctype}{n}" for n in _LANES)):
            yield f"#define as_{name}(x) __builtin_astype((x), {name})"
            converted = f"(({name})(x))" if name == ctype else f"__builtin_convertvector((x), {name})"
            yield f"#define convert_{name}(x) {converted}"
    yield from (f"#define atomic_{op}(p, v) __sync_fetch_and_{op}((p), (v))" for op in _ATOMICS)


def _halves() -> Iterator[str]:
    """Functions that load and store halves, whose values not all targets of clang let code name: OF_HALF and TO_HALF make
    floats of the bits of halves, and these of floats."""
    yield "#define OF(type) static inline type __attribute__((overloadable))"
    for space in ("__global", "__private"):
        bits = f"{space} ushort*"
        yield f"OF(float) vload_half(size_t o, const {space} half* p) {{ return OF_HALF(((const {bits})p)[o]); }}"
        for name in ("vstore_half", "vstore_half_rte"):
            yield f"OF(void) {name}(float v, size_t o, {space} half* p) {{ (({bits})p)[o] = TO_HALF(v); }}"
        for n in _LANES:
            lanes = ", ".join(f"vload_half({k}, p)" for k in range(n))
            stores = " ".join(f"vstore_half(v.s{k:x}, {k}, p);" for k in range(n))
            yield f"OF(float{n}) vload_half{n}(size_t o, const {space} half* p) {{ return (float{n})({lanes}); }}"
            yield f"OF(void) vstore_half{n}(float{n} v, size_t o, {space} half* p) {{ {stores} }}"


_HALVES = "\n".join(_halves()) + "\n"
_VECTORS = "\n".join(_vectors()) + "\n"
_NAMED = ("sqrt", "fabs", "floor", "ceil", "rint", "trunc")
"""Functions that clang has for all targets."""
_MADE = f"""
OF(float) log(float x) {{ return LOG2(x) * 0.69314718f; }}
OF(float) exp(float x) {{ return EXP2(x * 1.44269504f); }}
{"".join(f"OF(float) {f}(float x) {{ return __builtin_{f}f(x); }}" for f in _NAMED)}
OF(float) sin(float x) {{ return SIN(x); }}
OF(float) cos(float x) {{ return COS(x); }}
OF(float) fma(float x, float y, float z) {{ return __builtin_fmaf(x, y, z); }}
OF(float) tanh(float x) {{ return 1.0f - 2.0f / (exp(2.0f * x) + 1.0f); }}
OF(float) pow(float x, float y) {{ return exp(y * log(x)); }}
OF(float) erf(float x)
{{
    const float t = 1.0f / (1.0f + 0.3275911f * fabs(x));
    const float sum = 0.2548296f + t * (-0.2844967f + t * (1.4214137f + t * (-1.453152f + t * 1.0614054f)));
    return __builtin_copysignf(1.0f - t * sum * exp(-x * x), x);
}}
"""
_FUNCTIONS = ("exp", "log", "sin", "cos", "tanh", "erf", *_NAMED)
_MATHS = ("".join(f"#define {f} polytc_{f}\n" for f in (*_FUNCTIONS, "pow", "fma")) + _MADE +
          "".join(f"OF(float4) {f}(float4 x) {{ return (float4)({f}(x.s0), {f}(x.s1), {f}(x.s2), {f}(x.s3)); }}\n"
                  for f in _FUNCTIONS) +
          "".join(f"OF(float{n}) fma(float{n} x, float{n} y, float{n} z) {{ return x * y + z; }}\n" for n in _LANES) +
          "#define isnan(x) ((x) != (x))\n#define abs(x) ((x) < 0 ? -(x) : (x))\n"
          "#define select(a, b, c) ((c) ? (b) : (a))\n"
          "#define min(a, b) ((a) < (b) ? (a) : (b))\n#define max(a, b) ((a) > (b) ? (a) : (b))\n")
_NVIDIA_HALVES = """#define CVT(type, name, from, code, o, i) \\
    static inline type name(from x) { type y; __asm(code " %0, %1;" : o(y) : i(x)); return y; }
CVT(float, OF_HALF, ushort, "cvt.f32.f16", "=f", "h")
CVT(ushort, TO_HALF, float, "cvt.rn.f16.f32", "=h", "f")
"""
_AMD_HALVES = """#pragma OPENCL EXTENSION cl_khr_fp16 : enable
#define OF_HALF(h) ((float)__builtin_astype((ushort)(h), half))
#define TO_HALF(f) __builtin_astype((half)(f), ushort)
"""
NVIDIA = ("#define EXP2 __nvvm_ex2_approx_f\n#define LOG2 __nvvm_lg2_approx_f\n"
          "#define SIN __nvvm_sin_approx_f\n#define COS __nvvm_cos_approx_f\n" + _VECTORS + _NVIDIA_HALVES + _HALVES + _MATHS +
          _ITEMS.format("local", "__nvvm_read_ptx_sreg_tid_") + _ITEMS.format("group", "__nvvm_read_ptx_sreg_ctaid_") +
          "#define barrier(f) __nvvm_bar_sync(0)\n")
_AMD_MATHS = """#define SIN(x) __builtin_amdgcn_sinf((x) * 0.15915494f)
#define COS(x) __builtin_amdgcn_cosf((x) * 0.15915494f)
#if __has_builtin(__builtin_amdgcn_exp2f)
#define EXP2 __builtin_amdgcn_exp2f
#define LOG2 __builtin_amdgcn_logf
#else  /* clang before 17 */
#define EXP2 __builtin_exp2f
#define LOG2 __builtin_log2f
#endif
"""
AMD = (_AMD_MATHS + _VECTORS + _AMD_HALVES + _HALVES + _MATHS +
       _ITEMS.format("local", "__builtin_amdgcn_workitem_id_") + _ITEMS.format("group", "__builtin_amdgcn_workgroup_id_") +
       '#define barrier(f) __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup"); __builtin_amdgcn_s_barrier(); '
       '__builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup")\n')

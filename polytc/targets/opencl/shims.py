"""The functions of OpenCL that kernels call, by the names that clang's targets for GPUs have themselves, without libraries.

exp and log are the devices' instructions; tanh, erf (Abramowitz & Stegun, 7.1.26) and pow are made of them, about as long as a
library's but less exact. Good for counting what a kernel uses, not for results.
"""

from __future__ import annotations

_ITEMS = "#define get_{0}_id(n) ((n) == 0 ? {1}x() : (n) == 1 ? {1}y() : {1}z())\n"
_STORE = "const float4 w = (v); (p)[0] = w.s0; (p)[1] = w.s1; (p)[2] = w.s2; (p)[3] = w.s3;"
_VECTORS = f"#define vload4(o, p) ((float4)((p)[0], (p)[1], (p)[2], (p)[3]))\n#define vstore4(v, o, p) {{ {_STORE} }}\n"
_NAMED = ("sqrt", "fabs", "floor", "ceil")
"""Functions that clang has for all targets."""
_MADE = f"""
#define OF(type) static inline type __attribute__((overloadable))
OF(float) log(float x) {{ return LOG2(x) * 0.69314718f; }}
OF(float) exp(float x) {{ return EXP2(x * 1.44269504f); }}
{"".join(f"OF(float) {f}(float x) {{ return __builtin_{f}f(x); }}" for f in _NAMED)}
OF(float) tanh(float x) {{ return 1.0f - 2.0f / (exp(2.0f * x) + 1.0f); }}
OF(float) pow(float x, float y) {{ return exp(y * log(x)); }}
OF(float) erf(float x)
{{
    const float t = 1.0f / (1.0f + 0.3275911f * fabs(x));
    const float sum = 0.2548296f + t * (-0.2844967f + t * (1.4214137f + t * (-1.453152f + t * 1.0614054f)));
    return __builtin_copysignf(1.0f - t * sum * exp(-x * x), x);
}}
"""
_FUNCTIONS = ("exp", "log", "tanh", "erf", *_NAMED)
_MATHS = ("".join(f"#define {f} polytc_{f}\n" for f in (*_FUNCTIONS, "pow")) + _MADE +
          "".join(f"OF(float4) {f}(float4 x) {{ return (float4)({f}(x.s0), {f}(x.s1), {f}(x.s2), {f}(x.s3)); }}\n"
                  for f in _FUNCTIONS) +
          "#define select(a, b, c) ((c) ? (b) : (a))\n"
          "#define min(a, b) ((a) < (b) ? (a) : (b))\n#define max(a, b) ((a) > (b) ? (a) : (b))\n")
NVIDIA = ("#define EXP2 __nvvm_ex2_approx_f\n#define LOG2 __nvvm_lg2_approx_f\n" + _VECTORS + _MATHS +
          _ITEMS.format("local", "__nvvm_read_ptx_sreg_tid_") + _ITEMS.format("group", "__nvvm_read_ptx_sreg_ctaid_") +
          "#define barrier(f) __nvvm_bar_sync(0)\n")
_AMD_MATHS = """#if __has_builtin(__builtin_amdgcn_exp2f)
#define EXP2 __builtin_amdgcn_exp2f
#define LOG2 __builtin_amdgcn_logf
#else  /* clang before 17 */
#define EXP2 __builtin_exp2f
#define LOG2 __builtin_log2f
#endif
"""
AMD = (_AMD_MATHS + _VECTORS + _MATHS +
       _ITEMS.format("local", "__builtin_amdgcn_workitem_id_") + _ITEMS.format("group", "__builtin_amdgcn_workgroup_id_") +
       '#define barrier(f) __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup"); __builtin_amdgcn_s_barrier(); '
       '__builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup")\n')

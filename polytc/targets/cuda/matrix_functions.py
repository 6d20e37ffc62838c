"""The functions of a text that use the instructions of a warp for products of tiles, and copies to shared memory that pass no
registers: PTX from compute capability 8.0 on (NVIDIA, PTX ISA: mma.m16n8k16, mma.m16n8k32, ldmatrix, cp.async)."""

from __future__ import annotations

HEAD = "static __device__ inline"


def _multiply(name: str, of: tuple[str, str], steps: int, sums: str) -> str:
    """of: PTX's types of the factors; sums: that of the sums."""
    ctype, register = {"f32": ("float", "f"), "s32": ("int", "r")}[sums]
    return f"""\
/* The warp adds the product of 16 x {steps} and {steps} x 8 numbers to 16 x 8 sums, of which each thread holds two in row
 * `lane / 4`, and two in the eighth row below. */
{HEAD} void {name}({ctype}* upper, {ctype}* lower, const unsigned int* a, const unsigned int* b)
{{
    asm volatile("mma.sync.aligned.m16n8k{steps}.row.col.{sums}.{of[0]}.{of[1]}.{sums} "
                 "{{%0, %1, %2, %3}}, {{%4, %5, %6, %7}}, {{%8, %9}}, {{%0, %1, %2, %3}};"
                 : "+{register}"(upper[0]), "+{register}"(upper[1]), "+{register}"(lower[0]), "+{register}"(lower[1])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}}
"""


def _read(name: str, way: str, what: str) -> str:
    return f"""\
/* Four blocks of 8 x 8 numbers for the warp, of which each thread gives the address of a row{what}. */
{HEAD} void {name}(unsigned int* parts, const void* row)
{{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4{way}.shared.b16 {{%0, %1, %2, %3}}, [%4];"
                 : "=r"(parts[0]), "=r"(parts[1]), "=r"(parts[2]), "=r"(parts[3])
                 : "r"((unsigned int)__cvta_generic_to_shared(row)));
}}
"""


def _copy(size: int) -> str:
    way = ".cg.shared.global.L2::128B" if size == 16 else ".ca.shared.global"
    return f"""\
/* {size} bytes on their way to shared memory, zeros if they are not there. */
{HEAD} void polytc_copy_{size}(void* to, const void* from, bool there = true)
{{
    asm volatile("cp.async{way} [%0], [%1], {size}, %2;"
                 :: "r"((unsigned int)__cvta_generic_to_shared(to)), "l"(from), "r"(there ? {size} : 0) : "memory");
}}
"""


_BYTES = {"i8": "s8", "u8": "u8"}
FUNCTIONS = {
    "polytc_multiply_half": _multiply("polytc_multiply_half", ("f16", "f16"), 16, "f32"),
    "polytc_multiply_bfloat": _multiply("polytc_multiply_bfloat", ("bf16", "bf16"), 16, "f32"),
    **{name: _multiply(name, (_BYTES[a], _BYTES[b]), 32, "s32")
       for a in _BYTES for b in _BYTES for name in (f"polytc_multiply_{a}{b}",)},
    "polytc_read_blocks": _read("polytc_read_blocks", "", ""),
    "polytc_read_blocks_across": _read("polytc_read_blocks_across", ".trans", " and gets of a column"),
    **{f"polytc_copy_{n}": _copy(n) for n in (4, 8, 16)},
    "polytc_wait_for_copies": f"""\
{HEAD} void polytc_wait_for_copies()
{{
    asm volatile("cp.async.wait_all;" ::: "memory");
}}
""",
}
"""By name."""

"""What drivers compute wrongly: a few kernels that some of them miscompile, run once for each version of a driver.

Each case is a kernel as our emitter would write it, and what it must give by numpy. Cases that fail are faults of the device
(`Machine.faults`): the emitter writes around those that it knows how to, and a warning names the others. The kernels run in a
child process; the result is kept on disk.
"""

from __future__ import annotations

import functools
import hashlib
import json
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from polytc.disk import cache
from polytc.targets.opencl.driver import child
from polytc.targets.opencl.driver.devices import Device

OPTIONS = ("-cl-std=CL1.2",)
ONE_ITEM = "__kernel __attribute__((reqd_work_group_size(1, 1, 1)))\n"

CARRIED = ONE_ITEM + """void carried(__global const float* restrict A, __global float* restrict T)
{
    for (int m = 0; m < 33; ++m) {
        const int m_mod_2 = m % 2;
        float T_r = T[m_mod_2];
        for (int k = 0; k < 12; ++k) {
            T_r += A[m];
        }
        T[m_mod_2] = T_r;
    }
    for (int j = 0; j < 40; ++j) {
        const int j_mod_4 = j % 4;
        float T_s = T[2 + j_mod_4];
        for (int k = 0; k < 8; ++k) {
            T_s += A[j / 3];
        }
        T[2 + j_mod_4] = T_s;
    }
}
"""
NEGATED = """static inline long modulo(long a, long b)
{
    if (b == 0 || b == (long)-1) return 0;
    long r = (long)(a % b);
    return (long)(r != 0 && (r < 0) != (b < 0) ? r + b : r);
}
""" + ONE_ITEM + """void negated(__global const long* restrict J, __global const float* restrict v, __global float* restrict s)
{
    float s_r = s[0];
    for (int i = 0; i < 3; ++i) {
        for (int k = 0; k < 36; ++k) {
            s_r += -v[i * 180 + (int)modulo(J[i * 36 + k], 5L) * 36 + k];
        }
    }
    s[0] = s_r;
}
"""
COMPLEMENTS = ONE_ITEM + """void complements(__global const long* restrict x, __global long* restrict y)
{
    long y_r = y[0];
    for (int i = 0; i < 100; ++i) {
        y_r = max(y_r, ~x[i]);
    }
    y[0] = y_r;
}
"""
QUOTIENTS = """__kernel __attribute__((reqd_work_group_size(4, 1, 1)))
void quotients(__global const int* restrict a, __global const int* restrict b, __global int* restrict c)
{
    const int i = get_group_id(0) * 4 + get_local_id(0);
    const int q = a[i] / b[i];
    c[i] = (a[i] % b[i] != 0 && (a[i] < 0) != (b[i] < 0) ? q - 1 : q) + (a[i] >> 1);
}
"""
BARRIERS = """__kernel __attribute__((reqd_work_group_size(8, 1, 1)))
void barriers(__global const float* restrict x, __global float* restrict y)
{
    __local float tile[8];
    const int t = get_local_id(0);
    float sum = 0.0f;
    for (int k = 0; k < 4; ++k) {
        barrier(CLK_LOCAL_MEM_FENCE);
        tile[t] = x[k * 8 + t];
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int j = 0; j < 8; ++j) sum += tile[j] * (float)(t + 1);
    }
    y[t] = sum;
}
"""


@dataclass(frozen=True)
class Case:
    """A fault and the kernel that shows it. effect: in words, for the warning; around: how the emitter writes around it, '' if
    it cannot. inputs: arrays from a generator, the last one as the kernel finds it; expected: that one after the launch."""

    name: str
    text: str
    effect: str
    around: str
    groups: int
    items: int
    inputs: Callable[[np.random.Generator], tuple[np.ndarray, ...]]
    expected: Callable[..., np.ndarray]


def _zeros(count: int, dtype: type = np.float32) -> np.ndarray:
    return np.zeros(count, dtype)


def _carried(a: np.ndarray, t: np.ndarray) -> np.ndarray:
    thirds = a[np.arange(40) // 3]
    return np.array([*(12 * a[d::2].sum() for d in range(2)), *(8 * thirds[d::4].sum() for d in range(4))], np.float32)


def _negated(j: np.ndarray, v: np.ndarray, s: np.ndarray) -> np.ndarray:
    picked = np.take_along_axis(v, (j % 5)[:, None, :], axis=1)
    return -picked.sum(dtype=np.float32, keepdims=True).reshape(1)


CASES = (
    Case("carried", CARRIED, "sums into elements that a remainder chooses lose terms",
         "inner loops are not unrolled and end in a fence", 1, 1,
         lambda r: (np.arange(33, dtype=np.float32), _zeros(6)), _carried),
    Case("negated", NEGATED, "sums of negated terms in loops with branches lose terms", "0 - x is written for -x", 1, 1,
         lambda r: (r.integers(0, 1000, (3, 36)), r.integers(0, 9, (3, 5, 36)).astype(np.float32), _zeros(1)), _negated),
    Case("complements", COMPLEMENTS, "the largest or smallest of complements is none of them", "built without optimisation",
         1, 1, lambda r: (r.integers(-2**62, 2**62, 100), np.full(1, -2**63)), lambda x, y: (~x).max(keepdims=True)),
    Case("quotients", QUOTIENTS, "divisions of integers are wrong", "", 16, 4,
         lambda r: (r.integers(-99, 99, 64, np.int32), r.choice(np.array([-7, -3, -1, 1, 2, 5], np.int32), 64),
                    _zeros(64, np.int32)), lambda a, b, c: a // b + (a >> 1)),
    Case("barriers", BARRIERS, "work-items of a group do not see each other's stores behind a barrier", "", 1, 8,
         lambda r: (r.integers(0, 9, 32).astype(np.float32), _zeros(8)),
         lambda x, y: x.sum(dtype=np.float32) * np.arange(1, 9, dtype=np.float32)),
)


def faults(device: Device) -> frozenset[str]:
    """The names of the cases that the device's driver gets wrong. Warns of them once in a process."""
    return _faults(device.identity, device)


_KNOWN: dict[tuple[str, ...], frozenset[str]] = {}


def _faults(identity: tuple[str, ...], device: Device) -> frozenset[str]:
    if identity not in _KNOWN:
        key = hashlib.sha256(repr(("conformance", [c.text for c in CASES], OPTIONS, identity)).encode()).hexdigest()
        stored = cache.get(key)
        failed: dict[str, str] = json.loads(stored) if stored is not None else _failed(device)
        if stored is None and not any(why.startswith(UNSURE) for why in failed.values()):
            cache.put(key, json.dumps(failed).encode())
        _warn(device, failed)
        _KNOWN[identity] = frozenset(failed)
    return _KNOWN[identity]


UNSURE = "no answer"
"""What begins a reason that may not be the driver's: it counts in this process, and the next one asks again."""


def _failed(device: Device) -> dict[str, str]:
    """Case -> what went wrong."""
    found = {case.name: _wrong(case, device) for case in CASES}
    return {name: why for name, why in found.items() if why}


def _wrong(case: Case, device: Device) -> str:
    """What a driver gets wrong about a case, '' if nothing."""
    given = case.inputs(np.random.default_rng(1))
    question = child.Run(case.text, OPTIONS, case.name, (case.groups * case.items,), (case.items,), given)
    try:
        found = child.answer(device, question)
    except child.CrashedError as e:
        return f"{UNSURE}: the driver crashes ({e})"
    if isinstance(found, child.Refused):
        return f"{UNSURE}: the driver refuses it ({(found.log.strip() or 'without a word').splitlines()[0]})"
    return "" if np.array_equal(found[-1], case.expected(*given)) else "wrong numbers"


def _warn(device: Device, failed: dict[str, str]) -> None:
    for case in CASES:
        if case.name in failed and not case.around:
            warnings.warn(f"{device}: {case.effect} ({failed[case.name]}); take another driver: results may be wrong",
                          RuntimeWarning, stacklevel=2)


@functools.cache
def described(name: str) -> str:
    """A fault and the way around it in words."""
    case = next(c for c in CASES if c.name == name)
    return f"{case.effect}; {case.around or 'nothing is done about it'}"

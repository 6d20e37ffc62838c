"""Random element-wise expressions on hostile numbers: each result is one that IEEE 754 allows, bit for bit.

The oracle knows all of them: a product and a sum may be one operation, computed here with fractions, and of two zeros the
minimum or maximum may be either. `precise` programs, and the interpreter, give what rounding each operation gives.
"""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest

import polytc
from tests.opencl_here import NEEDS_OPENCL

NAMES = "ABCD"
CONSTANTS = (3.0, 0.1, 1e-30, 12582912.0, 7.0, -0.3)
HOSTILE = (0.0, -0.0, np.inf, -np.inf, np.nan, 1e-20, -1e-20, 1e20, 1e-30, -1e30, 1e30, 1e-40, -3e-45, 3.4e38, 12582912.0, 2.6,
           1.0, -1.0, 1 / 3)


@dataclass(frozen=True)
class Tree:
    """An operator with operands, a name, or a number. Prints as polytc text."""

    op: str
    operands: tuple[Tree, ...] = ()
    number: float = 0.0

    def __str__(self) -> str:
        a = [f"({x})" if x.operands else str(x) for x in self.operands]
        match self.op:
            case "number":
                return repr(self.number) if self.number >= 0 else f"({self.number!r})"
            case "neg":
                return f"-{a[0]}"
            case "sqrt" | "abs" | "min" | "max":
                return f"{self.op}({', '.join(map(str, self.operands))})"
            case "+" | "-" | "*" | "/":
                return f"{a[0]} {self.op} {a[1]}"
            case name:
                return f"{name}[i]"


def tree(rng: random.Random, depth: int) -> Tree:
    if depth == 0 or rng.random() < 0.1:
        return Tree(rng.choice(NAMES))
    op = rng.choice(["+", "+", "-", "-", "*", "*", "*", "/", "sqrt", "neg", "min", "max", "abs"])
    if op in ("neg", "abs"):
        return Tree(op, (tree(rng, depth - 1),))
    if op == "sqrt":
        return Tree(op, (Tree("abs", (tree(rng, depth - 1),)),))
    right = Tree("number", number=rng.choice(CONSTANTS)) if rng.random() < 0.2 else tree(rng, depth - 1)
    return Tree(op, (tree(rng, depth - 1), right))


def fused(a: np.floating, b: np.floating, c: np.floating) -> np.floating:
    """a*b + c with one rounding."""
    kind = type(a)
    if not np.isfinite([a, b, c]).all():
        with np.errstate(all="ignore"):
            return kind(np.float64(a) * np.float64(b) + np.float64(c)) if kind is np.float32 or not np.isfinite([a, b]).all() \
                else c
    exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
    if exact == 0:
        negative = np.signbit(a) != np.signbit(b)
        return kind(-0.0) if negative and np.signbit(c) and c == 0 else kind(0.0)
    return rounded(exact, kind)


def rounded(exact: Fraction, kind: type[np.floating]) -> np.floating:
    """The nearest float; f32 through f64 with the last bit set where that lost something (rounding to odd)."""
    try:
        double = float(exact)
    except OverflowError:
        return kind(np.inf if exact > 0 else -np.inf)
    if kind is np.float32 and Fraction(double) != exact:
        towards = double if abs(Fraction(double)) < abs(exact) else float(np.nextafter(double, 0.0))
        double = float((np.array(towards).view(np.uint64) | np.uint64(1)).view(np.float64))
    with np.errstate(all="ignore"):
        return kind(double)


def factors(t: Tree) -> tuple[Tree, Tree, bool] | None:
    """The factors of a product, and whether it is negated."""
    negated = False
    while t.op == "neg":
        t, negated = t.operands[0], not negated
    return (t.operands[0], t.operands[1], negated) if t.op == "*" else None


def allowed(t: Tree, values: dict[str, np.floating], contracted: bool) -> list[np.floating]:
    """All results that the rules allow, once each."""
    if not t.operands:
        kind = type(next(iter(values.values())))
        return [kind(t.number) if t.op == "number" else values[t.op]]
    parts = [allowed(o, values, contracted) for o in t.operands]
    found = [r for choice in itertools.product(*parts) for r in operation(t.op, choice)]
    if contracted and t.op in "+-":
        for k, other in ((0, 1), (1, 0)):
            product = factors(t.operands[k])
            if product is None:
                continue
            xs, ys = (allowed(f, values, contracted) for f in product[:2])
            minus = product[2] != (k == 1 and t.op == "-")
            for x, y, z in itertools.product(xs, ys, parts[other]):
                found.append(fused(-x if minus else x, y, -z if other == 1 and t.op == "-" else z))
    return list({r.tobytes() if r == r else b"nan": r for r in found}.values())


def operation(op: str, a: tuple[np.floating, ...]) -> list[np.floating]:
    with np.errstate(all="ignore"):
        match op:
            case "+":
                return [a[0] + a[1]]
            case "-":
                return [a[0] - a[1]]
            case "*":
                return [a[0] * a[1]]
            case "/":
                return [a[0] / a[1]]
            case "neg":
                return [-a[0]]
            case "sqrt":
                return [np.sqrt(a[0])]
            case "abs":
                return [np.abs(a[0])]
            case _:
                either = a[0] == a[1] == 0
                return list(a) if either else [(np.minimum if op == "min" else np.maximum)(*a)]


def arrays(rng: np.random.Generator, size: int, dtype: str) -> dict[str, np.ndarray]:
    with np.errstate(all="ignore"):
        return {n: rng.choice(np.array(HOSTILE, dtype), size) for n in NAMES}


def judge(seed: int, dtype: str, size: int, target: str, precise: bool) -> None:
    rng = random.Random(seed)
    trees = [tree(rng, 3) for _ in range(8)]
    outputs = ", ".join(f"Y{k}" for k in range(len(trees)))
    body = "\n".join(f"Y{k}[i] = {t} where i in 0:A.shape[0]" for k, t in enumerate(trees))
    params = ", ".join(f"{dtype}[N] {n}" for n in NAMES)
    text = f"{'precise ' * precise}def f({params}) -> ({outputs}) {{\n{body}\n}}"
    given = arrays(np.random.default_rng(seed), size, {"f32": "f4", "f64": "f8"}[dtype])
    results = polytc.run(text, **given, target=target, threads=1)
    for t, result in zip(trees, results, strict=True):
        for k in range(size):
            values = {n: a[k] for n, a in given.items()}
            wanted = allowed(t, values, contracted=not precise and target != "interp")
            got = result[k]
            assert any(got.tobytes() == w.tobytes() or (got != got and w != w) for w in wanted), \
                f"{t} of {values} is {got!r}, not one of {wanted}"


@pytest.mark.part(4)
@pytest.mark.parametrize(("dtype", "size", "target", "precise"), [
    ("f32", 53, "cpu", False), ("f32", 1, "cpu", False), ("f64", 29, "cpu", False), ("f32", 53, "cpu", True),
    ("f32", 21, "interp", False)])
@pytest.mark.parametrize("seed", range(3))
def test_results_are_allowed(seed: int, dtype: str, size: int, target: str, precise: bool) -> None:
    judge(seed, dtype, size, target, precise)


@pytest.mark.parametrize("seed", [pytest.param(k, marks=NEEDS_OPENCL) for k in range(2)])
def test_results_of_a_device_are_allowed(seed: int) -> None:
    judge(seed, "f32", 53, "opencl", False)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3, 203))
def test_many_results_are_allowed(seed: int) -> None:
    for dtype, size, precise in (("f32", 53, False), ("f64", 29, False), ("f32", 53, True), ("f64", 1, False)):
        judge(seed, dtype, size, "cpu", precise)


def test_the_oracle() -> None:
    f = np.float32
    assert fused(f(1 + 2**-12), f(1 + 2**-12), f(-1 - 2**-11)) == f(2**-24)
    assert rounded(Fraction(2**24 + 1), f) == 2**24
    assert rounded(Fraction(2**60 * (2**24 + 1) + 1), f) == f(2**60) * f(2**24 + 2)
    assert {float(x) for x in allowed(Tree("-", (Tree("*", (Tree("A"), Tree("A"))), Tree("B"))),
                                      {"A": f(1 + 2**-12), "B": f(1 + 2**-11)}, True)} == {0.0, 2.0**-24}

"""Types follow from values, and from nothing else: not from the order of statements that do not concern each other, nor from
names."""

import itertools
import random
import re

import numpy as np
import pytest

import polytc
from polytc import lang
from polytc.program import scalars
from polytc.program.scalars import BF16, DTYPES, F16

SHAPES = {f"x{k}": (6,) for k in range(4)}
STRONG = ("u8", "i8", "i16", "u32", "i64", "f16", "bf16", "f32", "f64")


def types(text, dtypes, shapes=None):
    return {t.name: str(t.dtype) for t in lang.build(text, shapes or dict.fromkeys(dtypes, (6,)), dtypes).tensors}


def test_an_unrelated_statement_changes_no_type():
    loop = "for t in 0:5 { P[t] = 3*(P[t-1] else 1) + A[t] }"
    alone = types(loop, {"A": "u8"}, {"A": (5,)})
    beside = types("Z[i] = X[i]\n" + loop, {"A": "u8", "X": "f32"}, {"A": (5,), "X": (7,)})
    behind = types(loop + "\nZ[i] = X[i]", {"A": "u8", "X": "f32"}, {"A": (5,), "X": (7,)})
    assert alone == {"A": "u8", "P": "u8"}
    assert beside == behind == alone | {"X": "f32", "Z": "f32"}


@pytest.mark.parametrize(("body", "want"), [
    ("P[t] = (P[t-1] else 1) + 1", "i64"), ("P[t] = 0.5*(P[t-1] else 1)", "f64"), ("P[t] = sqrt(P[t-1] else 1)", "f64"),
    ("P[t] = 0.5*(P[t-1] else 1) + x0[t]", "f32"), ("P[t] = (P[t-1] else false) || x0[t] > 1", "bool"),
    ("P[t] = (P[t-1] else 0)/2 + b[t]", "f64"), ("P[t] = (P[t-1] else 0)//2 + b[t]", "u8"),
    ("P[t] = (P[t-1] else 0) > 1 ? b[t] : 7", "u8"), ("P[t] = (Q[t-1] else 1)*2 + b[t]; Q[t] = P[t]", "u8"),
    ("P[t] = max((Q[t-1] else 0), b[t]); Q[t] = P[t] + h[t]", "f16"), ("P[t] = i32(P[t-1] else 0) + b[t]", "i32"),
    ("P[t] = x0[t] where t < 1\nP[t] = (P[t-1] else 0)*2", "f32"),
    ("P[t] = 0.0 where t < 1\nP[t] = (P[t-1] else 0)*2 + x0[t]", "f32"),
    ("P[t] = 0 where t < 1\nP[t] = (P[t-1] else 0)*2 + x0[t]", "f32"),
    ("P[t] = 0 where t < 1\nP[t] = (P[t-1] else 0)*2 + b[t]", "u8"),
])
def test_tensors_of_which_they_are_made_themselves(body, want):
    """numpy's, for the values of which an iteration is made."""
    given = {n: t for n, t in (("x0", "f32"), ("b", "u8"), ("h", "f16")) if f"{n}[" in body}
    assert types(f"for t in 0:6 {{ {body} }}", given)["P"] == want


@pytest.mark.part(4)
@pytest.mark.parametrize("parts", list(itertools.combinations(STRONG, 3)), ids="-".join)
def test_all_writers_at_once(parts):
    """As numpy.result_type of three arrays, in any order of the writers: i8, u8 and f16 are f16."""
    numpy = [DTYPES[t].numpy if t != "bf16" else F16.numpy for t in parts]
    want = scalars.from_numpy(np.result_type(*numpy))
    if "bf16" in parts:
        want = scalars.from_numpy(np.result_type(*numpy, np.float32)) if "f16" in parts else BF16 if want == F16 else want
    for order in itertools.permutations(range(3)):
        text = "\n".join(f"P[{6 * k} + i] = x{k}[i]" for k in order)
        assert types(text, {f"x{k}": t for k, t in enumerate(parts)})["P"] == str(want)


@pytest.mark.parametrize("a", [t for t in STRONG if t != "bf16"])
def test_numbers_are_weak_beside_arrays(a):
    array = DTYPES[a].numpy
    assert types("P[i] = x0[i]; P[6] = 1", {"x0": a})["P"] == str(scalars.from_numpy(np.result_type(array, 1)))
    assert types("P[6] = 1.5; P[i] = x0[i]", {"x0": a})["P"] == str(scalars.from_numpy(np.result_type(array, 1.5)))
    assert types("P[6] = 2; P[i] = x0[i]; P[7] = 0.5", {"x0": a})["P"] == str(scalars.from_numpy(np.result_type(array, 2, 0.5)))


# ---- the order of statements, and names

def chain(rng, name, inputs):
    """Statements that concern each other and nothing else."""
    x, y = rng.sample(inputs, 2)
    value = rng.choice([f"{x}[t]", f"2*{x}[t]", f"{x}[t]/2", f"exp({x}[t])", f"{x}[t] + {y}[t]", "t", "0.5*t"])
    before = rng.choice(["{0}[t-1] else 1", "{0}[t-1] else 0"]).format(name)
    other = rng.choice([f"3*({before}) + {value}", f"({before})*0.5 + {value}", f"max(({before}), {value})",
                        f"({before}) > 1 ? {value} : 2", f"({before})/2 + {value}"])
    last = rng.choice([f"{name}e[i] = {name}[i] + {y}[i]", f"{name}e += {name}[i]*2", f"{name}e[i] = sqrt({name}[i])"])
    if rng.random() < 0.3:
        again = f"for t in 0:6 {{ {name}[t] = {other}\n{name}f[t] = {name}[t]*{x}[t] }}"
        return [again, last]
    if rng.random() < 0.3:
        return [f"{name}[t] = {value} where t in 0:6", f"{name}[t+6] = {rng.choice(inputs)}[t] where t in 0:6",
                f"{name}e[i] = {name}[i] + 1"]
    return [f"for t in 0:6 {{ {name}[t] = {other} }}", last]


def interleaved(rng, chains):
    """All statements, those of each chain in their order."""
    left = [list(c) for c in chains]
    out = []
    while any(left):
        pick = rng.choice([c for c in left if c])
        out.append(pick.pop(0))
    return "\n".join(out)


@pytest.mark.part(4)
@pytest.mark.parametrize("seed", range(12))
def test_neither_the_order_of_independent_statements_nor_names_change_a_type(seed):
    rng = random.Random(seed)
    inputs = list(SHAPES)
    dtypes = {n: rng.choice(STRONG) for n in inputs}
    chains = [chain(rng, f"T{k}", inputs) for k in range(3)]
    used = "; ".join(f"U{n}[i] = {n}[i]" for n in inputs)  # so that all inputs are inputs of each order
    alone = {}
    for c in chains:
        alone |= types(used + "\n" + "\n".join(c), dtypes)
    for _ in range(6):
        text = "\n".join(rng.sample([interleaved(rng, chains), used], 2))
        assert types(text, dtypes) == alone
    names = {f"T{k}": new for k, new in enumerate(rng.sample(["a", "zz", "B", "m_", "Q9"], 3))}
    renamed = re.sub(r"\bT(\d)", lambda m: names[f"T{m[1]}"], used + "\n" + interleaved(rng, chains))
    assert types(renamed, dtypes) == {re.sub(r"^T(\d)", lambda m: names[f"T{m[1]}"], n): t for n, t in alone.items()}


def test_shapes_that_the_signature_states_need_not_be_given() -> None:
    p = polytc.build("def f(f32[3,4] X, f32[n] Z) -> (Y) { Y[i,j] = X[i,j] + Z[0] }", {"Z": (2,)})
    assert p.tensor("X").shape == (3, 4)
    assert polytc.build(str(p)).tensor("Z").shape == (2,)
    with pytest.raises(polytc.CompileError) as refusal:
        polytc.build("def f(f32[3] X) -> (Y) { Y[i] = X[i] }", {"X": (4,)})
    assert refusal.value.code == "E205"

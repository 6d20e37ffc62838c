"""Two hundred mistakes of users of Python, C, numpy, einsum, Halide, TVM and Tensor Comprehensions: each answer has a code, a
place and a cure, and what the cures lead to computes what was meant."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import polytc

ARRAYS = {"v": np.arange(9, dtype=np.float32), "w": np.arange(3, dtype=np.float32), "X": np.ones((4, 5), np.float32),
          "n": np.array([0, 1, 2]), "A": np.ones((4, 4), np.float32), "B": np.ones((4, 4), np.float32),
          "I": np.ones((3, 8, 8), np.float32), "W": np.ones((2, 3, 3, 3), np.float32), "r": np.array([0, 2, 5, 9])}
BLOCK = re.compile(r"(?P<text>.+?)\n> (?P<code>E\d+) \| (?P<place>.*?) \| (?P<note>.*)", re.S)


def rows() -> list[tuple[str, str, str, str]]:
    blocks = (Path(__file__).parent / "mistakes.txt").read_text().split("\n\n")[1:]
    return [(m["text"], m["code"], m["place"], m["note"]) for b in blocks if (m := BLOCK.fullmatch(b.strip("\n")))]


def used(text: str) -> dict[str, np.ndarray]:
    return {n: a for n, a in ARRAYS.items() if re.search(rf"(?<![\w.]){n}(?!\w)", text)}


def test_there_are_enough() -> None:
    assert len(rows()) > 150


@pytest.mark.parametrize("row", rows(), ids=[r[0][:50] for r in rows()])
def test_what_a_mistake_is_answered(row: tuple[str, str, str, str]) -> None:
    text, code, place, note = row
    with pytest.raises(polytc.CompileError) as raised:
        polytc.run(text, **used(text))
    first = raised.value.diagnostics[0]
    assert first.code == code, str(raised.value)
    assert (text[first.span.start:first.span.end] if first.span else "None") == place, str(raised.value)
    assert note in (first.notes or ("",)), str(raised.value)


v, X, A = ARRAYS["v"], ARRAYS["X"], ARRAYS["A"]
CURED = [
    ("O[i] = v[i] if i > 3 else 0", "O[i] = i > 3 ? v[i] : 0", np.where(np.arange(9) > 3, v, 0)),
    ("O[i] = X[i][0]", "O[i] = X[i,0]", X[:, 0]),
    ("O[i] = (float)v[i]", "O[i] = float(v[i])", v),
    ("O[i] = v[i].astype(f64)", "O[i] = f64(v[i])", v),
    ("O[i] = 2v[i]", "O[i] = 2*v[i]", 2 * v),
    ("O[i] = v[i] * 0o20", "O[i] = v[i] * 16", 16 * v),
    ("O[i] = np.exp(v[i])", "O[i] = exp(v[i])", np.exp(v)),
    ("O[i] = exp v[i]", "O[i] = exp(v[i])", np.exp(v)),
    ("ij,jk->ik", "Y[i,k] += A[i,j] * B[j,k]", A @ A),
    ("C[i,k] += A[i,j] B[j,k]", "C[i,k] += A[i,j] * B[j,k]", A @ A),
    ("O[i] = v[i] where i in range(2, 9)", "O[i] = v[i] where i in 2:9", v[2:]),
    ("O[i] = v[i] where i = 0:3", "O[i] = v[i] where i in 0:3", v[:3]),
    ("O[i] = P[i] = v[i]", "P[i] = v[i]; O[i] = P[i]", v),
    ("O[i] = !v[i] > 0 ? 1 : 0", "O[i] = !(v[i] > 0) ? 1 : 0", ~(v > 0)),
    ("A[i,j] = A[i,j]*2", "def f(inout f32[M,N] A) -> (A) { A[i,j] = A[i,j]*2 }", 2 * A),
    ("v[i] += 1", "def f(inout f32[M] v) -> (v) { v[i] += 1 }", v + 1),
    ("O[i] = (v[i-1] else v[i])", "O[i] = i > 0 ? (v[i-1] else 0) : v[i] where i in 0:9", np.r_[v[0], v[:-1]]),
    ("O[0] = v[0]; O[i] = O[i-1] + v[i]", "O[0] = v[0]; for i in 1:9 { O[i] = O[i-1] + v[i] }", np.cumsum(v)),
    ("O[8] = v[8]; O[i] = O[i+1] + v[i]", "O[8] = v[8]; for i in 7:-1:-1 { O[i] = O[i+1] + v[i] }", np.cumsum(v[::-1])[::-1]),
    ("O[i] = n[i] & 1 == 0", "O[i] = (n[i] & 1) == 0", np.array([True, False, True])),
    ("O = v[i] > 2", "O |= v[i] > 2", True),
    ("O[i,j] = v[i*3+j]", "O[i,j] = v[i*3+j] where j in 0:3", v.reshape(3, 3)),
    ("O[i,j] = X[i,j] where j <= i", "O[i,j] = 0 where i in 0:4, j in 0:4; O[i,j] = X[i,j] where j <= i", np.tril(X[:, :4])),
    ("k = 3; O[i] = v[i+k]", "O[i] = v[i+k] where k = 3, i in 0:6", v[3:]),
    ("O[i] = i where i in 0:n[0]", "O[i] += i where i in 0:n[0], i in 0:9", np.zeros(9)),
]
"""A mistake, what its cure makes of it, and what that computes."""


@pytest.mark.parametrize("row", CURED, ids=[r[0] for r in CURED])
def test_cures_are_programs(row: tuple[str, str, np.ndarray]) -> None:
    _, text, expected = row
    np.testing.assert_allclose(polytc.run(text, **{n: a.copy() for n, a in used(text).items()}), expected, rtol=1e-5)


CALLS = [
    (lambda: polytc.compile("O[i] = v[i]", schedule="fast"), "E702", "isl, program, min, smart, max"),
    (lambda: polytc.compile("O[i] = v[i]", shapes=[(4,)]), "E410", "shapes={'v': (4, 5)}"),
    (lambda: polytc.compile("O[i] = v[i]", shapes={"v": v}), "E410", "v.shape"),
    (lambda: polytc.compile("O[i] = v[i]", shapes={"v": -1}), "E410", "has a name"),
    (lambda: polytc.compile("O[i] = v[i]", dtypes="f32"), "E410", "dtypes={'v': 'f32'}"),
    (lambda: polytc.compile("O[i] = v[i]", dtypes={"v": "flaot32"}), "E410", "did you mean `f32`?"),
    (lambda: polytc.compile("O[i] = v[i]", target="vulkan"), "E502", "write 'opencl'"),
    (lambda: polytc.compile("O[i] = v[i]", target="CPU"), "E502", "write 'cpu'"),
    (lambda: polytc.compile("program.ein"), "E410", "read_text()"),
    (lambda: polytc.compile(b"O[i] = v[i]"), "E410", "text.decode()"),
    (lambda: polytc.compile(lambda x: x), "E410", "@polytc.compiled"),
    (lambda: polytc.run(v, "O[i] = v[i]"), "E410", "the text comes first"),
    (lambda: polytc.run("O[i] = v[i]", V=v), "E401", "did you mean `v`?"),
    (lambda: polytc.run("O[i] = v[i]", v, shapes={"v": 9}), "E401", "polytc.compile(text, shapes=...)"),
    (lambda: polytc.run("O[i] = v[i] + w[i]", {"v": v, "w": v}), "E401", "op(**arrays)"),
    (lambda: polytc.run("O[i] = v[i] + w[i]", [v, v]), "E401", "op(*arrays)"),
    (lambda: polytc.run("T[i] = v[i]; O[i] = TT[i]", v=v), "E401", "did you mean `T`?"),
    (lambda: polytc.run("O = X * 2", X=X), "E409", "`X[i,j]`"),
]
"""A call that is refused, its code, and a part of its notes."""


@pytest.mark.parametrize("row", range(len(CALLS)))
def test_calls(row: int) -> None:
    call, code, note = CALLS[row]
    with pytest.raises(polytc.PolytcError) as raised:
        call()
    assert raised.value.code == code
    assert note in " ".join(raised.value.notes)


def test_long_lines_are_cut() -> None:
    text = "O[i] = v[i" + " + 0" * 30_000 + "] + W[i,j,k,"
    with pytest.raises(polytc.CompileError) as raised:
        polytc.compile(text)
    message = str(raised.value)
    assert len(message) < 1000
    assert "^" in message


def test_the_carets_of_a_long_line_are_where_they_were() -> None:
    text = "O[i] = " + "v[i] + " * 100 + "V[i] + " + "v[i] + " * 100 + "v[i]"
    with pytest.raises(polytc.CompileError) as raised:
        polytc.run(text, v=v)
    shown, carets = str(raised.value).splitlines()[1:3]
    assert shown[carets.index("^"):carets.rindex("^") + 1] == "V[i]"


def test_tracebacks_show_the_users_line() -> None:
    with pytest.raises(polytc.CompileError) as raised:
        polytc.compile("O[i] = ")
    assert len(raised.traceback) <= 2


def test_a_shape_of_one_number() -> None:
    assert polytc.compile("O[i] = v[i]", shapes={"v": 9})(v).shape == (9,)

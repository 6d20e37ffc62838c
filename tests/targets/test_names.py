"""Names of programs: letters of all alphabets, and words that isl, C, OpenCL, LLVM or Python keep for themselves."""

import subprocess
import unicodedata

import numpy as np
import pytest

import polytc
from polytc import lang
from polytc.errors import CompileError
from polytc.program.names import ascii_name
from tests.c_here import COMPILERS
from tests.opencl_here import NEEDS_OPENCL

WORDS = [*"Aé é_ 日本 и कि ﬁ _ue9_ _u5f_ µ ΔT".split(),
         *"and or not exists floor ceil mod min max implies infty NaN nan_ true_ rat floord mod_ And".split(),
         *"int float double void char unsigned half global local private constant kernel generic pipe uint if return".split(),
         *"main printf abs exp get_global_id sampler_t size_t bool union goto asm typeof static volatile M_PI".split(),
         *"define ret i32 ptr br phi load store align label undef x restrict register".split(),
         *"None True lambda class self np _np print len range import".split()]

ROLES = 6


def text(at):
    """A program in which six words in a row are names of all kinds."""
    op, size, read, kept, made, index = (WORDS[(at + k) % len(WORDS)] for k in range(ROLES))
    return (f"def {op}(f32[{size},K] {read}) -> ({made}) {{\n"
            f"  {kept}[{index}] += {read}[{index},j] * 2 where {index} in 0:{size}\n"
            f"  for t in 0:{size} {{ {made}[t] = ({made}[t-1] else 1) + {kept}[t] where t < {size} }}\n}}")


@pytest.mark.part(2)
@pytest.mark.parametrize("target", ["cpu", "interp", pytest.param("opencl", marks=NEEDS_OPENCL)])
def test_every_word_in_every_role(target):
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    want = 1 + np.cumsum(2 * x.sum(1))
    for at in range(len(WORDS)):
        if target == "opencl" and at % 4:  # builds are slow: a quarter of them
            continue
        np.testing.assert_array_equal(polytc.compile(text(at), target=target)(x), want, err_msg=text(at))


@pytest.mark.part(12)
@pytest.mark.parametrize("target", ["cpu", "interp", pytest.param("opencl", marks=NEEDS_OPENCL)])
def test_open_sizes_of_such_names(target):
    for word in ("é", "mod", "and", "mod_", "int", "kernel", "_ue9_")[::2 if target == "opencl" else 1]:
        text = f"def f(f32[{word},K] A) -> (O) {{ O[i] += A[i,j] where i in 0:{word} }}"
        op = polytc.compile(text, target=target, symbolic=True)
        np.testing.assert_array_equal(op(np.ones((4, 5), np.float32)), np.full(4, 5))


@pytest.mark.skipif(not COMPILERS, reason="there is no C compiler")
def test_c_that_compilers_take(tmp_path):
    for at in range(0, len(WORDS), ROLES):
        read = unicodedata.normalize("NFKC", WORDS[(at + 2) % len(WORDS)])
        source = str(polytc.lower(text(at), shapes={read: (4, 3)}, target="c").source)
        (tmp_path / "x.c").write_text(source)
        subprocess.run([COMPILERS[0], "-std=c99", "-fsyntax-only", "-Wall", str(tmp_path / "x.c")], check=True)


def test_other_spellings_are_other_names():
    parts = ["_", "u", "e9", "_ue9_", "é", "è", "u5f", "_u", "a", "9_"]
    names = {a + b + c for a in ["", *parts] for b in ["", *parts] for c in parts}
    assert len({ascii_name(n) for n in names}) == len(names)
    assert all(ascii_name(n).isascii() for n in names)


def test_one_letter_has_one_form():
    """As in Python: NFKC, so that keywords of a call find what the text names."""
    op = polytc.compile("O[i] = e\u0301t\u00e9[i] * \ufb01[i]", target="interp")
    assert op.inputs == ("\u00e9t\u00e9", "fi")
    np.testing.assert_array_equal(op(été=np.ones(3, np.float32), ﬁ=np.ones(3, np.float32)), np.ones(3))


@pytest.mark.parametrize(("text", "character"), [
    ("x½[i] = A[i]", "½"), ("C[i] = A[i] ≤ 3", "≤"), ("C[i] = ½A[i]", "½"), ("C[i] = A²[i]", "²"), ("C[i] = A[i] × 2", "×"),
    ("C[i] = A[i] → B", "→"), ("C[i] = A\u200b[i]", "\u200b"), ("C[é½] = A[é½]", "½")])
def test_what_is_no_identifier_is_refused_where_it_stands(text, character):
    with pytest.raises(CompileError) as caught:
        lang.build(text, {"A": (3,)})
    (found,) = caught.value.diagnostics
    assert found.code == "E003"
    assert (found.span.start, found.span.end) == (text.index(character), text.index(character) + 1)

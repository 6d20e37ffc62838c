"""The grammar: layout, precedence, the printer as its inverse."""

from pathlib import Path

import lark
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polytc import lang
from polytc.disk import cache
from polytc.lang.parsing import parser
from polytc.lang.parsing.parser import parse
from polytc.program import program as pr
from polytc.program.scalars import BOOL, F32, I64


def shape_of(text):
    return [(s.target, s.op, s.reset, len(s.clauses)) for s in parse(text)[0].body]


def test_statements_end_with_newlines_or_semicolons():
    expected = [("C", "+", False, 0), ("D", "max", False, 0), ("E", None, False, 0)]
    assert shape_of("C[i] += A[i]; D[i] max= A[i]; E[i] = A[i]") == expected
    assert shape_of("\n\n C[i] += A[i] # comment; here\n\n;D[i] max= A[i]\n# all of it\nE[i] = A[i];;\n") == expected


def test_a_statement_goes_on_where_it_is_unfinished():
    assert shape_of("C[i] = A[i] +\n  B[i]\n  * D[i]\n  where i in 0:3,\n  i != 1\nE[i]=C[i]") == [
        ("C", None, False, 2), ("E", None, False, 0)]
    assert shape_of("C[i,\n j] = max(A[i],\n\n B[j])\n-> (C)") == [("C", None, False, 0)]
    assert len(parse("def f(f32[N] A)\n  -> (C)\n{\n  C[i] = A[i]\n}\n\nop g(A[*i]) -> Y[*i]\n{ Y[*i] = A[*i] }")) == 2


@pytest.mark.parametrize("op", ["+", "*", "min", "max", "&", "|", "^"])
def test_updates(op):
    assert shape_of(f"C {op}= A[i]; C[] {op}=! A[i]; C[i]{op}=A[i]") == [
        ("C", op, False, 0), ("C", op, True, 0), ("C", op, False, 0)]


def test_names_that_begin_like_keywords():
    p = lang.build("format[i] = define[i] * minimum[i] + opus[i] + wherever[i] -> (format)",
                   dict.fromkeys(("define", "minimum", "opus", "wherever"), (2,)))
    assert p.outputs == ("format",)


@pytest.mark.parametrize(("text", "value"), [
    ("1 + 2 * 3", 7), ("(1 + 2) * 3", 9), ("7 - 2 - 1", 4), ("-7 // 2", -4), ("-7 % 3", 2), ("1 << 2 + 1", 8),
    ("5 ^ 3 & 1", 4), ("1 | 2 ^ 3", 1), ("2 < 3 ? 4 : 5", 4), ("1 > 2 ? 3 : 4 > 5 ? 6 : 7", 7),
    ("1 < 2 && 2 < 1 || 3 != 4 ? 1 : 0", 1),
    ("!(1 < 2) ? 1 : 2", 2), ("8 / 4 / 2", 1.0), ("1e3 + 0.5", 1000.5),
    ("2.5e-1", 0.25), ("~5", -6), ("- - 3", 3),
    ("true ? inf : nan", float("inf")), ("pi", np.pi)])
def test_precedence(text, value):
    p = lang.build(f"O[i] = A[i] * 0 + ({text})", {"A": (1,)}, {"A": "f64"})
    assert lang.evaluate(p, {"A": np.ones(1)})["O"][0] == value


# ---- the printer: text of an expression reads back as the same expression

SUBSCRIPTS = st.recursive(
    st.sampled_from([pr.Index("i"), pr.Index("j")]),
    lambda e: st.one_of(
        st.builds(lambda a, b, o: pr.Binary(o, a, b, I64), e, e, st.sampled_from("+-")),
        st.builds(lambda a, n, o: pr.Binary(o, a, pr.Const(n, I64), I64), e, st.integers(2, 7),
                  st.sampled_from(["//", "%", "*"]))),
    max_leaves=4)
READS = st.builds(lambda s, d: pr.Read("A", (s,), F32, d), SUBSCRIPTS, st.sampled_from([None, pr.Const(0.5, F32)]))


def _floats(e):
    return st.one_of(
        st.builds(lambda a, b, o: pr.Binary(o, a, b, F32), e, e, st.sampled_from(["+", "-", "*", "/", "//", "%"])),
        st.builds(lambda a: pr.Unary("-", a, F32), e),
        st.builds(lambda a, b: pr.Call("max", (a, b), F32), e, e),
        st.builds(lambda a, b, c, d, o: pr.Select(pr.Binary(o, a, b, BOOL), c, d, F32), e, e, e, e,
                  st.sampled_from(["<", "<=", "==", "!="])),
        st.builds(lambda a, b, c, o: pr.Select(pr.Binary(o, pr.Binary("<", a, b, BOOL), pr.Unary("!", pr.Binary(
            ">", b, a, BOOL), BOOL), BOOL), a, c, F32), e, e, e, st.sampled_from(["&&", "||"])))


@settings(max_examples=50, deadline=None)
@given(st.recursive(READS, _floats, max_leaves=8))
def test_printed_expressions_read_back(e):
    read_back(e)


@pytest.mark.long
@settings(max_examples=1000, deadline=None)
@given(st.recursive(READS, _floats, max_leaves=8))
def test_many_printed_expressions_read_back(e):
    read_back(e)


def read_back(e):
    """With i = j = 0 alone every subscript is 0, in bounds of the one element."""
    program = lang.build(f"O[i,j] = {pr.format_expr(e)} where i in 0:1, j in 0:1", {"A": (1,)})
    assert program.statement("S1").value == e


def test_floats_with_nothing_before_or_after_the_point():
    for text, value in (("1.", 1.0), (".5", 0.5), ("1.e2", 100.0), (".5e-1", 0.05), ("2.25", 2.25), ("3e2", 300.0)):
        found = parse(f"C[i] = A[i]*{text}")[0].body[0].value.b.value
        assert type(found) is float
        assert found == value
    assert parse("C[i] = A[i] + A.0")[0].body[0].value.b.axis == 0


def test_names_have_at_most_200_characters():
    assert parse(f"{'x' * 200}[i] = A[i]")[0].body[0].target == "x" * 200


def test_the_tables_of_the_parser_are_kept_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLYTC_CACHE", "1")
    monkeypatch.setenv("POLYTC_CACHE_DIR", str(tmp_path))
    text = "def f(A, B) -> (C, D) {\n  C[i] = A[i] +\n    B[i]\n  D[i] = (A[i-1] else 0)\n}"

    def parsed() -> object:
        parser._parser.cache_clear()
        parser.parse.cache_clear()
        return parser.parse(text)

    expected = parsed()
    (entry,) = (tmp_path / "code").iterdir()
    with monkeypatch.context() as patch:
        patch.setattr(lark.Lark, "__init__", lambda *a, **o: pytest.fail("the tables were made again"))
        assert parsed() == expected
    cache.put(entry.stem, b"no tables")
    assert parsed() == expected
    assert entry.stat().st_size > 1000  # and kept again
    parser._parser.cache_clear()

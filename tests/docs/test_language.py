"""The examples of docs/language.md do what the comment on their first line says."""

import re
from pathlib import Path

import numpy as np
import pytest

from polytc import lang, stages
from polytc.errors import CompileError
from polytc.program import scalars

TEXT = (Path(__file__).parents[2] / "docs" / "language.md").read_text()
EXAMPLES = re.findall(r"^```\n# (.*?) -> (.*?)\n(.*?)^```", TEXT, re.M | re.S)
TENSOR = re.compile(r"(?:([a-z]+\d+) )?(\w+)\[([\d,]*)\]")


def tensors(text):
    """name -> (shape, type)."""
    return {n: (tuple(int(x) for x in dims.split(",") if x), t or "f32") for t, n, dims in TENSOR.findall(text)}


def numbers(text):
    return {n: eval(v) for n, v in re.findall(r"(\w+)=(\([\d,]+\)|[\d.]+)", text)}


def build(given, text):
    inputs, more = tensors(given), numbers(given)
    options = {"attrs": more} if text.lstrip().startswith("op") else {"scalars": more}
    return stages.build(text, {n: s for n, (s, _) in inputs.items()}, {n: t for n, (_, t) in inputs.items()}, **options)


def regular(tensor):
    """Ones; a regular matrix, for those who divide by pivots."""
    ones = np.ones(tensor.shape, tensor.dtype.numpy)
    return ones + len(ones) * np.eye(len(ones), dtype=ones.dtype) if ones.ndim == 2 and ones.shape[0] == ones.shape[1] else ones


@pytest.mark.parametrize(("given", "expected", "text"), EXAMPLES, ids=[e[2].split("\n")[0][:50] for e in EXAMPLES])
def test_example(given, expected, text):
    if re.fullmatch(r"E\d+", expected):
        with pytest.raises(CompileError) as error:
            build(given, text)
        assert error.value.code == expected
        return
    program = build(given, text)
    assert {n: program.tensor(n).shape for n in program.outputs} == {n: s for n, (s, _) in tensors(expected).items()}
    arrays = {n: regular(program.tensor(n)) for n in program.inputs}
    assert all(np.isfinite(a).all() for a in lang.evaluate(program, arrays).values())


def test_there_are_examples():
    assert len(EXAMPLES) >= 15
    assert TEXT.count("```") == 2 * len(EXAMPLES)


def test_the_intrinsics_and_types_are_all_listed():
    words = set(re.findall(r"\w+", TEXT))
    assert set(scalars.FUNCTIONS) <= words
    assert set(scalars.DTYPES) <= words

"""Tensors of words: numbers, or parts of them, side by side."""

from __future__ import annotations

import numpy as np

from polytc.lang import build
from polytc.program import program as pr
from polytc.program.calls.words import PARTS, parts
from polytc.program.evaluator import evaluate
from polytc.program.scalars import BF16, I8
from polytc.rewrite.word_tensors import Factor, Words, WordTensors, along


def factor(program: pr.Program, n: int) -> Factor:
    return Factor(pr.reads(program.statements[-1])[n])


def words_of(program: pr.Program, made: WordTensors, read: pr.Read, **arrays: np.ndarray) -> np.ndarray:
    """The contents of the word tensor."""
    tensor = next(t for t in made.tensors if t.name == read.tensor)
    shown = pr.Program("p", tuple(made.tensors), tuple(made.statements), program.inputs, (tensor.name,))
    return np.asarray(evaluate(shown, arrays)[tensor.name])


def test_four_bytes_and_what_is_left_of_them() -> None:
    """10 bytes are two words and a half one; a fourth is 0."""
    program = build("C[i,j] += i32(A[i,k])*i32(B[k,j])", {"A": (3, 10), "B": (10, 5)}, {"A": "i8", "B": "i8"})
    made = WordTensors(program)
    index = along(program, program.statements[-1], (factor(program, 0), factor(program, 1)), 4)
    assert index is not None
    assert index.index == "k"
    read = made.words(Words(factor(program, 0), I8, 1, 10, 4))
    a = np.arange(30, dtype=np.int8).reshape(3, 10) - 15
    found = words_of(program, made, read, A=a, B=np.zeros((10, 5), np.int8))
    expected = np.zeros((3, 16), np.int8)
    expected[:, :10] = a
    np.testing.assert_array_equal(found.view(np.int8).reshape(3, 16), expected)


def test_parts_of_two_numbers() -> None:
    program = build("C[i,j] += A[i,k]*B[k,j]", {"A": (3, 7), "B": (7, 5)}, {})
    b = np.random.default_rng(0).standard_normal((7, 5)).astype(np.float32)
    b[3, 2] = np.inf
    padded = np.zeros((8, 5), np.float32)
    padded[:7] = b
    for n, part in enumerate(PARTS):
        made = WordTensors(program)
        read = made.words(Words(factor(program, 1), BF16, 0, 7, 4, part))
        found = words_of(program, made, read, A=np.zeros((3, 7), np.float32), B=b)
        low, high = parts(padded[::2], padded[1::2])[n]
        np.testing.assert_array_equal(found, low.astype(np.uint32) | high.astype(np.uint32) << np.uint32(16))

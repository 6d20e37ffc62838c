"""Definitions in `where` that use each other: the time to read them grows with their number, not with what they stand for."""

import time

import numpy as np
import pytest

import polytc
from polytc import lang
from polytc.errors import CompileError


def chain(count, step, first="k0 = i", use="k{0} - i"):
    """`count` definitions, each made of the one before."""
    lets = [first, *(f"k{n} = " + step.format(f"k{n - 1}") for n in range(1, count + 1))]
    return f"O[i] = A[{use.format(f'k{count}')}] + 1 where i in 0:5, " + ", ".join(lets)


def evaluated(text, size=5):
    return lang.evaluate(lang.build(text, {"A": (size,)}), {"A": np.arange(size, dtype=np.float32)})["O"]


def test_sums_that_double_take_no_time():
    begin = time.process_time()
    text = chain(40, "{0} + {0}", use="{0} - 1099511627775*i")
    np.testing.assert_array_equal(evaluated(text), np.arange(5) + 1)
    assert time.process_time() - begin < 3  # text put in place of names took hours


@pytest.mark.part(2)
@pytest.mark.parametrize("step", ["{0} + 1", "1 + {0}", "2*{0} - {0}", "{0} + {0} - {0}", "-(-{0})", "({0} + 3) - 2*1"])
def test_two_hundred_definitions(step):
    shift = {"{0} + 1": 200, "1 + {0}": 200, "({0} + 3) - 2*1": 200}.get(step, 0)
    found = evaluated(chain(200, step, use="{0} - " + str(shift)))
    np.testing.assert_array_equal(found, np.arange(5) + 1)


@pytest.mark.parametrize("place", ["O[i] = A[i] where i in 0:5, k{0} >= 0, ", "O[i] = f32(k{0}) + A[i] where i in 0:5, ",
                                   "O[i] = i < k{0} ? A[i] : 0 where i in 0:5, ", "O[i] += A[j] where i in 0:5, j in i:k{0}, "])
def test_coefficients_beyond_64_bits_are_refused(place):
    text = place.format(200) + chain(200, "{0} + {0}").partition("0:5, ")[2]
    with pytest.raises(CompileError) as caught:
        lang.build(text, {"A": (5,)})
    assert {d.code for d in caught.value.diagnostics} <= {"E306", "E201"}


@pytest.mark.parametrize("step", ["{0} * {0}", "exp({0}) + {0}", "max({0}, -{0})", "{0} > 1 ? {0} : 2"])
def test_values_that_double_are_refused_before_they_are_large(step):
    begin = time.process_time()
    with pytest.raises(CompileError) as caught:
        lang.build(chain(200, step, first="k0 = A[i]", use="i] + {0} * A[i"), {"A": (5,)})
    assert {d.code for d in caught.value.diagnostics} == {"E311"}
    assert time.process_time() - begin < 3
    np.testing.assert_allclose(evaluated(chain(3, "{0} * {0}", first="k0 = A[i]", use="i] + {0} * A[i")),
                               np.arange(5.0) + np.arange(5.0) ** 9 + 1)


def test_a_definition_by_itself_is_refused():
    with pytest.raises(CompileError) as caught:
        lang.build("O[i] = A[a] where i in 0:5, a = b + 1, b = a - i", {"A": (5,)})
    assert caught.value.code == "E114"


@pytest.mark.part(4)
@pytest.mark.parametrize("step", ["{0} + A[i]", "-{0}", "exp({0})", "max({0}, A[i])", "f32(f64({0}))"])
@pytest.mark.parametrize("count", [160, 400, 1000])
def test_values_that_grow_deep_are_refused(step, count):
    with pytest.raises(CompileError) as caught:
        lang.build(chain(count, step, first="k0 = A[i]", use="i] + {0} + A[i"), {"A": (5,)})
    assert {d.code for d in caught.value.diagnostics} == {"E006"}


def test_the_levels_of_the_statement_count_too():
    text = "O[i] = " + "A[i] + (" * 100 + "k100" + ")" * 100 + " where k0 = A[i], "
    with pytest.raises(CompileError) as caught:
        lang.build(text + ", ".join(f"k{n} = k{n - 1} + A[i]" for n in range(1, 101)), {"A": (5,)})
    assert {d.code for d in caught.value.diagnostics} == {"E006"}


@pytest.mark.part(3)
@pytest.mark.parametrize("target", ["interp", "cpu", "opencl"])
@pytest.mark.parametrize("step", ["{0} + A[i]", "max({0}, A[i])", "-{0}"])
def test_every_target_takes_what_is_not_refused(step, target):
    A = np.full(5, 2, dtype=np.float32)
    lets = ", ".join(f"k{n} = " + step.format(f"k{n - 1}") for n in range(1, 147))
    found = polytc.run(f"O[i] = k146 where k0 = A[i], {lets}", A=A, target=target)
    np.testing.assert_array_equal(found, A * 147 if "+" in step else A)

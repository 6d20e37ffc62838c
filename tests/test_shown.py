"""How ops show themselves, the decorator, and results in the library that the arguments came from."""

from __future__ import annotations

import inspect
import sys
import types

import numpy as np
import pytest

import polytc

MM = "def mm(f32[M,K] A, f32[K,N] B) -> (C) { C[i,j] += A[i,k] * B[k,j] }"


def test_names_and_signatures() -> None:
    op = polytc.compile(MM)
    assert (op.__name__, op.__doc__) == ("mm", MM)
    assert str(inspect.signature(op)) == "(A: 'f32[M,K]', B: 'f32[K,N]', *, out=None) -> 'C'"
    defaults = polytc.compile("def f(c64[N] X, c64 a = 1j, i32 n = 2) -> (Y) { Y[i] = n*a*X[i] }")
    assert str(inspect.signature(defaults)) == "(X: 'c64[N]', a: 'c64' = 1j, n: 'i32' = 2, *, out=None) -> 'Y'"
    assert str(inspect.signature(polytc.compile("Y[i] = a*X[i]"))) == "(a, X: '[_]', *, out=None) -> 'Y'"
    assert not hasattr(op, "nothing")


def test_notebooks_show_text_and_types() -> None:
    html = polytc.compile(MM)._repr_html_()
    assert "f32[M,K]" in html
    assert "-&gt; (C)" in html
    assert "B[k,j]" in polytc.compile("C[i,j] += A[i,k]*B[k,j]", constants={"B": np.ones((2, 2), np.float32)})._repr_html_()


def test_the_decorator() -> None:
    @polytc.compiled
    def mm(A, B):
        "C[i,j] += A[i,k] * B[k,j]"

    @polytc.compiled(threads=1)
    def softmax(X):
        """
        M[i] max= X[i,j]
        E[i,j] = exp(X[i,j] - M[i]); S[i] += E[i,j]
        Y[i,j] = E[i,j] / S[i]
        """

    a = np.random.default_rng(0).random((3, 3), np.float32)
    np.testing.assert_allclose(mm(a, a), a @ a, rtol=1e-5)
    np.testing.assert_allclose(softmax(a).sum(1), 1, rtol=1e-5)
    assert softmax.__name__ == "softmax"
    assert mm.__module__ == __name__


def test_the_decorator_refuses() -> None:
    with pytest.raises(polytc.ArgumentError, match="docstring"):
        polytc.compiled(lambda A: A)

    def double(X):
        "Y[i] = 2*A[i]"
    with pytest.raises(polytc.ArgumentError, match=r"def double\(A\)"):
        polytc.compiled(double)


class Array:
    """An array of a library of its own."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


@pytest.fixture
def library(monkeypatch):
    """A library that can take arrays by DLPack, and knows no others."""
    module = types.ModuleType("library_of_tests")
    module.from_dlpack = lambda a: Array(np.from_dlpack(a))
    monkeypatch.setitem(sys.modules, "library_of_tests", module)
    monkeypatch.setattr(Array, "__module__", "library_of_tests")
    return module


def test_results_come_back_in_the_library_of_the_arguments(library) -> None:
    a = Array(np.ones((2, 2), np.float32))
    result = polytc.run("C[i,j] += A[i,k]*B[k,j]", a, np.ones((2, 2), np.float32))
    assert type(result) is Array
    np.testing.assert_array_equal(result.array, np.full((2, 2), 2))
    both = polytc.run("S[i] += A[i,k]; T[k] += A[i,k]", A=a)
    assert [type(x) for x in both] == [Array, Array]
    assert type(polytc.compile("Y[i] += A[i,k]*W[k]", constants={"W": np.ones(2, np.float32)})(a)) is Array
    out = np.zeros((2, 2), np.float32)
    assert polytc.run("C[i,j] = A[i,j]", a, out=out) is out


def test_arrays_of_a_library_that_takes_none_come_back_as_numpy(library) -> None:
    del library.from_dlpack
    assert type(polytc.run("C[i] = A[i]", Array(np.ones(2)))) is np.ndarray


def test_tensors_of_torch() -> None:
    torch = pytest.importorskip("torch")
    a = torch.arange(6, dtype=torch.float32).reshape(2, 3)
    result = polytc.run("C[i,j] += A[i,k]*A[j,k]", a)
    assert torch.equal(result, a @ a.T)
    pytest.importorskip("ml_dtypes")
    halves = polytc.run("C[i,j] = 2*A[i,j]", a.to(torch.bfloat16))
    assert halves.dtype == torch.bfloat16
    assert torch.equal(halves, 2 * a.to(torch.bfloat16))


def test_schedules_name_statements_by_their_tensors() -> None:
    text, shapes = "C[i,j] += A[i,k]*B[k,j]", {"A": (8, 8), "B": (8, 8)}
    assert str(polytc.schedule(text, shapes=shapes).tile("C", i=4)) == str(polytc.schedule(text, shapes=shapes).tile("S1", i=4))
    twice = polytc.schedule("C[i] = A[i] where i in 0:4; C[i] = A[i] where i in 4:8", shapes={"A": (8,)})
    with pytest.raises(polytc.PolytcError, match="several statements") as raised:
        twice.split("C", "i", 2)
    assert "S1, S2" in " ".join(raised.value.notes)

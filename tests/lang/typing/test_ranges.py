"""Range inference: the table of docs/language.md against its formulas, at many sizes; what cannot be inferred is refused."""

import itertools

import pytest

from polytc import lang
from polytc.errors import CompileError


def bounds(text, tensor, **shapes):
    """(lower, extent) of each dimension of `tensor`."""
    t = lang.build(text, shapes).tensor(tensor)
    return tuple(zip(t.lower, t.shape))


@pytest.mark.parametrize("n", [1, 2, 7, 124, 247])
def test_shift_and_stride(n):
    assert bounds("O[i] = I[i-1]", "O", I=(n,)) == ((1, n),)
    assert bounds("O[i] = I[123*i]", "O", I=(n,)) == ((0, (n + 122) // 123),)
    assert bounds("O[i] = I[5-i]", "O", I=(n,)) == ((6 - n, n),)
    assert bounds("O[i] = I[i//3]", "O", I=(n,)) == ((0, 3 * n),)


@pytest.mark.parametrize(("h", "k"), list(itertools.product([7, 8, 20], [1, 2, 3, 5])))
def test_convolutions(h, k):
    assert bounds("O[i] += I[i+k]*W[k]", "O", I=(h,), W=(k,)) == ((0, h - k + 1),)
    assert bounds("O[i] += I[2*i+k]*W[k]", "O", I=(h,), W=(k,)) == ((0, (h - k) // 2 + 1),)
    assert bounds("O[i] += I[i-k]*W[k]", "O", I=(h,), W=(k,)) == ((k - 1, h - k + 1),)


@pytest.mark.parametrize(("h", "k"), [(20, 3), (21, 3), (20, 4), (33, 5), (9, 1)])
def test_padded_variant_starts_at_three(h, k):
    text = "pad[h] = I[h-5]; tmp[h] += pad[2*h+kh]*W[kh]"
    assert bounds(text, "pad", I=(h,), W=(k,)) == ((5, h),)
    assert bounds(text, "tmp", I=(h,), W=(k,)) == ((3, (h - k + 1) // 2),)


@pytest.mark.parametrize(("i0", "i1", "i2"), [(2, 5, 3), (1, 4, 4), (4, 4, 1)])
def test_reduction_beside_an_index(i0, i1, i2):
    p = lang.build("O[j,k] += I[j, i+j, k]", {"I": (i0, i1, i2)})
    assert p.tensor("O").shape == (i0, i2)
    assert p.statement("S1").ranges[-1].extent == i1 - i0 + 1


@pytest.mark.parametrize(("h", "w", "kh", "kw"), [(40, 12, 3, 3), (31, 9, 2, 4), (50, 17, 5, 2), (17, 3, 1, 3)])
def test_coupled_subscripts_solve_the_simple_one_first(h, w, kh, kw):
    p = lang.build("O[h,w] += I[2*h+3*w+kh, 2*w+kw] * W[kh,kw]", {"I": (h, w), "W": (kh, kw)})
    w_last = (w - kw) // 2
    assert p.tensor("O").shape == ((h - kh - w_last * 3) // 2 + 1, w_last + 1)
    assert p.statement("S1").indices == ("h", "w", "kh", "kw")


def test_two_readers_intersect():
    assert bounds("T[i] = B[i]; O[i] = A[i] + T[i]", "O", A=(7,), B=(5,)) == ((0, 5),)
    assert bounds("O[i] = A[i-2] + B[i]", "O", A=(7,), B=(5,)) == ((2, 3),)


def test_where_forms():
    assert bounds("O[i] = I[i] where i in 3:I.shape[0]-1", "O", I=(20,)) == ((3, 16),)
    assert bounds("O(i) = I(i) where i in 3:I.0-1", "O", I=(20,)) == ((3, 16),)
    assert bounds("O[i] = I[i] where i >= 3, i < 9", "O", I=(20,)) == ((3, 6),)
    assert bounds("O[i] = I[k] where k = i + n, n = 2, i in 0:4", "O", I=(20,)) == ((0, 4),)
    p = lang.build("O[i] += I[k] where k in 0:i+1, i in 0:6", {"I": (6,)})
    assert [(r.index, r.lower, r.upper) for r in p.statement("S1").ranges] == [("i", 0, 6), ("k", 0, 6)]
    assert len(p.statement("S1").where) == 1
    p = lang.build("O[i,j] += I[i] where j >= 0, j <= i", {"I": (4,)})
    assert p.tensor("O").shape == (4, 4)
    p = lang.build("s += I[i] where i in 1:20:4", {"I": (20,)})
    assert [(r.lower, r.upper) for r in p.statement("S1").ranges] == [(1, 18)]
    assert lang.build("s += I[i] where i % 5 == 2", {"I": (20,)}).statement("S1").ranges[0].extent == 16


def test_conditions_that_always_hold_disappear():
    p = lang.build("O[i] = I[i] where i >= 2, i <= 100", {"I": (9,)})
    assert p.statement("S1").where == ()
    assert p.tensor("O").lower == (2,)


def test_guarded_reads_do_not_constrain():
    text = "O[h] += (I[2*h+r-1] else 0) * W[r] where h in 0:5"
    assert bounds(text, "O", I=(9,), W=(3,)) == ((0, 5),)
    assert bounds("O[i] = A[i] + (B[i] else 0)", "O", A=(7,), B=(3,)) == ((0, 7),)
    assert bounds("O[n,h] = (I[n,h-1] else 0) where h in 0:9", "O", I=(4, 7)) == ((0, 4), (0, 9))


def test_declared_target_is_the_last_resort():
    p = lang.build("def f(f32[N] X) -> (f32[N] P) { P[i] += X[k] where k <= i }", {"X": (8,)})
    assert p.tensor("P").shape == (8,)
    p = lang.build("def f(f32[N] X) -> (f32[N+2] P) { P[i] = (X[i-1] else 0) }", {"X": (8,)})
    assert p.tensor("P").shape == (10,)


def test_update_of_a_written_tensor_takes_its_bounds():
    p = lang.build("C[i,j] += A[i,j]; C[i,j] += b[j]", {"A": (3, 4), "b": (4,)})
    assert [s.name for s in p.statements] == ["S1_init", "S1", "S2"]
    assert p.tensor("C").shape == (3, 4)


def test_hull_of_all_writers():
    p = lang.build("O[i] = A[i]; O[i+4] = B[i]", {"A": (4,), "B": (3,)})
    assert (p.tensor("O").lower, p.tensor("O").shape) == ((0,), (7,))


@pytest.mark.parametrize(("u", "x", "named"), [("0:2:2", "0:u", "x"), ("1:-1:-2", "u:1", "x-1")])
def test_only_what_names_a_range_without_values_has_none(u, x, named):
    """`u` is one number, for which `x` has no values; the ends of `u`, which is taken in steps, do not tell."""
    text = """
        for t in 0:-1:-2 {
            for u in %s {
                T[1,i] += X[u,i] where i in 0:3
                for x in %s { T[i,j] = X[t,t] where i in %s:2, j in 0:3 }
            }
        }"""
    assert bounds(text % (u, x, "t"), "T", X=(8, 3)) == ((0, 2), (0, 3))
    assert bounds(text % (u, x, named), "T", X=(8, 3)) == ((1, 1), (0, 3))


def test_quotients_and_remainders():
    assert bounds("O[i] = X[i//4, i%4]", "O", X=(3, 4)) == ((0, 12),)
    p = lang.build("O[c,h,w] = I[4*c + 2*(h%2) + w%2, h//2, w//2]", {"I": (8, 3, 5)})
    assert p.tensor("O").shape == (2, 6, 10)


def test_gathers_do_not_constrain():
    p = lang.build("O[b,d] += T[I[b,k], d]", {"T": (100, 8), "I": (4, 3)}, {"I": "i64"})
    assert p.tensor("O").shape == (4, 8)


def test_order_of_indices():
    p = lang.build("C[i,j] += B[k,j]*A[i,l,k]", {"A": (2, 3, 4), "B": (4, 5)})
    assert p.statement("S1").indices == ("i", "j", "k", "l")


@pytest.mark.parametrize("text", [
    "O[i,j] = I[i,i+j,j]",
    "O[i,j] = I[i+j,i+j,i+j]",
    "O[i,j,k,l] = I[j,i,k]",
    "O[i,j,k] += I[i,j,i+j+k+l]",
])
def test_ambiguous_ranges_are_refused(text):
    with pytest.raises(CompileError) as error:
        lang.build(text, {"I": (4, 4, 4)})
    assert error.value.code in ("E201", "E203")


def test_coupled_reads_are_accepted_where_they_fit():
    assert lang.build("O[i,j] = I[i,i+j,j]", {"I": (4, 6, 3)}).tensor("O").shape == (4, 3)
    with pytest.raises(CompileError):
        lang.build("O[i,j] = I[i,i+j,j]", {"I": (4, 5, 3)})


@pytest.mark.parametrize("text", [
    "C[i] = i % 2 == 0 ? x[i+1] - x[i] : x[i] - x[i+1]", "C[i] = x[i] > 0 ? x[i] - x[i-1] : x[i]"])
def test_windows_in_choices_leave_nothing_of_one_element(text):
    for n in (1, 2, 5):
        assert lang.build(text, {"x": (n,)}).tensor("C").shape == (n - 1,)


def test_choices_by_values_leave_nothing_of_a_window_of_two_elements():
    assert lang.build("C[i] = x[i] > 0 ? x[i] - x[i-1] : x[i+1] - x[i]", {"x": (2,)}).tensor("C").shape == (0,)
    assert lang.build("C[i] = i > 0 ? x[i] - x[i-1] : x[i+1] - x[i]", {"x": (2,)}).tensor("C").shape == (2,)

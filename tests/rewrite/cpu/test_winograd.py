"""Winograd's convolutions against sums in f64: shapes, paddings, orders of indices, batches, groups, blocks of tiles."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import polytc
from polytc import lang
from polytc.compiler import Lowered, compile_program, lower_program
from polytc.lang import evaluate
from polytc.machine import AVX512
from polytc.program import program as pr
from polytc.program.calls.matrix_rows import row_indices
from polytc.program.program import Program
from polytc.rewrite.cpu.winograd import choice, convolution, winograd_text
from polytc.rewrite.cpu.winograd.cook_toom import correlation
from polytc.stages import build
from polytc.targets.llvm.target import LLVMTarget
from tests import behind

PLAIN = "O[n,m,h,w] += (X[n,c,h+r-1,w+s-1] else 0) * W[m,c,r,s] where h in 0:{H}, w in 0:{W}"


def rewritten(program: Program, results: int, block: int | None = None) -> Program:
    found = {s.name: c for s in program.statements if (c := convolution.recognise(program, s)) is not None}
    return convolution.rewrite(program, {n: convolution.Choice(results, c.tiles(results) if block is None else block)
                                         for n, c in found.items()})


def transforms(program: Program) -> int:
    """Statements that compute rows of the matrices."""
    return sum(bool(row_indices(s)) for s in program.statements)


def sums(x: np.ndarray, w: np.ndarray, before: tuple[int, int], out: tuple[int, int], groups: int = 1) -> np.ndarray:
    """The convolution of n,c,h,w by m,c,r,s in f64, term by term."""
    n, c, high, wide = x.shape
    m = w.shape[0]
    padded = np.zeros((n, c, out[0] + 2 + high, out[1] + 2 + wide))
    padded[:, :, before[0]:before[0] + high, before[1]:before[1] + wide] = x
    result = np.zeros((n, m, *out))
    for g in range(groups):
        mine, own = slice(g * m // groups, (g + 1) * m // groups), slice(g * c // groups, (g + 1) * c // groups)
        for r in range(3):
            for s in range(3):
                window = padded[:, own, r:r + out[0], s:s + out[1]]
                result[:, mine] += np.einsum("nchw,mc->nmhw", window, w[mine, :, r, s].astype(np.float64))
    return result


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def close(found: np.ndarray, expected: np.ndarray, results: int = 4) -> None:
    assert np.abs(found - expected).max() <= {2: 2e-6, 3: 4e-6, 4: 5e-6}[results] * max(1.0, np.abs(expected).max())


@pytest.fixture(autouse=True)
def every_access_is_proved(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The texts of the stages are proved to be sound here, and nowhere else."""
    if "large" not in request.node.name:
        convolution._built.cache_clear()
        monkeypatch.setattr(convolution, "build",
                            lambda text, shapes, scalars, proved: lang.build(text, shapes, scalars=scalars))


@pytest.mark.parametrize("results", [2, 3, 4])
def test_matrices_are_exact(results: int) -> None:
    """y = A (G g * B d) is the correlation, in exact arithmetic, for unit vectors and so for all."""
    f = correlation(results, 3)

    def apply(matrix, vector):
        return [sum((a * b for a, b in zip(row, vector, strict=True)), Fraction(0)) for row in matrix]

    for place in range(f.points):
        for tap in range(3):
            data, taps = [int(k == place) for k in range(f.points)], [int(k == tap) for k in range(3)]
            products = [a * b for a, b in zip(apply(f.weights, taps), apply(f.inputs, data), strict=True)]
            assert apply(f.output, products) == [int(i + tap == place) for i in range(results)]


@pytest.mark.parametrize(("results", "bound"), [(2, 16), (3, 116), (4, 238)])
def test_amplification_is_as_documented(results: int, bound: int) -> None:
    """K^2 of docs/accuracy.md, and a case that comes near it would break it: each error stays below k u K^2 D S."""
    f = correlation(results, 3)
    sums_of_b, most_of_g = [sum(map(abs, row)) for row in f.inputs], [max(map(abs, row)) for row in f.weights]
    worst = max(sum(abs(a) * b * g for a, b, g in zip(row, sums_of_b, most_of_g, strict=True)) for row in f.output)
    assert round(float(worst) ** 2) == bound
    x, w = random(1, 24, 8, 8), random(3, 24, 3, 3)
    program = build(PLAIN.format(H=8, W=8), {"X": x.shape, "W": w.shape})
    error = np.abs(evaluate(rewritten(program, results), {"X": x, "W": w})["O"] - sums(x, w, (1, 1), (8, 8)))
    limit = (24 + 26) * 2.0 ** -24 * bound * np.abs(x).max() * np.abs(w).sum((1, 2, 3))
    assert (error < limit[:, None, None]).all()


def test_a_nan_reaches_its_tile_only() -> None:
    x, w = random(1, 2, 16, 16), random(2, 2, 3, 3)
    x[0, 1, 8, 8] = np.nan
    program = build(PLAIN.format(H=16, W=16), {"X": x.shape, "W": w.shape})
    found = evaluate(rewritten(program, 4), {"X": x, "W": w})["O"]
    assert np.isnan(found[:, :, 7:10, 7:10]).all()
    found[:, :, 4:12, 4:12] = 0                                   # place 8 is in the windows of tiles 1 and 2
    assert np.isfinite(found).all()


@settings(max_examples=6, deadline=None)
@given(st.data())
def test_random_convolutions_equal_the_sums(data: st.DataObject) -> None:
    n, c, m, g = (data.draw(st.integers(1, high), name) for name, high in (("n", 3), ("c", 4), ("m", 5), ("g", 2)))
    high, wide = data.draw(st.integers(3, 11)), data.draw(st.integers(3, 11))
    top, left, bottom, right = (data.draw(st.integers(0, 2)) for _ in range(4))
    out = (high + top + bottom - 2, wide + left + right - 2)
    results, block = data.draw(st.sampled_from([2, 3, 4])), data.draw(st.integers(1, 9))
    text = (f"O[n,{m}*g+m,h,w] += (X[n,{c}*g+c,h+r-{top},w+s-{left}] else 0) * W[{m}*g+m,c,r,s]"
            f" where g in 0:{g}, m in 0:{m}, c in 0:{c}, h in 0:{out[0]}, w in 0:{out[1]}")
    x, w = random(n, g * c, high, wide), random(g * m, c, 3, 3)
    program = rewritten(build(text, {"X": x.shape, "W": w.shape}), results, block)
    assert transforms(program)
    close(evaluate(program, {"X": x, "W": w})["O"], sums(x, w, (top, left), out, g), results)


@pytest.mark.parametrize(("text", "data", "weights"), [
    ("O[h,w,m] += X[h+r,w+s,c] * W[r,s,c,m]", (0, 2, 3, 1), (2, 3, 1, 0)),
    ("O[m,w,h] += W[s,m,r,c] * X[c,w+s,h+r]", (0, 1, 3, 2), (3, 0, 2, 1)),
])
def test_indices_stand_in_any_order(text: str, data: tuple[int, ...], weights: tuple[int, ...]) -> None:
    x, w = random(1, 4, 9, 8), random(5, 4, 3, 3)
    arrays = {"X": np.ascontiguousarray(x.transpose(data)[0]), "W": np.ascontiguousarray(w.transpose(weights))}
    program = build(text, {k: a.shape for k, a in arrays.items()})
    found = evaluate(rewritten(program, 4), arrays)["O"]
    order = {"O[h,w,m]": (1, 2, 0), "O[m,w,h]": (0, 2, 1)}[text.split(" ")[0]]
    close(found, sums(x, w, (0, 0), (7, 6))[0].transpose(order))


def test_large_batches() -> None:
    """32 images of 56x56 with 64 channels were refused (E204): their stages have too many points to look at each."""
    program = build(PLAIN.format(H=56, W=56), {"X": (32, 64, 56, 56), "W": (64, 64, 3, 3)})
    assert transforms(rewritten(program, 4))


def test_reversed_taps() -> None:
    x, w = random(1, 3, 6, 7), random(2, 3, 3, 3)
    text = "O[m,h,w] += (X[c,h-r+1,w-s+1] else 0) * W[m,c,r,s] where h in 0:6, w in 0:7"
    program = build(text, {"X": x.shape[1:], "W": w.shape})
    close(evaluate(rewritten(program, 4), {"X": x[0], "W": w})["O"], sums(x, w[:, :, ::-1, ::-1], (1, 1), (6, 7))[0])


def test_sums_onto_what_is_there() -> None:
    x, w, b = random(1, 3, 6, 6), random(2, 3, 3, 3), random(2)
    text = """def f(X[N, c, y, x], W[m, c2, r, s], B[m]) -> O {
        O[n,k,i,j] = B[k] where n in 0:1, i in 0:4, j in 0:4
        O[n,k,i,j] += X[n,q,i+a,j+b] * W[k,q,a,b]
    }"""
    program = build(text, {"X": x.shape, "W": w.shape, "B": b.shape})
    found = evaluate(rewritten(program, 2), {"X": x, "W": w, "B": b})["O"]
    close(found, sums(x, w, (0, 0), (4, 4)) + b[:, None, None], 2)


def test_what_a_sum_starts_from_joins_the_result() -> None:
    """A bias that was written first is added where the result is written: the copy back is one statement."""
    text = """def f(X[N, c, y, x], W[m, c2, r, s], B[m]) -> Z {
        O[n,k,i,j] = B[k] where n in 0:1, i in 0:8, j in 0:8
        O[n,k,i,j] += X[n,q,i+a,j+b] * W[k,q,a,b]
        Z[n,k,i,j] = max(O[n,k,i,j], 0)
    }"""
    x, w, b = random(1, 16, 10, 10), random(16, 16, 3, 3), random(16)
    program = rewritten(build(text, {"X": x.shape, "W": w.shape, "B": b.shape}), 4)
    assert [s.op for s in program.statements if s.target == "O"] == [None]
    final = lower_program(program, LLVMTarget(AVX512)).rewritten.statements[-1]
    assert final.target == "Z"
    assert {r.tensor for r in pr.reads(final)} >= {"B"}
    close(evaluate(program, {"X": x, "W": w, "B": b})["Z"], np.maximum(sums(x, w, (0, 0), (8, 8)) + b[:, None, None], 0))


def test_zeros_in_a_dimension_of_one_image_join_too() -> None:
    """As fusion of a model leaves it: the image's number is 0, no index."""
    text = """def f(X[N, c, y, x], W[m, c2, r, s]) -> O {
        O[0,k,i,j] = 0 where k in 0:5, i in 0:4, j in 0:4
        O[0,k,i,j] += X[0,q,i+a,j+b] * W[k,q,a,b]
    }"""
    x, w = random(1, 3, 6, 6), random(5, 3, 3, 3)
    program = rewritten(build(text, {"X": x.shape, "W": w.shape}), 2)
    assert [s.op for s in program.statements if s.target == "O"] == [None]
    close(evaluate(program, {"X": x, "W": w})["O"], sums(x, w, (0, 0), (4, 4)), 2)


def test_a_start_that_changes_before_the_sum_is_kept() -> None:
    text = """def f(inout B[m], X[N, c, y, x], W[m, c2, r, s]) -> (O, B) {
        O[n,k,i,j] = B[k] where n in 0:1, i in 0:4, j in 0:4
        B[k] = B[k] * 2
        O[n,k,i,j] += X[n,q,i+a,j+b] * W[k,q,a,b]
    }"""
    x, w, b = random(1, 3, 6, 6), random(2, 3, 3, 3), random(2)
    program = rewritten(build(text, {"X": x.shape, "W": w.shape, "B": b.shape}), 2)
    assert [s.op for s in program.statements if s.target == "O"] == [None, "+"]
    close(evaluate(program, {"X": x, "W": w, "B": b})["O"], sums(x, w, (0, 0), (4, 4)) + b[:, None, None], 2)


@pytest.mark.parametrize("text", [
    "O[m,h,w] += X[c,2*h+r,2*w+s] * W[m,c,r,s]",                                     # stride 2
    "O[m,h,w] += X[c,h+2*r,w+2*s] * W[m,c,r,s]",                                     # dilated
    "O[c,h,w] += X[c,h+r,w+s] * W[c,r,s]",                                           # no sum over channels
    "O[m,h,w] += (X[c,h+r-1,w+s-1] else 1) * W[m,c,r,s] where h in 0:8, w in 0:8",   # padded by ones
    "O[m,h,w] max= X[c,h+r,w+s] * W[m,c,r,s]",
    "O[m,h,w] += X[c,h+r,w+s] * W[m,c,r,s] where r <= s",
    "O[m,h,w] += X[c,h+r,w+r] * W[m,c,r,s]",
    "O[m,h,w] += (X[c,h+r-9,w+s] else 0) * W[m,c,r,s] where h in 0:4, w in 0:6",  # nothing but padding
])
def test_other_forms_are_left_alone(text: str) -> None:
    rank = text.partition("W[")[2].partition("]")[0].count(",")
    program = build(text, {"X": (4, 8, 8), "W": (3, 4, 3, 3) if rank == 3 else (4, 3, 3)})
    assert rewritten(program, 4) is program


@pytest.mark.parametrize("dtype", ["f64", "i32"])
def test_other_types_are_left_alone(dtype: str) -> None:
    program = build(PLAIN.format(H=8, W=8), {"X": (1, 4, 8, 8), "W": (3, 4, 3, 3)}, {"X": dtype, "W": dtype})
    assert rewritten(program, 4) is program


@pytest.mark.part(2)
@pytest.mark.parametrize(("results", "block"), [
    (2, None), (4, 5), pytest.param(2, 5, marks=pytest.mark.long), pytest.param(4, None, marks=pytest.mark.long)])
def test_compiled_with_bias_and_relu(results: int, block: int | None) -> None:
    x, w, b = random(2, 20, 13, 14), random(35, 20, 3, 3), random(35)
    text = """def f(X[N, c, y, x], W[m, c2, r, s], B[m]) -> Z {
        O[n,k,i,j] += (X[n,q,i+a-1,j+b-1] else 0) * W[k,q,a,b] where i in 0:13, j in 0:14
        Z[n,k,i,j] = max(O[n,k,i,j] + B[k], 0)
    }"""
    program = rewritten(replace(build(text, {"X": x.shape, "W": w.shape, "B": b.shape}), constants=("W", "B")), results, block)
    out = np.empty((2, 35, 13, 14), np.float32)
    compile_program(program, "cpu", 2).run([x, w, b, out])
    close(out, np.maximum(sums(x, w, (1, 1), (13, 14)) + b[:, None, None], 0), results)


def lowered(**options: str) -> Lowered:
    return polytc.lower(PLAIN.format(H=28, W=28), shapes={"X": (1, 64, 28, 28), "W": (64, 64, 3, 3)}, **options)


def test_chosen_where_it_pays_and_forbidden_on_request() -> None:
    program = build(PLAIN.format(H=28, W=28), {"X": (1, 64, 28, 28), "W": (64, 64, 3, 3)})
    assert transforms(behind.rewritten(program, AVX512))
    assert len(lowered(algebra="direct").rewritten.statements) < 6
    few = build(PLAIN.format(H=28, W=28), {"X": (1, 3, 28, 28), "W": (8, 3, 3, 3)})
    assert len(behind.rewritten(few, AVX512).statements) < 6


def test_forbidden_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLYTC_ALGEBRA", "direct")
    assert len(lowered().rewritten.statements) < 6
    assert not lowered(algebra="fast", schedule="program").program.direct
    monkeypatch.setenv("POLYTC_ALGEBRA", "exact")
    with pytest.raises(polytc.ArgumentError, match=r"E410.*POLYTC_ALGEBRA is 'exact'"):
        lowered()
    with pytest.raises(polytc.ArgumentError, match=r"E410.*algebra is 'slow'"):
        polytc.compile("C[i] = A[i]", algebra="slow")


def test_stages_of_a_block_share_its_loop() -> None:
    """All between the padded copy and the last one keeps only a block's slice; the products are register tiles."""
    program = replace(build(PLAIN.format(H=56, W=56), {"X": (1, 64, 56, 56), "W": (64, 64, 3, 3)}), constants=("W",))
    module = lower_program(rewritten(program, 4, 14), LLVMTarget(AVX512)).loops
    assert {b.name for b in module.scratch} == {"O_P", "O_Y"}


def test_precise_programs_keep_their_sums() -> None:
    text = "precise def f(X[c, y, x], W[m, c2, r, s]) -> O { O[k,i,j] += X[q,i+a,j+b] * W[k,q,a,b] }"
    assert len(polytc.lower(text, shapes={"X": (64, 30, 30), "W": (64, 64, 3, 3)}).rewritten.statements) < 6


def test_constant_weights_are_transformed_once() -> None:
    program = replace(build(PLAIN.format(H=14, W=14), {"X": (1, 64, 14, 14), "W": (64, 64, 3, 3)}), constants=("W",))
    lowered = lower_program(rewritten(program, 4))
    assert lowered.prologue is not None
    assert {s.target for s in lowered.prologue.program.statements} >= {"O_F", "O_U"}
    assert not {s.target for s in lowered.rewritten.statements} & {"O_F", "O_U"}


SPATIAL = "O[m,d,h,w] += (X[c,{step}*d+q-1,h+r-1,w+s-1] else 0) * W[m,c,q,r,s] where d in 0:{depth}, h in 0:9, w in 0:8"


def sums_in_space(x: np.ndarray, w: np.ndarray, step: int, depth: int) -> np.ndarray:
    """The convolution of c,d,h,w by m,c,q,r,s, padded by 1, in f64: one in the plane for each tap of the depth."""
    padded = np.pad(x, ((0, 0), (1, 1), (0, 0), (0, 0)))
    planes = [[sums(padded[None, :, step * d + q], w[:, :, q], (1, 1), x.shape[2:])[0] for q in range(3)] for d in range(depth)]
    return np.stack([sum(taps) for taps in planes], 1)


@pytest.mark.part(2)
@pytest.mark.parametrize(("step", "depth", "extent"), [(1, 5, 5), pytest.param(2, 3, 5, marks=pytest.mark.long), (2, 3, 6)])
def test_windows_in_three_dimensions(step: int, depth: int, extent: int) -> None:
    x, w = random(7, extent, 9, 8), random(5, 7, 3, 3, 3)
    program = build(SPATIAL.format(step=step, depth=depth), {"X": x.shape, "W": w.shape})
    found, expected = rewritten(program, 4), sums_in_space(x, w, step, depth)
    assert transforms(found)
    assert found.tensor("O_P").shape[-1] == 7                                  # the channels, not the taps
    close(evaluate(found, {"X": x, "W": w})["O"], expected)
    result = np.empty((5, depth, 9, 8), np.float32)
    compile_program(found, "cpu").run([x, w, result])
    close(result, expected)


@pytest.mark.part(2)
@pytest.mark.parametrize(("text", "taken"), [
    ("O[m,h,w] += (X[c,h+r-1,w+s-1] else 0) * W[m,c,r,s] where h in 0:6, w in 0:6", True),
    ("O[m,h,w] += X[c,h+r,w+s] * W[m,c,r,s]", True),
    ("O[m,h,w] += W[m,c,r,s] * X[c,h+r,w+s]", True),
    ("O[m,h,w] += X[c,h+r,w+s] * W[m,c,r,s] where c in 1:3, m in 1:2, h in 1:4, w in 2:4", True),  # from anywhere
    ("O[m,h,w] += X[c-1,h+r-1,w+s+1] * W[m,c-1,r,s] where c in 1:4, h in 1:4, w in -1:3", True),
    ("O[m,h,w] += (X[c,h+r-1,w+s-1] else 1) * W[m,c,r,s] where h in 0:6, w in 0:6", False),  # padded with another number
    ("O[m,h,w] += X[c,h+r,w+s] * (W[m,c,r,s-1] else 0) where r in 0:3, s in 0:3", False),
    ("O[m,h,w] max= X[c,h+r,w+s] * W[m,c,r,s]", False),
    ("O[m,h,w] += X[c,h+r,w+s] + W[m,c,r,s]", False),
    ("O[m,h,w] += X[c,2*h+r,2*w+s] * W[m,c,r,s] where h in 0:2, w in 0:2", False),
    ("O[m,h,w] += X[c,h+r,w+s] * W[m,c,r,s] where r <= s", False),
    ("O[m,h] += X[c,h+r,s] * W[m,c,r,s] where s in 0:3", False),
])
def test_what_is_such_a_convolution(text: str, taken: bool) -> None:
    program = build(text, {"X": (3, 6, 6), "W": (2, 3, 3, 3)})
    made = rewritten(program, 4)
    assert (made != program) == taken
    arrays = {"X": random(3, 6, 6), "W": random(2, 3, 3, 3)}
    expected = evaluate(program, arrays)["O"]
    assert np.abs(evaluate(made, arrays)["O"] - expected).max() <= 1e-4


def test_tiles_are_chosen_by_their_time() -> None:
    """Many channels pay; few do not. Constant weights cost no transform in a call."""
    def convolution_of(channels: int) -> convolution.Convolution:
        text = PLAIN.format(H=28, W=28)
        program = build(text, {"X": (1, channels, 28, 28), "W": (channels, channels, 3, 3)})
        found = convolution.recognise(program, program.statement("S1"))
        assert found is not None
        return found
    large, small = convolution_of(64), convolution_of(2)
    best = choice.choose(large, False, AVX512)
    assert best is not None
    constant, variable = (choice.time(large, best, fixed, AVX512).seconds for fixed in (True, False))
    assert constant < variable < choice.direct_time(large, AVX512).seconds
    assert choice.choose(small, False, AVX512) is None


def test_the_text_serves_convolutions_of_many_sizes() -> None:
    """Only sizes differ: a definition of Z, and the values of its scalars."""
    def layout(high: int, wide: int) -> winograd_text.Layout:
        program = build(PLAIN.format(H=high, W=wide), {"X": (1, 8, high, wide), "W": (8, 8, 3, 3)})
        found = convolution.recognise(program, program.statement("S1"))
        assert found is not None
        return winograd_text.Layout(found.data, (high, wide), found.weights, found.windows, found.batch, found.groups,
                                    found.channels, found.filters, 4, found.tiles(4))
    one, other = layout(28, 28), layout(12, 20)
    assert winograd_text.stages(one) == winograd_text.stages(other)
    assert winograd_text.sizes(one) != winograd_text.sizes(other)
    assert one.grid == (7, 7)
    assert other.grid == (3, 5)


def test_two_batch_indices() -> None:
    x, w = random(2, 3, 2, 6, 6), random(2, 2, 3, 3)
    program = build(PLAIN.format(H=6, W=6).replace("[n,", "[a,n,"), {"X": x.shape, "W": w.shape})
    expected = np.stack([sums(image, w, (1, 1), (6, 6)) for image in x])
    close(evaluate(rewritten(program, 4), {"X": x, "W": w})["O"], expected)

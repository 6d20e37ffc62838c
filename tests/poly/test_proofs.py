"""What the prover refuses, against an interpreter that runs random programs instance by instance and watches every access."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Iterator

import pytest

from polytc import lang, stages
from polytc.errors import CompileError
from polytc.poly.proofs import Proofs
from polytc.program import program as pr
from polytc.program.affine import affine
from polytc.program.domain import Domain
from polytc.program.evaluator import compute
from polytc.program.scalars import BOOL, I64

N = 6


def number(e: pr.Expr, point: dict[str, int]) -> int:
    return int(compute(e, point, {}, {}))  # type: ignore[arg-type]


def instances(s: pr.Statement, fixed: dict[str, int]) -> Iterator[dict[str, int]]:
    axes = [[fixed[r.index]] if r.index in fixed else range(r.lower, r.upper) for r in s.ranges]
    for values in itertools.product(*axes):
        point = dict(zip(s.indices, values, strict=True))
        if all(r.lower <= point[r.index] < r.upper for r in s.ranges) and all(number(c, point) for c in s.where):
            yield point


class Watch:
    """Runs a program without computing anything. found: codes of what goes wrong."""

    def __init__(self, program: pr.Program) -> None:
        self.program = program
        self.written = {n: set(itertools.product(*self.box(n))) for n in program.inputs}
        self.found: set[str] = set()
        self.run(pr.nested(program.statements), 0, {})
        for n in program.outputs:
            if set(itertools.product(*self.box(n))) - self.written.get(n, set()):
                self.found.add("E214")

    def box(self, name: str) -> list[range]:
        t = self.program.tensor(name)
        return [range(lo, lo + n) for lo, n in zip(t.lower, t.shape, strict=True)]

    def inside(self, name: str, place: tuple[int, ...]) -> bool:
        return all(x in axis for x, axis in zip(place, self.box(name), strict=True))

    def run(self, body: tuple[pr.Nested, ...], depth: int, fixed: dict[str, int]) -> None:
        for x in body:
            if isinstance(x, pr.Loop):
                r = x.range(depth)
                for value in range(r.lower, r.upper):
                    self.run(x.body, depth + 1, fixed | {r.index: value})
            else:
                self.statement(x, list(instances(x, fixed)))

    def statement(self, s: pr.Statement, points: list[dict[str, int]]) -> None:
        writes = [tuple(number(e, p) for e in s.subscripts) for p in points]
        known = self.written.get(s.target, set())
        for k, (p, place) in enumerate(zip(points, writes, strict=True)):
            if not self.inside(s.target, place):
                self.found.add("E203")
            if s.op is not None and place not in known:
                self.found.add("E213")
            for r in pr.reads(s):
                self.read(s, r, tuple(number(e, p) for e in r.subscripts), writes[:k] + writes[k + 1:])
        if s.op is None and max(Counter(writes).values(), default=0) > 1:
            self.found.add("E210")
        self.written[s.target] = known | (set(writes) if s.op is None else set())  # updates write what is written already

    def read(self, s: pr.Statement, r: pr.Read, place: tuple[int, ...], others: list[tuple[int, ...]]) -> None:
        if not self.inside(r.tensor, place):
            self.found |= {"E203"} if r.default is None else set()
            return
        if r.tensor == s.target and place in others:
            self.found.add("E211")
        if place not in self.written.get(r.tensor, set()):
            self.found.add("E213")


def subscript(chance: random.Random, indices: list[str]) -> str:
    e = chance.choice(indices)
    form = chance.random()
    if form < 0.1 and len(indices) > 1:
        return " + ".join(chance.sample(indices, 2))
    if form < 0.15:
        return f"{e}//2"
    return f"{e}{chance.choice(['', '', '', '+1', '-1'])}"


def statement(chance: random.Random, around: list[str]) -> str:
    own = chance.choice([["i"], ["i"], ["i", "j"], []]) if around else chance.choice([["i"], ["i", "j"]])
    indices = around + own
    target = chance.choice("ABCB")
    left = subscript(chance, own or indices) if chance.random() < 0.8 else subscript(chance, indices)
    terms = []
    for _ in range(chance.randint(1, 2)):
        read = f"{chance.choice('ABCX')}[{subscript(chance, indices)}]"
        terms.append(f"({read} else 0.5)" if chance.random() < 0.4 else read)
    op = chance.choice(["=", "=", "=", "+=", "max="]) if all(x in left for x in own) else chance.choice(["+=", "max="])
    where = [f"{x} in {chance.choice([0, 1, 1])}:{chance.choice([N, N - 1, N - 1])}" for x in own]
    if around and own and chance.random() < 0.5:
        where.append(f"{chance.choice(own)} {chance.choice(['<', '<=', '>', '!='])} {chance.choice(around)}")
    return f"{target}[{left}] {op} {' + '.join(terms)}" + (f" where {', '.join(where)}" if where else "")


def block(chance: random.Random, around: list[str]) -> Iterator[str]:
    for _ in range(chance.randint(1, 3)):
        if len(around) < 2 and chance.random() < 0.4:
            index = "tu"[len(around)]
            bounds = [f"1:{N - 1}", f"0:{N}", f"{N - 2}:0:-1", f"1:{N}:2", f"{N - 1}:-1:-2"]
            bounds += [f"{around[0]}:{N - 1}", f"0:{around[0]}+1"] if around else []
            yield f"for {index} in {chance.choice(bounds)} {{ {'; '.join(block(chance, [*around, index]))} }}"
        else:
            yield statement(chance, around)


def program(seed: int) -> tuple[str, pr.Program] | None:
    """A random program that is well formed, whether sound or not."""
    chance = random.Random(seed)
    starts = ["B[i] = X[i] where i in 0:4", "C[i] = 2*X[i]", "C[i] = X[i] where i in 2:6"]
    body = "\n".join([*chance.sample(starts, chance.randint(1, 3)), *block(chance, []), *block(chance, [])])
    text = f"def f(inout f64[N] A, f64[N] X) -> (B) {{\n{body}\n}}"
    try:
        made = lang.build(text, {"A": (N,), "X": (N,)})
    except CompileError:
        return None
    return (text, made) if made.sequential else None


def check(seed: int) -> bool:
    found = program(seed)
    if found is None:
        return False
    text, made = found
    seen = Watch(made).found
    refused = Proofs().refusals(made, {}, {})
    codes = {d.code for d in refused}
    early = {"E203", "E210", "E211"}
    expected = seen & early or seen
    assert codes == expected, f"seed {seed}: watched {seen}, refused {codes}\n{text}\n{made}"
    return True


@pytest.mark.part(9)
@pytest.mark.parametrize("start", range(0, 160, 40))
def test_what_is_refused_is_what_goes_wrong(start: int) -> None:
    assert sum(check(seed) for seed in range(start, start + 40)) > 3


def test_random_programs_are_sound_and_unsound_in_all_ways() -> None:
    """The test above is about something."""
    found = [Watch(p[1]).found for seed in range(60) if (p := program(seed)) is not None]
    assert {code for codes in found for code in codes} == {"E203", "E210", "E211", "E213", "E214"}
    assert set() in found


def test_too_small_a_budget_is_a_refusal_of_its_own() -> None:
    text = "for t in 0:9 { B[t] = X[t]; Y[t] += B[u] where u in 0:9, u <= t }"
    made = lang.build(text, {"X": (9,)})
    assert [d.code for d in Proofs().refusals(made, {}, {})] == []
    assert {d.code for d in Proofs(1).refusals(made, {}, {})} == {"E204"}


def test_hull() -> None:
    i, k = pr.Index("i"), pr.Index("k")
    below = pr.Binary("<=", k, i, BOOL)
    domain = Domain({"i": (0, 10**6), "k": (0, 10**6)}, (below,))
    difference = pr.Binary("-", i, k, I64)
    assert affine(difference) is not None
    assert Proofs().hull((difference, k), domain) == ((0, 10**6), (0, 10**6))


def test_scatters_in_a_loop() -> None:
    """Memory decides where they write: what such a statement reads of its target may be any element."""
    head = "def f(inout f32[9] H, i64[5] I, f32[5] X) -> (H) { for t in 0:3 { H[I[i]] = %s } }"
    shapes, dtypes = {"H": (9,), "I": (5,), "X": (5,)}, {"I": "i64"}
    assert stages.build(head % "X[i] * t", shapes, dtypes).sequential
    with pytest.raises(CompileError) as refusal:
        stages.build(head % "H[I[i]] + X[i]", shapes, dtypes)
    assert refusal.value.code == "E211"

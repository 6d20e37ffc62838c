"""What of the language, and which circumstances, a case uses; and which pairs of these have been seen together."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterable

from tests.generator.case import Case

_TYPES = ("f16", "bf16", "f32", "f64", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "bool")

LANGUAGE: dict[str, str] = {
    "bare": r"\A(?!(?s:.*)def f\()", "def": r"\bdef f\(", "precise": r"\bprecise def", "inout": r"\binout\b",
    "assume": r"\bassume\b", "Tensor Comprehensions": r"\bdef f\([^{]*\b(float|double|half|int|int64)\(",
    "for": r"\bfor \w+ in", "nested for": r"\bfor [^}]*\bfor ", "for down": r"for \w+ in [^{]*:-\d \{",
    "for step": r"for [^{]*:-?2 \{", "triangular for": r"for \w+ in ([a-z]\b|[^{]*:[a-z]\b)", "=": r"\w\]? = ",
    "+=": r"\+= ", "*=": r"\*= ", "min=": r" min= ", "max=": r" max= ", "&=": r"&= ", "|=": r"\|= ", "^=": r"\^= ",
    "-=": r"-= ", "op=!": r"=! ", "argmin": r"argmin=", "argmax": r"argmax=", "acc": r"\bacc\(",
    "stated range": r"\bin (-?\d|N)[^,\n{]*(,|$|\n)", "range step": r"where[^\n]* in [^,\n]*:2\b",
    "range of an index": r"where[^\n]*:[a-z]\b", "range in memory": r"\bin R\d+\[",
    "condition": r"where[^\n]*[ijklm] (<=|<|>=|>|!=) ", "chained comparison": r"-?\d <= [^<\n]* (<|<=|!=) [^<\n]*",
    "condition ||": r"where[^\n]*\|\|",
    "condition %": r"where[^\n]*% \d ==", "mask": r"where[^\n]*\] > 0", "let": r"where[^\n]*\bz = ", "guard": r" else [\d-]",
    "else identity": r"else identity", "else of a read": r" else \(?[TX]\w*\[", "gather": r"[(\[,]I\d+\[",
    "scatter": r"(?m)^ *\w+\[[^=\n]*\bI\d+\[[^=\n]*\] [^=\s]*=", "// in a subscript": r"\[[^\]]*//",
    "% in a subscript": r"\[[^\]]*\w%\w", "scaled subscript": r"\[[^\]]*2\*", "sum of indices": r"\[[^\]]*[a-z]\+[a-z]",
    "clamp in a subscript": r"[\[,]clamp\(", "min max in a subscript": r"[\[,](min|max)\(", "abs in a subscript": r"[\[,]abs\(",
    "?: in a subscript": r"[\[,]\(\w+ [<>!=]", "min max in a range": r" in [^,\n]*(min|max)\(",
    "product in a condition": r"where[^\n]*[a-z]\*[a-z]|where[^\n]*\(\w+ & \w+\) ==",
    "pieces in a condition": r"where[^\n]*(abs\(\w+-|\bmin\(|\bmax\([^\n]*>=|<= min|< \()",
    "mirrored": r"\[[^\]]*\d-[a-z]", "constant subscript": r"[\[,]\d+[\],]", "no dimensions": r"(?m)^ *T\d+ [^=\s]*=",
    "index as a value": r"(?<![\[,:+*])\b[ijklm]\b (<|==|>|\*|\+ )", "?:": r" \? ", "min max": r"\b(min|max)\(",
    "clamp": r"\bclamp\(", "steps": r"\b(floor|ceil|round|trunc|sign)\(",
    "function": r"\b(exp|log|tanh|sin|cos|sigmoid|erf|atan|asinh|log1p|expm1|tan|asin|acos|sinh|cosh|pow|cbrt)\w*\(",
    "sqrt": r"\bsqrt\(", "isnan": r"\bis(nan|inf)\(", "//": r" // ", "%": r" % ", "/": r" / ", "bits": r" [&^] | \| ",
    "shift": r"<<|>>", "~": r"~", "&& ||": r"&&|\|\|", "cast to integer": r"\b[iu]\d+\(", "cast to float": r"\bf\d\d\(",
    "cast to half": r"\bf16\(", "scalar": r"\b(alpha|n)\b", "shape": r"\.shape\[",
    "call of an op": r"= (Scale|Rows|Back|Add|Spread|Pad)\b", "call of a def": r"= (Running|Moments)\(|\) = Moments",
    "call in place": r"\bNudge\(", "several results": r"\(\w+, \w+\) = ",
    "prelude": r"= (relu|softmax|gelu|l2norm|silu|log_softmax|matmul|transpose)\(", "attributes": r"<a=",
    "call in a for": r"\bfor [^}]*\bT\d+ = [A-Za-z]\w*[<(]", "several outputs": r"-> \(\w+, ", "size by name": r"\bN\d+\b",
}
"""Name -> what its text looks like."""


def language(case: Case) -> frozenset[str]:
    """The features of the text and of the types of its inputs."""
    found = {name for name, pattern in LANGUAGE.items() if re.search(pattern, case.text)}
    return frozenset(found | {x.dtype for x in case.inputs})


def circumstances(case: Case) -> frozenset[str]:
    """How it runs, and on what."""
    found = {f"on {case.target.partition('-')[0]}", f"schedule {case.schedule}", f"{case.threads} threads"}
    found |= {f"layout {x.layout}" for x in case.inputs if x.layout} | {f"values {x.values[0]}" for x in case.inputs}
    found |= {"constants="} if case.constants else set()
    found |= {"out="} if case.out else set()
    found |= {"rounding"} if case.smooth else {"integers in floats"}
    found |= {"open size"} if case.open else set()
    return frozenset(found | {kind for x in case.inputs for n in x.shape for kind in sort(n)})


def sort(n: int) -> list[str]:
    """What an extent is."""
    if n < 2:
        return [f"extent {n}"]
    found = ["prime extent"] if all(n % k for k in range(2, n)) else []
    found += ["power of two"] if n & n - 1 == 0 else []
    return found + ["next to a power of two"] * (n > 4 and ((n + 1) & n == 0 or (n - 1) & n - 2 == 0))


_APART = ({"bare", "def"}, {"on cpu", "on interp", "on opencl", "on gpu", "on cc"}, {"1 threads", "2 threads"},
          {"schedule automatic", "schedule program", "schedule isl", "schedule user"}, {"rounding", "integers in floats"},
          *({"bare", x} for x in ("precise", "inout", "assume", "Tensor Comprehensions", "size by name")),
          {"Tensor Comprehensions", "function"})
"""Of these at most one is true of a program."""
ALL = frozenset(LANGUAGE) | set(_TYPES)


def pairs(features: Iterable[str]) -> list[tuple[str, str]]:
    return list(itertools.combinations(sorted(features), 2))


class Coverage:
    """How often each pair of features occurred. Programs are chosen for their rare pairs."""

    def __init__(self, counts: Iterable[tuple[str, str, int]] = ()) -> None:
        self.counts: Counter[tuple[str, str]] = Counter({(a, b): n for a, b, n in counts})

    def add(self, case: Case) -> None:
        self.counts.update(pairs(language(case) | circumstances(case)))

    def rarity(self, case: Case) -> float:
        """The more, the rarer the pairs that the case has."""
        return sum(1.0 / (1 + self.counts[p]) for p in pairs(language(case) | circumstances(case)))

    def missing(self) -> list[tuple[str, str]]:
        """Pairs of language features that no program had."""
        return [p for p in pairs(ALL) if not self.counts[p] and not any({*p} <= group for group in _APART)]

    def summary(self) -> str:
        possible = sum(not any({*p} <= group for group in _APART) for p in pairs(ALL))
        missing = self.missing()
        every = [p for p in self.counts if self.counts[p]]
        named = Counter(x for p in missing for x in p).most_common(8)
        return (f"pairs of language features: {possible - len(missing)} of {possible}; with circumstances {len(every)}"
                + (f"; missing most: {', '.join(f'{n} ({k})' for n, k in named)}" if missing else ""))

    def counted(self) -> list[tuple[str, str, int]]:
        """What `Coverage` is made of again."""
        return [(*p, n) for p, n in sorted(self.counts.items())]

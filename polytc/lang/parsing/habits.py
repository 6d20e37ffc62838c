"""What users of Python, C, numpy, einsum, Halide and TVM write: a table of the forms, each with what is written here.

A form is looked for only where a text does not parse, in the line of the token that does not belong there.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from polytc.errors import Span
from polytc.lang.elsewhere import CURES, MODULES, TYPES
from polytc.program.scalars import C_NAMES, INTRINSICS

Cure: TypeAlias = str | Callable[[re.Match[str]], str]

_TYPE = "(?:" + "|".join(TYPES) + ")"
_ACCESS = r"\w+\[[^\[\]]*\]"
LOOP = "statements hold for all values of their indices, `Y[i] = ... where i in 0:9`; " \
       "what goes step by step is written `for i in 0:9 { ... }`"
BRACES = "the body of a `for` stands in braces: `for i in 0:9 { ... }`"
DEFINITION = "a definition reads `def name(f32[N] A) -> (C) { ... }`"


@dataclass(frozen=True)
class Habit:
    """pattern: a form, found where it holds the token or ends at it; the carets go under its group `at`, or under all of it.
    cure: a template of `Match.expand`, or a function of the match. before: the form may end anywhere before the token."""

    pattern: str
    cure: Cure
    before: bool = False


def _function(m: re.Match[str]) -> str:
    name = m["fn"]
    known = C_NAMES.get(name, name)
    if known in INTRINSICS:
        return f"functions are called by their names alone: `{known}(...)`"
    return CURES.get(name.lower()) or "there are no modules and methods: functions are called by their names alone, `exp(x)`"


def _range(m: re.Match[str]) -> str:
    ends = [e.strip() for e in m["ends"].split(",")]
    return f"a range is written `{m['i']} in {':'.join(['0', *ends] if len(ends) == 1 else ends)}`, its end is left out"


def _nested(m: re.Match[str]) -> str:
    joined = re.sub(r"\] *\[", ",", m[0].strip())
    return f"indices are separated by commas: `{joined}`"


def _einsum(m: re.Match[str]) -> str:
    terms = [t.strip() for t in m["in"].split(",")]
    product = " * ".join(f"{n}[{','.join(t)}]" for n, t in zip("ABCDEFGH", terms, strict=False))
    return f"einsum's notation is for `polytc.einsum`; here it is `Y[{','.join(m['out'])}] += {product}`"


def _declared(m: re.Match[str]) -> str:
    return f"a temporary is declared by `temp {m['type']}[{m['dims']}] {m['name']}`" if m["dims"] else \
        f"names are not declared: write `{m['name']} = ...`"


HABITS = [Habit(*row) for row in (
    (r"\bdef\b.*\w\[[^\]]*\]\s*\w+\s*(?P<at>=\s*[^,)]+)", "numbers alone have defaults: `f32 a = 0.5`"),
    (r"(?P<at><>)", "two values differ: `a != b`"),
    (r"(?P<at>===|!==)", "values are compared by `==` and `!=`"),
    (r"(?:[=(,*/-]|\+)\s*(?P<at>\|(?P<x>[^|;]+)\|)", r"the absolute value is written `abs(\g<x>)`"),
    (rf"(?P<at>\+\+\s*(?:{_ACCESS}|\w+)|(?:{_ACCESS}|\b[A-Za-z_]\w*)\s*\+\+)",
     "a tensor is counted up by an update: `C[i] += 1`"),
    (r"=\s*(?P<at>new\b.*)", "nothing is allocated: a tensor is as large as the ranges of its indices"),
    (rf"(?P<at>[\u03a3\u03c3\u03a0]\w*)\s+{_ACCESS}", CURES["sum"]),
    (rf"(?P<a>{_ACCESS})\s+(?P<at>x|X|times|dot|mul)\s+(?P<b>{_ACCESS})", r"a product is written `\g<a> * \g<b>`"),
    (r"^(?!.*\bwhere\b).*=.*\S(?P<at>\s*,)\s*(?P<c>\w+\s+in\s+[^\s:]+:\S+)",
     r"a range stands behind `where`: `... where \g<c>`"),
    (r"=.*\S\s+(?P<at>when|with|over|given|assuming)\s+(?P<c>[^;{}]+)",
     r"a condition or a range stands behind `where`: `... where \g<c>`"),
    (r"=.*\S\s+(?P<at>unless)\s+(?P<c>[^;{}]+)", r"a condition stands behind `where`: `... where !(\g<c>)`"),
    (rf"(?P<x>{_ACCESS})\s*(?P<at>\?\?|\?:)\s*(?P<v>[^;]+)",
     r"what stands beyond the border follows `else`: `(\g<x> else \g<v>)`"),
    (rf"[(,]\s*(?P<at>(?:const\s+)?{_TYPE}\s*[*&]+)\s*(?P<n>\w+)", r"an array is declared with its shape: `f32[N] \g<n>`"),
    (rf"^[^:]*=[^:]*(?<![\w.\])])(?P<n>\d+\.?\d*)\s+(?P<at>(?P<x>{_ACCESS}))", r"a product is written `\g<n> * \g<x>`"),
    (rf"=.*?(?P<x>{_ACCESS}|\w+)\s+(?P<at>as)\s+(?P<t>\w+)", r"a cast is written `\g<t>(\g<x>)`"),
    (r"(?P<at>\b(?P<x>\w+)\.(?P<f>real|imag|conj)\b)(?:\(\))?(?P<s>\[[^\[\]]*\])", r"a part is written `\g<f>(\g<x>\g<s>)`"),
    (rf"(?P<x>{_ACCESS}|\w+)(?P<at>\.(?P<f>real|imag|conj)\b)", r"a part is written `\g<f>(\g<x>)`"),
    (rf"(?P<x>{_ACCESS}|\w+)(?P<at>\.re\b)", r"a part is written `real(\g<x>)`"),
    (rf"(?P<x>{_ACCESS}|\w+)(?P<at>\.im\b)", r"a part is written `imag(\g<x>)`"),
    (rf"(?P<x>{_ACCESS}|\b\w+)\s+(?P<at>is\s+(?P<f>nan|inf))\b", r"that is written `is\g<f>(\g<x>)`"),
    (rf"(?P<x>{_ACCESS})(?P<at>[ij])\b", r"the imaginary unit is `1j`: `\g<x>*1j`"),
    (rf"(?P<x>{_ACCESS}|\b\w+)\s*(?P<at>\*\*)\s*(?P<n>{_ACCESS}|[\w.]+)", r"a power is written `pow(\g<x>, \g<n>)`"),
    (r"\bwhere\b.*?(?P<at>\|(?P<x>[^|;,]+)\|)", r"the absolute value is written `abs(\g<x>)`"),
    (r"\bdef\s+(?P<f>\w+)\((?P<a>[^()]*)\)\s*(?P<at>=\s*(?P<v>[^;{}]+))", r"the body of a definition stands in braces: "
     r"`def \g<f>(\g<a>) -> (r) { r = \g<v> }`"),
    (r"\w+\[[^\[\]]*(?P<at>\(\s*(?P<i>[A-Za-z]\w*)\s+(?P<j>[A-Za-z]\w*)\s*\))", r"two axes in one are a computed subscript: "
     r"`\g<i>*9 + \g<j>` where \g<j> has 9 values"),
    (r"^\s*(?P<at>\(?\w+\)?(?:\s+[\w()]+)+\s*->\s*[\w()]+(?:\s+[\w()]+)*)\s*$",
     "axes are moved by subscripts: `Y[b,h,w,c] = A[b,c,h,w]`; two axes in one are a computed one, `Y[b,h*9+w]`"),
    (rf"\b(?P<at>(?:{'|'.join(MODULES)})\.(?P<n>pi|inf|nan))\b", r"numbers have names alone: `\g<n>`"),
    (rf"\b(?P<at>(?:{'|'.join(MODULES)})\.e)\b(?!\w)", "the number e is `exp(1.0)`"),
    (r"\b(?P<at>(?P<x>\w+)\.(?:shape|size))\b(?!\s*\[)", r"an extent is written with the number of its axis: `\g<x>.shape[0]`"),
    (r"(?P<at>\b(?:shape|size)\s*\(\s*(?P<x>\w+)\s*\)\s*\[\s*(?P<n>\d+)\s*\])", r"an extent is written `\g<x>.shape[\g<n>]`"),
    (r"(?P<at>(?<![\w.])(?P<f>\w+)\((?P<a>[^()\[\]]*)\))\s*(?P<s>\[[^\[\]]*\])", lambda m: CURES.get(m["f"].lower()) or
     f"a call is a statement of its own, and its result is read in another one: `T = {m['f']}({m['a']})`, then `T{m['s']}`"),
    (r"\bdef\b[^{]*=\s*-?[\w.]+\s*(?P<at>[-*/+][^,)]*)", "a default is a literal: `0.5`, `-1`, `true`, `inf`"),
    (r"(?P<at>!\s*exists)\b", "where an array has no element is a condition on its indices: `where i >= A.shape[0]`"),
    (r"(?P<at>\b(?:break|continue))\b", "a loop runs to its end: what no longer happens stands behind `where`", True),
    (r"(?P<at>\b(?:forall|foreach|parallel|parfor|doall)\b[^{]*)", LOOP),
    (rf"^\s*(?P<at>(?P<in>{_ACCESS}(?:\s*,\s*{_ACCESS})+)\s*->\s*(?P<out>{_ACCESS}))", lambda m: "a product is written `"
     + m["out"] + " += " + " * ".join(re.findall(_ACCESS, m["in"])) + "`"),
    (r"^\s*(?P<at>(?P<l>\w+(?:\s*,\s*\w+)+))\s*=\s*(?P<c>\w+)\s*\(",
     r"the results of a call stand in parentheses: `(\g<l>) = \g<c>(...)`"),
    (r"(?<![\w.\[(,])(?P<at>(?P<a>\d+),(?P<b>\d+))(?![\w\])])(?=\s*[*/+-]|\s*$)", r"a number has a point: `\g<a>.\g<b>`"),
    (r"\bfor\b[^{]*\brange\s*\([^{]*|\bfor\b[^{;]*:\s*$", LOOP, True),
    (r"\S\s+(?P<at>\bfor\s+\w+\s+in\b.*)", LOOP, True),
    (r"\bfor\s*\([^)]*\)?", LOOP, True),
    (r"\bfor\s+\w+\s+in\s+[^\s:{]+:[^\s:{]+(?P<at>\s*:)\s+\w", BRACES, True),
    (r"\bfor\s+\w+\s+in\s+\S+:\S+\s+(?P<at>\w+)", BRACES),
    (r"\bfor\s+(\w+)\s*(?P<at>[{:=])", r"a loop says from where to where: `for \1 in 0:9 { ... }`"),
    (r"\bwhile\b.*", "how often is known before a loop begins: `for t in 0:9 { ... }`"),
    (r"(?P<at>\bimport\b.*)", "functions are known without an import: `exp(x)`"),
    (r"^\s*(?P<at>if\b[^{]*)\{", "a condition belongs to its statement: `Y[i] = A[i] where i > 3`"),
    (r"\bif\s+(?P<c>.+?)\s+then\s+(?P<a>.+?)\s+else\s+(?P<b>[^;]+)", r"a conditional value is written `\g<c> ? \g<a> : \g<b>`"),
    (r"(?P<a>[^\s=][^=]*?)\s+(?P<at>if\s+(?P<c>.+?)\s+else\s+(?P<b>[^;}]+))",
     r"a conditional value is written `\g<c> ? \g<a> : \g<b>`"),
    (r"(?P<at>\bif)\s+(?P<c>[^;{}]+)", r"a condition stands behind the statement: `... where \g<c>`"),
    (r"//\s*[A-Za-z]+\s+[A-Za-z].*|/\*.*", "a comment begins with `#`"),
    (r"\s(?P<at>\w+\s*\.\.\.?\s*\w+)", lambda m: "a range is written `{}:{}`, its end is left out".format(
        *re.split(r"\s*\.\.\.?\s*", m["at"]))),
    (r"\w+[\[(](?P<at>[^\[\]]*\.\.\.[^\[\]]*)[\])]", "each axis has an index of its own: `A[i,j]`; an `op` takes any number of "
     "axes, `op f(A[*i]) -> Y[*i] { Y[*i] = 2*A[*i] }`"),
    (rf"\b(?P<x>{_ACCESS}|\w+)\.astype\(\s*(?:\w+\.)?(?P<t>\w+)\s*\)?", r"a cast is written `\g<t>(\g<x>)`"),
    (r"(?P<at>\b\w+\.T)\b\[?\w*", "a transposition is another order of the indices: `Y[i,j] = A[j,i]`"),
    (rf"(?P<at>\b(?:{'|'.join(MODULES)})(?:(?:\.|::)\w+)*(?:\.|::)(?P<fn>\w+))\s*\(", _function),
    (r"[\])\w](?P<at>\.(?P<fn>[A-Za-z]\w*))\s*\(", _function),
    (r"\b(?P<fn>\w+)\([^()]*(?P<at>\b(?:axis|axes|dim|dims|keepdims?|dtype|out)\s*=)", lambda m: CURES.get(
        m["fn"].lower(), "indices name the axes: `S[i] += A[i,j]` sums over j")),
    (r"=\s*(?P<at>\[[^\[\]]*\])\s*(?:$|[^\s\[])", "a list has a subscript for each dimension: `Y[i] = [1, 2, 1][i]`"),
    (r"\w+(?:\[[^\[\]]*\]\s*)(?:\[[^\[\]]*\]\s*)+", _nested),
    (r"\w+\[(?P<at>[^\[\]]*:[^\[\]]*)\]?", "an axis is named by an index: `A[i,j]`; which part of it, `where` says: "
     "`where j in 0:3`, or the subscript: `A[2*i]`"),
    (r"\w+\[(?:[^\[\],]*,)*\s*(?P<at>\*)\s*[\],]", "name the axis by an index: `A[i,j]`"),
    (r"\w+\[[^\[\];]*(?P<at>;)\s*\w", "indices are separated by commas: `A[i,j]`"),
    (r"\w(?P<at>\{)\s*\w+(?:\s*,\s*\w+)*\s*\}", "subscripts stand in brackets: `A[i]`"),
    (r"\b(?P<n>0[xX][0-9a-fA-F]+)(?P<at>[uUlL]+)\b", r"a number takes the type of what it meets: `\g<n>`"),
    (r"\b0[oO](?P<n>[0-7]+)", lambda m: f"numbers are decimal, `0x...` or `0b...`: `{int(m['n'], 8)}`"),
    (r"\b0[bB](?=\d*[2-9])\d+", "the digits of `0b...` are 0 and 1"),
    (r"\b0[xX][0-9a-fA-F]*(?:\.[0-9a-fA-F]*)?[pP][+-]?\d+|\b0[xX][0-9a-fA-F]+\.[0-9a-fA-F]*",
     "a number in hexadecimal digits is whole: `0xff`"),
    (r"\b0[xX][0-9a-fA-F]+(?:_[0-9a-fA-F]+)+|\b\d+(?:_\d+)+", lambda m: f"digits are not grouped: `{m[0].replace('_', '')}`"),
    (r"\b(?P<n>\d+\.?\d*)[eE](?=\W|$)", "a number is written `3`, `0.5` or `1e-3`"),
    (r"(?<![\w.])(?P<n>\d+\.\d*(?:[eE]-?\d+)?|\d+)(?P<at>[fFlLuU])\b(?!\[)", r"a number takes the type of what it meets; "
     r"`f32(\g<n>)` states one"),
    (rf"(?<![\w.])(?P<n>\d+\.?\d*)(?P<x>(?:{_ACCESS})|[A-Za-z]\w*)", r"a product is written `\g<n>*\g<x>`"),
    (rf"\((?P<t>{_TYPE})\)\s*(?P<x>{_ACCESS}|\w+\([^()]*\)|\w+)", r"a cast is written `\g<t>(\g<x>)`"),
    (r"(?P<at>:=|<-|:-)", "a tensor is written by `=`: `Y[i] = A[i]`"),
    (rf"(?P<t>{_ACCESS}|\b\w+)\s*(?P<at>\*\*=)\s*(?P<x>[^;]+)", r"a power is written `\g<t> = pow(\g<t>, \g<x>)`"),
    (r"(?P<at>(?P<op>[&|])(?P=op)=)", r"conditions are combined by `\g<op>=`"),
    (r"\bnot\b(?P<at>)\s+(?P<x>[^?;&|]+?)\s*(?=[?;&|]|$)", r"write `!(\g<x>)`"),
    (r"\b(?P<i>\w+)\s+in\s+(?P<at>range\s*\((?P<ends>[^()]*)\))", _range),
    (r"\b(?P<i>\w+)\s+in\s+(?P<at>[\[(](?P<ends>[^\[\]():]*)[\])]?)", _range),
    (r"\bwhere\s+(?P<i>\w+)\s*(?P<at>=)\s*(?P<b>[^,;:]+:[^,;]+)", r"a range is written `where \g<i> in \g<b>`"),
    (r"\bwhere\b.*\s(?P<at>where)\s", "clauses are separated by commas: `where j < 3, i < 2`"),
    (r"\bwhere\b.*\S\s+(?P<at>\w+)\s+in\b", "clauses are separated by commas: `where j in 0:3, i in 0:2`"),
    (r"(?P<at>\bwhere\s*\().*", CURES["where"]),
    (r"\breturn\b[^;}]*", "the results are named behind an arrow, `def f(f32[N] A) -> (C) { ... }`; bare statements end in "
     "`-> (C)`"),
    (r"^\s*(?P<at>(?:void|fn|func|function|proc|sub|static|inline)\s+\w+.*)", DEFINITION),
    (rf"(?P<at>\b{_TYPE}\s+\w+\s*\([^)]*\))\s*\{{", DEFINITION),
    (rf"\bdef\b.*[(,]\s*(?P<at>(?P<t>{_TYPE})\s+(?P<n>\w+)\s*\[(?P<d>[^\[\]]*)\])",
     r"the shape stands before the name: `\g<t>[\g<d>] \g<n>`"),
    (r"\bdef\b.*[(,]\s*(?P<at>(?P<n>\w+)\s*:\s*(?P<t>\w+(?:\[[^\[\]]*\])?))",
     r"the type stands before the name: `\g<t> \g<n>`"),
    (r"\bdef\b[^{]*\)(?P<at>\s*:)", "the body of a definition stands in braces: `def name(f32[N] A) -> (C) { ... }`"),
    (r"\blambda\b.*", "a statement names its indices on the left: `C[i,j] = A[i,j]`"),
    (r"(?P<at>\bcompute\s*\().*", "a statement names its indices on the left: `C[i,j] = A[i,j]`"),
    (r"(?:^|[{;])\s*(?P<at>(?:Var|RDom|Func|let|var|auto|const|local)\b[^;=]*)",
     "names are not declared: indices and tensors are what statements use, `k = 3; Y[i] = k*A[i]`"),
    (rf"(?:^|[{{;])\s*(?P<at>(?P<type>{_TYPE})\s+(?P<name>\w+)(?:\[(?P<dims>[^\[\]]*)\])?)", _declared),
    (r"^\s*(?P<at>(?P<in>[a-zA-Z]+(?:\s*,\s*[a-zA-Z]+)*)\s*->\s*(?P<out>[a-zA-Z]*))\s*$", _einsum),
    (r"=\s*(?P<at>(?P<in>[a-zA-Z]+(?:\s*,\s*[a-zA-Z]+)+)\s*->\s*(?P<out>[a-zA-Z]*))\s*$", _einsum),
    (r"(?P<at>\b\w+\.[xyzw])\b\s*[),\]]", "an index is a name alone, with its range: `where r in 0:4`"),
    (r"=.*\S\s+(?P<at>\{[^{}]*[<>][^{}]*\})", "a condition stands behind `where`: `... where j < 3`"),
    (r"\btemp\s+\w+\s*(?:=|$).*", "a temporary is declared by `temp f32[N] T`"),
    (r"\breduce\s*\(.*", "a reduction is an update: `Y[i] += A[i,j]`, `Y[i] max= A[i,j]`"),
    (r"\b(?P<at>(?:sum|prod|max|min)(?:_\w+|\[\w+\]))\s*", "an index that stands on the right only is reduced: "
     "`S[i] += A[i,j]`, `M[i] max= A[i,j]`"),
    (rf"\b(?P<f>{'|'.join(INTRINSICS)})\s+(?P<x>{_ACCESS})", r"a function's argument stands in parentheses: `\g<f>(\g<x>)`"),
    (rf"=.*?(?P<a>{_ACCESS})\s+(?P<at>(?P<b>{_ACCESS}))(?!\s*[-+*/&|^]?=)",
     r"a product is written `\g<a> * \g<b>`; statements are separated by a newline or `;`"),
    (rf"(?P<a>{_ACCESS})\s+\.\s+(?P<b>{_ACCESS})", r"a product is written `\g<a> * \g<b>`"),
    (rf"^\s*(?P<at>\(\s*(?P<t>{_ACCESS}|\w+)\s*\))\s*arg(?P<o>max|min)=\s*\(?\s*(?P<v>{_ACCESS}|\w+)",
     r"`arg\g<o>=` takes the value and what belongs to it, `(M, P) arg\g<o>= (A[i], i)`; the value alone is "
     r"`\g<t> \g<o>= \g<v>`"),
    (rf"\((?P<a>{_ACCESS})\s*else\s*(?P<b>{_ACCESS})\s*(?P<at>else)\s*(?P<c>[^()]+)\)",
     r"each guard has its parentheses: `(\g<a> else (\g<b> else \g<c>))`"),
    (rf"^\s*(?P<at>(?P<l>(?:{_ACCESS}|\w+)(?:\s*,\s*(?:{_ACCESS}|\w+))+)\s*(?P<o>arg(?:max|min)=)\s*(?P<r>[^;]+))",
     r"tuples stand in parentheses: `(\g<l>) \g<o> (\g<r>)`"),
    (rf"^\s*(?P<at>(?:{_ACCESS}|\w+)(?:\s*,\s*(?:{_ACCESS}|\w+))+)\s*=", "each tensor has a statement of its own: "
     "`C[i] = A[i]; D[i] = B[i]`"),
    (rf"(?P<a>{_ACCESS})\s*=\s*(?P<b>{_ACCESS})\s*(?P<at>=)\s*(?P<v>[^;]+)",
     r"each tensor has a statement of its own: `\g<b> = \g<v>; \g<a> = \g<b>`"),
    (r"^\s*(?P<at>[^\sA-Za-z_(\[{}\])])", "a statement begins with the tensor that it writes: `C[i] = A[i]`"),
    (r"^\s*(?P<at>[\[{])", "a statement begins with the tensor that it writes: `C[i] = A[i]`"),
)]
"""The forms; the first one that is found counts."""


def recognised(text: str, at: Span) -> tuple[Span, str] | None:
    """The form around a token that does not belong, and its cure."""
    begin = text.rfind("\n", 0, at.start) + 1
    end = text.find("\n", at.start)
    line = text[begin:end if end >= 0 else len(text)].split("#", 1)[0]
    if len(line) > 400:  # the patterns are for lines that people write
        return None
    column = at.start - begin
    previous = text.rfind("\n", 0, max(begin - 1, 0)) + 1
    above = text[previous:max(begin - 1, 0)].split("#", 1)[0]
    for habit in HABITS:
        near = [(begin, m) for m in re.finditer(habit.pattern, line)
                if m.start() <= column and (habit.before or column <= m.end())]
        if habit.before and not near and len(above) <= 400:
            near = [(previous, m) for m in re.finditer(habit.pattern, above)]
        for start, m in near:
            return _place(text, start, m), habit.cure(m) if callable(habit.cure) else m.expand(habit.cure)
    return None


def _place(text: str, begin: int, m: re.Match[str]) -> Span:
    """Of the carets, without spaces around."""
    low, high = m.span("at" if m.re.groupindex.get("at") and m["at"] else 0)
    low += len(m.string[low:high]) - len(m.string[low:high].lstrip())
    high -= len(m.string[low:high]) - len(m.string[low:high].rstrip())
    return Span(begin + low, begin + max(high, low + 1), text.count("\n", 0, begin) + 1, low + 1)

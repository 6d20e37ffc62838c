"""The tensors, sizes and numbers that a program declares, matched against the actual shapes, types and scalars."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from polytc import errors
from polytc.errors import Span
from polytc.lang.definitions.expand import nodes, plain_number
from polytc.lang.definitions.signatures import accesses, bare_inputs, implied_outputs, statements, writers, written
from polytc.lang.parsing import syntax as sx
from polytc.lang.report import Report, closest
from polytc.lang.typing.dimensions import affine, evaluate_size, solved, unknown
from polytc.program.scalars import DTYPES, F32, DType, rounded
from polytc.program.traces.traced import whole
from polytc.program.typenames import ALIASES, dtype_of

errors.register(
    E104="one name for two things", E106="write to an input", E109="output that nothing writes",
    E205="shape differs from its declaration", E206="size with two values", E208="shape not given", E215="scalar not given",
    E301="type differs from its declaration")


@dataclass
class Declarations:
    """inputs, outputs, temporaries that are declared: names in order; shapes: of the inputs; dtypes: of the inputs, and of the
    others that declare one; numbers: sizes and scalars; declared: (smallest, largest) coordinate in each dimension of the
    outputs and temporaries that declare it, None for what is not known; ranks: of all tensors; results: of calls, rounded to
    their types as outputs are, which they are of the definitions."""

    inputs: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    temporaries: list[str] = field(default_factory=list)
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    dtypes: dict[str, DType] = field(default_factory=dict)
    numbers: dict[str, complex] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    declared: dict[str, tuple[tuple[int, int] | None, ...]] = field(default_factory=dict)
    ranks: dict[str, int] = field(default_factory=dict)
    spans: dict[str, Span] = field(default_factory=dict)
    results: set[str] = field(default_factory=set)

    @property
    def typed(self) -> dict[str, DType]:
        """The types of the scalars that are declared with a float type: integers are weak."""
        return {n: self.dtypes[n] for n in self.numbers if n in self.dtypes and self.dtypes[n].is_float}


def declare(f: sx.Function, shapes: Mapping[str, tuple[int, ...]], dtypes: Mapping[str, DType | str],
            scalars: Mapping[str, complex], report: Report) -> Declarations:
    """Match the declarations of `f` with what the caller gives. Diagnostics go to `report`."""
    d = Declarations()
    own = written(f)
    d.numbers |= {n: plain_number(v) for n, v in scalars.items()}
    if f.kind == "bare":
        _bare_inputs(f, shapes, d, report)
    else:
        _params(f, shapes, scalars, d, report)
    inouts = {p.name for p in f.params if p.inout}
    for name in d.inputs:
        d.ranks[name] = len(d.shapes.get(name, ()))
        if name in own and name not in inouts:
            report.add("E106", f"`{name}` is an input and cannot be written", own[name],
                       "write to a tensor with another name, or declare it `inout` in a `def`")
    for name, span in own.items():
        if name in d.numbers:
            report.add("E104", f"`{name}` is already a number", span)
        d.spans.setdefault(name, span)
    for s in statements(f):
        d.ranks.setdefault(s.target, len(s.subscripts))
    _dtypes(f, dtypes, d, report)
    _outputs(f, d, report)
    return d


def _bare_inputs(f: sx.Function, shapes: Mapping[str, tuple[int, ...]], d: Declarations, report: Report) -> None:
    found = dict(bare_inputs(f))
    own = written(f)
    for s in writers(f):
        for e in s.numbers if isinstance(s, sx.CallStatement) else (s.value, *s.subscripts):
            found |= {n.id: 0 for n in _names(e) if n.id in shapes and n.id not in own and n.id not in found}
    for name in found:
        span = next((p for s in writers(f) for n, _, p in accesses(s) if n == name), f.span)
        _input(name, shapes, span, d, report)
    for name in own.keys() & set(shapes):
        d.inputs.append(name)
        d.shapes[name] = tuple(shapes[name])


def _names(e: sx.Expr) -> list[sx.Name]:
    out = [e] if isinstance(e, sx.Name) else []
    for operand in sx.operands(e):
        out += _names(operand)
    return out


def _input(name: str, shapes: Mapping[str, tuple[int, ...]], span: Span, d: Declarations, report: Report) -> bool:
    d.inputs.append(name)
    d.spans[name] = span
    if name not in shapes:
        report.add("E208", f"no shape is given for the input `{name}`", span, closest(name, shapes),
                   f"nothing in the program writes it, so it is an input: `shapes={{\"{name}\": (...)}}` states its shape")
        return False
    d.shapes[name] = tuple(whole(n) for n in shapes[name])
    return True


def _params(f: sx.Function, shapes: Mapping[str, tuple[int, ...]], scalars: Mapping[str, complex], d: Declarations,
            report: Report) -> None:
    shapes = _stated(f) | dict(shapes)
    for p in f.params:
        if p.name in d.inputs or p.name in d.sizes:
            report.add("E104", f"`{p.name}` is declared twice", p.span)
            continue
        if p.inout and (f.kind == "op" or p.dims is None):
            report.add("E106", f"`{p.name}` cannot be `inout`", p.span, "an array with dimensions in a `def` can")
        if p.dims is None and p.name in scalars:
            _scalar(p, plain_number(scalars[p.name]), d, report)
        elif p.dims is None and p.name not in shapes and p.default is not None:
            d.numbers[p.name] = p.default
            _scalar(p, p.default, d, report)
        elif p.dims is None and p.name not in shapes:
            report.add("E215", f"no value is given for the scalar `{p.name}`", p.span)
        elif _input(p.name, shapes, p.span, d, report) and p.dims is not None and f.kind == "def":
            _bind(p, d.shapes[p.name], d, report)
    if f.kind == "def":
        _verify(f, d, report)


def _stated(f: sx.Function) -> dict[str, tuple[int, ...]]:
    """The shapes that parameters state in numbers alone."""
    found: dict[str, tuple[int, ...]] = {}
    for p in f.params if f.kind == "def" else ():
        numbers = [d.value for d in p.dims or () if isinstance(d, sx.Number) and isinstance(d.value, int)]
        if p.dims is not None and len(numbers) == len(p.dims):
            found[p.name] = tuple(numbers)
    return found


def _scalar(p: sx.Param, value: complex, d: Declarations, report: Report) -> None:
    dtype = dtype_of(p.dtype) if p.dtype else None
    if p.dtype is not None and dtype is None:
        report.add("E307", f"there is no type `{p.dtype}`", p.span, closest(p.dtype, DTYPES))
    elif dtype is not None and not dtype.is_complex and isinstance(value, complex):
        report.add("E301", f"the scalar `{p.name}` is declared {dtype}, {value} is given", p.span, f"declare `c128 {p.name}`")
    elif dtype is not None and not dtype.is_float and isinstance(value, float) and not value.is_integer():
        report.add("E301", f"the scalar `{p.name}` is declared {dtype}, {value} is given", p.span,
                   f"declare `f64 {p.name}`, or give {round(value)}")
    elif dtype is not None:
        d.numbers[p.name] = rounded(complex(value) if dtype.is_complex else value, dtype) if dtype.is_float else (
            bool(value) if dtype.kind == "b" else int(value.real))


def _bind(p: sx.Param, shape: tuple[int, ...], d: Declarations, report: Report) -> None:
    """Sizes named in the declaration get their values."""
    dims = p.dims or ()
    if len(dims) != len(shape):
        report.add("E205", f"`{p.name}` is declared with {len(dims)} dimensions, the array has {len(shape)}", p.span,
                   f"an array of so many is declared `{p.dtype or 'f32'}[{', '.join('MNKLPQRS'[:len(shape)])}] {p.name}`")
        return
    for dim, extent in zip(dims, shape, strict=True):
        if not isinstance(dim, sx.Name) or (dim.id in d.numbers and dim.id not in d.sizes):
            continue
        if d.sizes.setdefault(dim.id, extent) != extent:
            report.add("E206", f"`{dim.id}` is {d.sizes[dim.id]} before and {extent} in `{p.name}`", dim.span,
                       f"`{p.name}` has shape {tuple(shape)}: another array is meant, or another axis of this one")
        d.numbers[dim.id] = d.sizes[dim.id]


def _dims(f: sx.Function, d: Declarations) -> list[tuple[sx.Param, int, sx.Expr, int]]:
    """The dimensions of all parameters: (parameter, axis, what is declared, what the array has)."""
    known = [(p, d.shapes[p.name]) for p in f.params if p.dims is not None and p.name in d.shapes]
    return [(p, axis, dim, extent) for p, shape in known if len(shape) == len(p.dims or ())
            for axis, (dim, extent) in enumerate(zip(p.dims or (), shape, strict=True))]


def _verify(f: sx.Function, d: Declarations, report: Report) -> None:
    """Dimensions that are declared as numbers or formulas agree with the arrays; sizes that no dimension is, they tell."""
    dims = _dims(f, d)
    found = solved([(dim, extent) for _, _, dim, extent in dims], d.numbers)
    d.sizes |= found
    d.numbers |= found
    for p in f.params:
        if p.name in d.sizes:
            report.add("E104", f"`{p.name}` is a tensor and a size", p.span)
    for p, axis, dim, extent in dims:
        if isinstance(dim, sx.Pack):
            report.add("E110", "packs belong to an `op`, not to a `def`", dim.span)
        elif isinstance(dim, sx.Interval):
            report.add("E205", "the coordinates of an argument begin at 0", dim.span, "write its extent alone")
        else:
            _agree(p, axis, dim, extent, dims, d, report)


def _agree(p: sx.Param, axis: int, dim: sx.Expr, extent: int, dims: list[tuple[sx.Param, int, sx.Expr, int]], d: Declarations,
           report: Report) -> None:
    """An array has the extent that is declared (E205), which is known (E101)."""
    value, free = evaluate_size(dim, d.numbers), unknown(dim, d.numbers)
    text = report.source[dim.span.start:dim.span.end]
    form = affine(dim, free[0], d.numbers) if value is None and len(free) == 1 else None
    if form is not None and (form[0] != 0 or form[1] != extent):
        report.add("E205", f"dimension {axis} of `{p.name}` is declared {text}, the array has {extent}", dim.span,
                   f"no {free[0]} from 0 on makes {extent} of {text}")
    elif value is None:
        names = ", ".join(f"`{n}`" for n in free)
        report.add("E101", "this size is not known", dim.span, f"no dimension is {names} alone, nor a formula with one unknown "
                   f"size, such as `2*{free[0]} + 1`: declare a scalar, `i64 {free[0]}`" if free else
                   "a dimension is a formula of sizes: `N`, `2*N + 1`, `(N + 1)//2`")
    elif value != extent and not isinstance(dim, sx.Name):
        given = {n.id: q.name for q, _, e, _ in reversed(dims) for n in ([e] if isinstance(e, sx.Name) else nodes(e))
                 if isinstance(n, sx.Name) and q is not p}
        told = [f"{n} is {d.numbers[n]}" + (f" in `{given[n]}`" if n in given else "") for n in unknown(dim, {})]
        report.add("E205", f"dimension {axis} of `{p.name}` is declared {text}{f', which is {value},' if told else ','} "
                   f"the array has {extent}", dim.span, "; ".join(told))


def _dtypes(f: sx.Function, given: Mapping[str, DType | str], d: Declarations, report: Report) -> None:
    for p in (*f.params, *(f.outputs or ()), *f.temporaries):
        if p.dtype is None:
            continue
        dtype = dtype_of(p.dtype)
        if dtype is None:
            report.add("E307", f"there is no type `{p.dtype}`", p.span, closest(p.dtype, [*DTYPES, *ALIASES]))
        else:
            d.dtypes[p.name] = dtype
    for name in d.inputs:
        actual = given.get(name)
        if isinstance(actual, str):
            text, actual = actual, dtype_of(actual)
            if actual is None:
                report.add("E307", f"there is no type `{text}`, given for `{name}`", d.spans.get(name), closest(text, DTYPES))
        declared = d.dtypes.get(name)
        if actual is not None and declared is not None and actual != declared:
            report.add("E301", f"`{name}` is declared {declared}, the array is {actual}", d.spans.get(name),
                       f"convert the array, or declare `{actual}`")
        d.dtypes.setdefault(name, actual or F32)


def _outputs(f: sx.Function, d: Declarations, report: Report) -> None:
    own = written(f)
    inouts = [p.name for p in f.params if p.inout and p.name in d.inputs]
    for p in f.outputs or ():
        if p.name in d.outputs:
            report.add("E104", f"`{p.name}` is an output twice", p.span)
        elif p.name in inouts:
            d.outputs.append(p.name)
            _declared_shape(f, p, d, report)
        elif p.name not in own:
            what = "is an input" if p.name in d.inputs else "is never written"
            report.add("E109", f"the output `{p.name}` {what}", p.span,
                       closest(p.name, own) or f"the statements write {', '.join(own)}",
                       f"an output has a name behind its type: `-> ({p.name}[...] C)`" if p.name in DTYPES else "")
        else:
            d.outputs.append(p.name)
            _declared_shape(f, p, d, report)
    if f.kind == "bare" and f.outputs is None:
        d.outputs = list(implied_outputs(f))
    d.outputs += [n for n in inouts if n not in d.outputs]
    _temporaries(f, own, d, report)
    if not d.outputs and not f.outputs:
        alone = f.body[0] if f.kind == "bare" and f.body else None
        call = report.source[alone.span.start:alone.span.end] if isinstance(alone, sx.CallStatement) else ""
        report.add("E109", f"`{f.name}` gives nothing back", f.span, f"give the result of the call a name: `S = {call}`" if call
                   else "name its outputs, `-> (C)`, or declare one `inout`")


def _temporaries(f: sx.Function, own: Mapping[str, Span], d: Declarations, report: Report) -> None:
    """`temp f32[N] T` declares a tensor that statements write and nobody else declares."""
    seen = {*d.inputs, *d.outputs, *d.numbers}
    for p in f.temporaries:
        if p.name in seen:
            report.add("E104", f"`{p.name}` is declared twice", p.span)
        elif p.name not in own:
            report.add("E109", f"the temporary `{p.name}` is never written", p.span, closest(p.name, own))
        seen.add(p.name)
        d.temporaries.append(p.name)
        _declared_shape(f, p, d, report)


def check_outputs(f: sx.Function, d: Declarations, report: Report) -> None:
    """The declared shapes of outputs, with the ranks that are known now (E105); their extents are kept in `d`."""
    for p in (*(f.outputs or ()), *f.temporaries):
        _declared_shape(f, p, d, report)


def _declared_shape(f: sx.Function, p: sx.Param, d: Declarations, report: Report) -> None:
    if p.dims is None or p.name not in d.ranks:  # what a call writes has a rank when the call is written out
        return
    if len(p.dims) != d.ranks[p.name]:
        report.add("E105", f"`{p.name}` is declared with {len(p.dims)} dimensions and written with {d.ranks[p.name]}", p.span)
    elif f.kind != "op":
        d.declared[p.name] = tuple(_extent(dim, d.numbers) for dim in p.dims)


def _extent(dim: sx.Expr, numbers: Mapping[str, complex]) -> tuple[int, int] | None:
    """The smallest and largest coordinate that a declared dimension has, `N` or `1:N+1`."""
    low, high = (evaluate_size(dim.lower, numbers), evaluate_size(dim.upper, numbers)) if isinstance(dim, sx.Interval) else (
        0, evaluate_size(dim, numbers))
    return None if low is None or high is None else (low, high - 1)

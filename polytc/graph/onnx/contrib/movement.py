"""Operators of ONNX Runtime's own that move, count and select."""

from __future__ import annotations

import math

from polytc.graph.onnx.contrib.sites import NoText, Site, constant, ints, real, scalar, written


def trilu(s: Site) -> str:
    return f"Y = Trilu{written(s.attributes, ('upper',))} (X{s.optional('k')})"


def expand_dims(s: Site) -> str:
    """Axes count from the end of the result where they are negative."""
    return f"{ints('vector', 1)}wide = Cast <to: int = 7> (axis)\naxes = Reshape(wide, vector)\nY = Unsqueeze(X, axes)"


def number_range(s: Site) -> str:
    lines = "a = Squeeze(start)\nb = Squeeze(limit)\n"
    if s.has("delta"):
        return lines + "c = Squeeze(delta)\nY = Range(a, b, c)"
    return f"{lines}{scalar('one', 1)}c = CastLike(one, a)\nY = Range(a, b, c)"


def pad(s: Site) -> str:
    lines = f"{ints('vector', -1)}p = Reshape(pads, vector)\n"
    value = ""
    if s.has("value"):
        lines += "v = Squeeze(value)\n"
        value = ", v"
    return f"{lines}output = Pad{written(s.attributes, ('mode',))} (data, p{value})"


def unique(s: Site) -> str:
    """In the order in which they stand in the input."""
    return "y, first, idx, counts = Unique <sorted: int = 0> (x)"


def cdist(s: Site) -> str:
    """Differences are taken before they are squared, so that close points keep their digits."""
    kind = s.word("metric", "sqeuclidean")
    if kind not in ("sqeuclidean", "euclidean"):
        raise NoText(f"the metric {kind!r}")
    lines = f"{ints('rows', 1)}{ints('columns', 0)}{ints('last', 2)}a = Unsqueeze(A, rows)\nb = Unsqueeze(B, columns)\n" \
            "d = Sub(a, b)\nq = ReduceSumSquare <keepdims: int = 0> (d, last)\n"
    return lines + ("C = Identity(q)" if kind == "sqeuclidean" else "C = Sqrt(q)")


def grid_sample(s: Site) -> str:
    """As opset 16 has it: words of later versions differ."""
    modes = {"bilinear": "linear", "nearest": "nearest", "bicubic": "cubic"}
    mode = s.word("mode", "bilinear")
    if mode not in modes:
        raise NoText(f"the mode {mode!r}")
    own = written({"mode": modes[mode], "padding_mode": s.word("padding_mode", "zeros"),
                   "align_corners": int(s.number("align_corners", 0))}, ("mode", "padding_mode", "align_corners"))
    return f"Y = GridSample{own} (X, Grid)"


def gather_nd(s: Site) -> str:
    return "wide = Cast <to: int = 7> (indices)\noutput = GatherND(data, wide)"


def unfold(s: Site) -> str:
    """Slices of an axis, which become the last one: by the indices of their elements."""
    rank = s.rank("input")
    axis, size, step = int(s.number("dim", -1)) % rank, int(s.attributes["size"]), int(s.number("step", 1))
    extent = s.shape("input")[axis]
    count = (extent - size) // step + 1
    if count < 1:
        raise NoText(f"slices of {size} of an axis of {extent}")
    places = [k * step + i for k in range(count) for i in range(size)]
    order = [*range(axis + 1), *range(axis + 2, rank + 1), axis + 1]
    return (f"{ints('flat', *places)}{ints('grid', count, size)}places = Reshape(flat, grid)\n"
            f"slices = Gather <axis: int = {axis}> (input, places)\n"
            f"output = Transpose <perm: ints = [{', '.join(map(str, order))}]> (slices)")


def embedding(s: Site) -> str:
    return "Y = Gather(weight, indices)"


def all_finite(s: Site) -> str:
    only_nan, only_infinite = s.number("isnan_only", 0), s.number("isinf_only", 0)
    names = sorted(n for n in s.given)
    lines, found = "", []
    for k, n in enumerate(names):
        lines += f"n{k} = IsNaN({n})\nf{k} = IsInf({n})\n"
        lines += f"w{k} = Identity(n{k})\n" if only_nan else f"w{k} = Identity(f{k})\n" if only_infinite else \
            f"w{k} = Or(n{k}, f{k})\n"
        lines += f"i{k} = Cast <to: int = 6> (w{k})\nm{k} = ReduceMax <keepdims: int = 0> (i{k})\n"
        found.append(f"m{k}")
    return f"{lines}worst = Max({', '.join(found)})\nany = Cast <to: int = 9> (worst)\noutput = Not(any)"


def complex_mul(conjugate: bool) -> str:
    """Pairs of a real and an imaginary part along the last axis."""
    signs = ("Add", "Sub") if conjugate else ("Sub", "Add")
    return ("ar, ai = Split <axis: int = -1, num_outputs: int = 2> (A)\n"
            "br, bi = Split <axis: int = -1, num_outputs: int = 2> (B)\n"
            f"rr = Mul(ar, br)\nii = Mul(ai, bi)\nri = Mul(ar, bi)\nir = Mul(ai, br)\nreal = {signs[0]}(rr, ii)\n"
            f"imaginary = {signs[1]}(ir, ri)\nC = Concat <axis: int = -1> (real, imaginary)")


def rfft(s: Site) -> str:
    """Along the last axis, which becomes one of half the frequencies and one of real and imaginary parts."""
    s.only("onesided", 1)
    s.only("normalized", 0)
    s.only("signal_ndim", 1)
    return f"{ints('last', -1)}x = Unsqueeze(X, last)\n{scalar('axis', -2)}Y = DFT <onesided: int = 1> (x, , axis)"


def irfft(s: Site) -> str:
    """The spectrum is continued by its mirror image; ONNX Runtime does not divide by the length."""
    s.only("onesided", 1)
    s.only("normalized", 0)
    s.only("signal_ndim", 1)
    half = s.shape("X")[-2]
    length = 2 * (half - 1)
    mirrored = [min(k, length - k) for k in range(length)]
    signs = [1.0 if k < half else -1.0 for k in range(length)]
    return (f"{ints('mirrored', *mirrored)}whole0 = Gather <axis: int = -2> (X, mirrored)\n"
            f"re, im0 = Split <axis: int = -1, num_outputs: int = 2> (whole0)\n{ints('column', -1, 1)}"
            f"signs0 = Constant <value_floats: floats = [{', '.join(map(str, signs))}]> ()\nsigns1 = CastLike(signs0, X)\n"
            "signs = Reshape(signs1, column)\nim = Mul(im0, signs)\nwhole = Concat <axis: int = -1> (re, im)\n"
            f"{scalar('axis', -2)}z = DFT <inverse: int = 1> (whole, , axis)\n"
            f"y0, rest = Split <axis: int = -1, num_outputs: int = 2> (z)\n{ints('last', -1)}Y = Squeeze(y0, last)")


def word_conv_embedding(s: Site) -> str:
    """Characters are looked up; windows of them along each word go through a layer and tanh, and the largest of each feature is
    the word's. Windows that begin behind the last character that is no 0 do not count."""
    sequence = s.shape("Sequence")
    filters, _, window, size = s.shape("W")
    if len(sequence) < 2:
        raise NoText("words without sequences")
    words, letters = [*sequence[:-1]], sequence[-1]
    count = letters - window + 1
    return (f"{ints('flat', -1, letters)}chars = Reshape(Sequence, flat)\nE = Gather(C, chars)\n{ints('channel', 1)}"
            f"X = Unsqueeze(E, channel)\nV = Conv <kernel_shape: ints = [{window}, {size}]> (X, W, B)\n"
            f"T0 = Tanh(V)\n{ints('last', 3)}T = Squeeze(T0, last)\n"
            f"{scalar('zero', 0)}z = CastLike(zero, chars)\nthere = Greater(chars, z)\nthere32 = Cast <to: int = 7> (there)\n"
            f"{ints('along', 1)}real = ReduceSum <keepdims: int = 1> (there32, along)\n"
            f"{scalar('width', window)}{scalar('one', 1)}"
            "rest = Sub(real, width)\nend0 = Add(rest, one)\nend = Max(end0, one)\n"
            f"{ints('places', *range(count))}inside = Less(places, end)\nseen = Unsqueeze(inside, along)\n"
            + constant("low", float("-inf"), "T") + "M0 = Where(seen, T, low)\n"
            f"{ints('windows', 2)}M = ReduceMax <keepdims: int = 0> (M0, windows)\n{ints('shape', *words, filters)}"
            "Y = Reshape(M, shape)")


def crop_and_resize(s: Site) -> str:
    """Points of the crop lie from corner to corner of its box, at its middle where there is one; those outside of the image
    have `extrapolation_value` (Huang et al., Speed/accuracy trade-offs for modern convolutional object detectors, 2017)."""
    mode = s.word("mode", "bilinear")
    if mode not in ("bilinear", "nearest"):
        raise NoText(f"the mode {mode!r}")
    height, width = s.shape("X")[2:]
    lines = f"images = Gather <axis: int = 0> (X, batch_indices)\n{ints('column', 1)}{constant('zero', 0.0, 'X')}" \
            f"{constant('one', 1.0, 'X')}{constant('half', 0.5, 'X')}{constant('two', 2.0, 'X')}"
    for k, (n, extent) in enumerate((("y", height), ("x", width))):
        lines += (f"{ints(f'{n}_low', k)}{ints(f'{n}_high', k + 2)}{scalar(f'{n}_axis', k)}"
                  f"{n}1 = Gather <axis: int = 1> (rois, {n}_low)\n{n}2 = Gather <axis: int = 1> (rois, {n}_high)\n"
                  f"{n}_count0 = Gather(crop_size, {n}_axis)\n{n}_count = CastLike({n}_count0, X)\n"
                  f"{n}_points = Range(zero, {n}_count, one)\n{n}_gaps0 = Sub({n}_count, one)\n{n}_gaps = Max({n}_gaps0, one)\n"
                  f"{n}_part = Div({n}_points, {n}_gaps)\n{n}_single = Equal({n}_count, one)\n"
                  f"{n}_share = Where({n}_single, half, {n}_part)\n{n}_span = Sub({n}2, {n}1)\n"
                  f"{n}_step = Mul({n}_span, {n}_share)\n{n}_unit = Add({n}1, {n}_step)\n"
                  + constant(f"{n}_last", extent - 1, "X") + f"{n}_at = Mul({n}_unit, {n}_last)\n"
                  f"{n}_above = GreaterOrEqual({n}_at, zero)\n{n}_below = LessOrEqual({n}_at, {n}_last)\n"
                  f"{n}_in = And({n}_above, {n}_below)\n{n}_twice = Mul({n}_unit, two)\n{n}_place = Sub({n}_twice, one)\n")
    lines += (f"{ints('rows', 2)}{ints('columns', 1)}{ints('end', 3)}gy0 = Unsqueeze(y_place, rows)\n"
              "gx0 = Unsqueeze(x_place, columns)\nzero_grid = Mul(gx0, zero)\nzero_rows = Mul(gy0, zero)\n"
              "gy = Add(gy0, zero_grid)\ngx = Add(gx0, zero_rows)\ngy4 = Unsqueeze(gy, end)\ngx4 = Unsqueeze(gx, end)\n"
              "grid = Concat <axis: int = 3> (gx4, gy4)\n"
              f'sampled = GridSample <mode: string = "{"linear" if mode == "bilinear" else mode}", '
              'padding_mode: string = "border", '
              "align_corners: int = 1> (images, grid)\n"
              "iy = Unsqueeze(y_in, rows)\nix = Unsqueeze(x_in, columns)\ninside0 = And(iy, ix)\n"
              "inside = Unsqueeze(inside0, column)\n"
              + constant("outside", s.number("extrapolation_value", 0.0), "X") + "Y = Where(inside, sampled, outside)")
    return lines


def n_gram_repeat(s: Site) -> str:
    """A token that would end an n-gram which stands in the text already has the score -inf."""
    size = int(s.attributes["ngram_size"])
    batch, length = s.shape("input_ids")
    words = s.shape("scores")[1]
    if size < 1:
        raise NoText(f"n-grams of {size}")
    count = length - size + 1
    if count < 1:
        return "scores_out = Identity(scores)"
    lines = "ids = Cast <to: int = 7> (input_ids)\n"
    alike = []
    for k in range(size - 1):
        lines += ints(f"c{k}", *range(k, k + count)) + ints(f"e{k}", length - size + 1 + k)
        lines += f"a{k} = Gather <axis: int = 1> (ids, c{k})\nb{k} = Gather <axis: int = 1> (ids, e{k})\n" \
            f"q{k} = Equal(a{k}, b{k})\n"
        alike.append(f"q{k}")
    if alike:
        lines += f"r0 = Identity({alike[0]})\n" + "".join(f"r{k} = And(r{k - 1}, {n})\n" for k, n in enumerate(alike) if k)
        lines += f"repeated = Identity(r{len(alike) - 1})\n"
    else:
        lines += f"{ints('grid', batch, count)}true0 = Constant <value_int: int = 1> ()\ntrue1 = Cast <to: int = 9> (true0)\n" \
                 "repeated = Expand(true1, grid)\n"
    lines += ints("ends", *range(size - 1, size - 1 + count)) + "next = Gather <axis: int = 1> (ids, ends)\n"
    lines += f"{ints('words', *range(words))}{ints('behind', 2)}n3 = Unsqueeze(next, behind)\nis = Equal(n3, words)\n" \
             "r3 = Unsqueeze(repeated, behind)\nhit = And(is, r3)\nhit32 = Cast <to: int = 6> (hit)\n" \
             f"{ints('along', 1)}most = ReduceMax <keepdims: int = 0> (hit32, along)\nbanned = Cast <to: int = 9> (most)\n"
    return (f"{lines}least0 = Constant <value_float: float = -inf> ()\nleast = CastLike(least0, scores)\n"
            "scores_out = Where(banned, least, scores)")


def relative_position_bias(s: Site) -> str:
    """T5's buckets of distances (Raffel et al., 2020): the first half count, the others grow with the logarithm."""
    buckets = s.shape("bias_table")[0]
    both, most = bool(s.number("is_bidirectional", 0)), int(s.number("max_distance", 128))
    half = buckets // 2 if both else buckets
    exact = half // 2
    lines = "q = Squeeze(query_length)\nk = Squeeze(key_length)\no = Constant <value_int: int = 0> ()\n" \
            f"{scalar('one', 1)}rows = Range(o, q, one)\ncolumns = Range(o, k, one)\n" \
            f"{ints('behind', 1)}at = Unsqueeze(rows, behind)\n" \
            "distance = Sub(columns, at)\n"
    if both:
        lines += f"{scalar('half', half)}later = Greater(distance, o)\nlater64 = Cast <to: int = 7> (later)\n" \
                 "offset = Mul(later64, half)\nn = Abs(distance)\n"
    else:
        lines += "offset = Sub(distance, distance)\nback = Neg(distance)\nn = Max(back, o)\n"
    lines += (f"{scalar('exact', exact)}near = Less(n, exact)\nsafe = Max(n, one)\nf = Cast <to: int = 1> (safe)\n"
              f"unit = Constant <value_float: float = {real(exact)}> ()\nratio = Div(f, unit)\ng = Log(ratio)\n"
              f"span = Constant <value_float: float = {real(math.log(most / exact))}> ()\n"
              f"steps = Constant <value_float: float = {real(half - exact)}> ()\nh = Div(g, span)\nj = Mul(h, steps)\n"
              f"j64 = Cast <to: int = 7> (j)\nfar0 = Add(j64, exact)\n{scalar('top', half - 1)}far = Min(far0, top)\n"
              "bucket0 = Where(near, n, far)\nbucket = Add(bucket0, offset)\nB = Gather <axis: int = 0> (bias_table, bucket)\n"
              f"H = Transpose <perm: ints = [2, 0, 1]> (B)\n{ints('front', 0)}output = Unsqueeze(H, front)")
    return lines


def remove_padding(s: Site) -> str:
    """Tokens of all sequences, one behind the other: how many there are only a run can tell."""
    batch, length, _ = s.shape("input")
    return (f"{ints('places', *range(length))}{ints('behind', 1)}counts = Cast <to: int = 7> (sequence_token_count)\n"
            "ends = Unsqueeze(counts, behind)\ninside = Less(places, ends)\n"
            f"{ints('all', -1)}{ints('front', 0)}flat = Reshape(inside, all)\nstands = NonZero(flat)\n"
            "real = Squeeze(stands, front)\n"
            "outside = Not(flat)\npads0 = NonZero(outside)\npads = Squeeze(pads0, front)\n"
            "order = Concat <axis: int = 0> (real, pads)\n" f"{ints('grid', batch, length)}order2 = Reshape(order, grid)\n"
            "token_offset = CastLike(order2, sequence_token_count)\n"
            f"{ints('rows', -1, s.shape('input')[2])}x = Reshape(input, rows)\n"
            "output = Gather <axis: int = 0> (x, real)\n" f"{ints('nothing', 0)}"
            "along = Constant <value_int: int = 0> ()\nsums0 = CumSum(counts, along)\n"
            "sums = Concat <axis: int = 0> (nothing, sums0)\n"
            "cumulated_seq_len = CastLike(sums, sequence_token_count)\nmost = ReduceMax <keepdims: int = 1> (counts)\n"
            "max_seq_len = CastLike(most, sequence_token_count)")


def restore_padding(s: Site) -> str:
    batch, length = s.shape("token_offset")
    width = s.shape("input")[1]
    return (f"{ints('all', -1)}offsets0 = Reshape(token_offset, all)\noffsets = Cast <to: int = 7> (offsets0)\n"
            f"{ints('first', 0)}"
            "tokens = Shape <start: int = 0, end: int = 1> (input)\nreal = Slice(offsets, first, tokens)\n"
            f"{ints('behind', 1)}rows = Unsqueeze(real, behind)\n{ints('blank_shape', batch * length, width)}"
            + constant("zero", 0.0, "input") + "blank = Expand(zero, blank_shape)\nfilled = ScatterND(blank, rows, input)\n"
            f"{ints('whole', batch, length, width)}output = Reshape(filled, whole)")

"""TfIdfVectorizer over numbers: how often the sequences of a pool occur in each row."""

from __future__ import annotations

import numpy as np

from polytc.graph.operators.binding import Apply, Binder, Known, Lowering, Site, Step, View


def tf_idf(site: Site) -> Lowering:
    """Sequences of each length, at each skip, counted and added to their columns; then the weights of the columns."""
    pool = site.attr("pool_int64s")
    if not pool or not site.dtype(0).is_int:
        raise site.unsupported("a pool of strings")
    shape = site.shape(0)
    rows, extent = (1, shape[0] if shape else 1) if len(shape) < 2 else shape
    least, most, skips = site.attr("min_gram_length"), site.attr("max_gram_length"), site.attr("max_skip_count")
    columns = np.array(site.attr("ngram_indexes"), np.int64)
    width, mode = int(columns.max()) + 1, site.attr("mode")
    steps: list[Step] = [View(0, (rows, extent), "x")]
    names: list[str] = []
    found = [g for g in _by_length(pool, site.attr("ngram_counts")) if least <= g[1].shape[1] <= most]
    for first, sequences in found:
        length = sequences.shape[1]
        own = columns[first:first + len(sequences)]
        for skip in range(1, skips + 2 if length > 1 else 2):
            places = extent - skip * (length - 1)
            if places < 1:
                continue
            k = len(names)
            equal = " && ".join(f"X[b, i + {skip * j}] == P[g, {j}]" for j in range(length))
            steps += [Apply("words.Count", ("x", sequences), (f"f{k}",), attrs={"n": places}, spell={"equal": equal}),
                      Apply("words.Columns", (f"f{k}", own), (f"c{k}",), attrs={"n": width})]
            names.append(f"c{k}")
    if not names:
        return Known(np.zeros((rows, width) if len(shape) == 2 else width, np.float32))
    total = names[0]
    for k, name in enumerate(names[1:]):
        steps.append(Apply("elementwise.Add", (total, name), (f"t{k}",)))
        total = f"t{k}"
    if mode == "IDF":
        steps.append(Apply("words.Occurs", (total,), ("o",)))
        total = "o"
    weights = site.attr("weights")
    if mode != "TF" and weights:
        of_columns = np.zeros(width, np.float32)  # the weights are those of the sequences
        of_columns[columns] = weights[:len(columns)]
        steps.append(Apply("elementwise.Mul", (total, of_columns), ("w",)))
        total = "w"
    return (*steps, View(total, (rows, width) if len(shape) == 2 else (width,)))


def _by_length(pool: list[int], starts: list[int]) -> list[tuple[int, np.ndarray]]:
    """For each length that the pool has, the number of its first sequence and all of them, one a row."""
    ends = [*starts[1:], len(pool)]
    found, first = [], 0
    for length, (start, end) in enumerate(zip(starts, ends), 1):
        count = (end - start) // length
        if count:
            found.append((first, np.array(pool[start:start + count * length], np.int64).reshape(count, length)))
        first += count
    return found


ROWS: dict[str, Binder] = {"TfIdfVectorizer": tf_idf}

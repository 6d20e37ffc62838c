"""Programs with `for` loops put together by hand, without the parser."""

from polytc.program import program as pr
from polytc.program.scalars import BOOL, F64, I64


def ix(e):
    """A name or a number as an integer expression."""
    return e if not isinstance(e, (str, int)) else pr.Index(e) if isinstance(e, str) else pr.Const(e, I64)


def plus(a, b):
    return pr.Binary("+", ix(a), ix(b), I64)


def below(a, b):
    return pr.Binary("<", ix(a), ix(b), BOOL)


def read(tensor, *subscripts, default=None):
    return pr.Read(tensor, tuple(map(ix, subscripts)), F64, None if default is None else pr.Const(default, F64))


def number(x):
    return pr.Const(x, F64)


def calc(op, a, b):
    return pr.Binary(op, a, b, F64)


def statement(name, target, subscripts, op, value, ranges, where=(), loops=()):
    return pr.Statement(name, target, tuple(map(ix, subscripts)), op, value,
                        tuple(pr.Range(*r) for r in ranges), tuple(where), loops=tuple(loops))


def tensor(name, *shape):
    return pr.Tensor(name, F64, shape, (0,) * len(shape))


def cholesky(n):
    """A[n,n] in place: the lower triangle of A becomes its factor."""
    diagonal = statement("S1", "A", "kk", None, pr.Call("sqrt", (read("A", "k", "k"),), F64), [("k", 0, n)], (), ["L1"])
    column = statement("S2", "A", "ik", None, calc("/", read("A", "i", "k"), read("A", "k", "k")),
                       [("k", 0, n), ("i", 1, n)], [below("k", "i")], ["L1"])
    rest = statement("S3", "A", "ij", "+", pr.Unary("-", calc("*", read("A", "i", "k"), read("A", "j", "k")), F64),
                     [("k", 0, n), ("i", 1, n), ("j", 1, n)],
                     [below("k", "i"), below("k", "j"), below("j", plus("i", 1))], ["L1"])
    return pr.Program("cholesky", (tensor("A", n, n),), (diagonal, column, rest), ("A",), ("A",))


def jacobi(t, n):
    """X[n] smoothed t times through a temporary, in place."""
    def smooth(name, to, of):
        value = calc("*", number(0.25), calc("+", calc("+", read(of, plus("i", -1)), read(of, "i")), read(of, plus("i", 1))))
        return statement(name, to, "i", None, value, [("t", 0, t), ("i", 1, n - 1)], (), ["T"])
    copy = statement("S0", "Y", "i", None, read("X", "i"), [("i", 0, n)])
    return pr.Program("jacobi", (tensor("X", n), tensor("Y", n)), (copy, smooth("S1", "Y", "X"), smooth("S2", "X", "Y")),
                      ("X",), ("X",))


def recurrence(n):
    """P[i] = P[i-1] + X[i] as a loop."""
    value = calc("+", read("P", plus("i", -1), default=0.0), read("X", "i"))
    return pr.Program("scan", (tensor("X", n), tensor("P", n)),
                      (statement("S1", "P", "i", None, value, [("i", 0, n)], (), ["L"]),), ("X",), ("P",))


def carried_scalar(t, n):
    """A scalar temporary that is carried from iteration to iteration, and a row that is used within one."""
    start = statement("S0", "s", "", None, number(1.0), [])
    row = statement("S1", "R", "i", None, calc("*", read("s"), read("X", "t", "i")), [("t", 0, t), ("i", 0, n)], (), ["L"])
    total = statement("S2", "s", "", "+", calc("*", read("R", "i"), number(0.5)), [("t", 0, t), ("i", 0, n)], (), ["L"])
    keep = statement("S3", "Y", "t", None, read("s"), [("t", 0, t)], (), ["L"])
    return pr.Program("carried", (tensor("X", t, n), tensor("s"), tensor("R", n), tensor("Y", t)),
                      (start, row, total, keep), ("X",), ("Y",))


def nested(t, n):
    """Two loops, statements before, in and behind the inner one; bounds of the inner loop depend on the outer index."""
    first = statement("S1", "Y", "t", None, read("X", "t"), [("t", 0, t)], (), ["L1"])
    inner = statement("S2", "Y", "t", None, calc("+", calc("*", read("Y", "t"), number(0.5)), read("X", "u")),
                      [("t", 0, t), ("u", 0, n)], [below("u", plus("t", 1))], ["L1", "L2"])
    store = statement("S3", "Z", ("t", "u"), None, read("Y", "t"), [("t", 0, t), ("u", 0, n)],
                      [below("u", plus("t", 1))], ["L1", "L2"])
    after = statement("S4", "X", ("t",), "+", read("Y", "t"), [("t", 0, t)], (), ["L1"])
    return pr.Program("nested", (tensor("X", n), tensor("Y", t), tensor("Z", t, n)), (first, inner, store, after),
                      ("X", "Z"), ("X", "Y", "Z"))

"""Every diagnostic of the language: code, the text under the carets, and the witness or cure in its notes."""

# ruff: noqa: C408 -- dict(A=A) reads better than {"A": A} in rows of tables

import re
from pathlib import Path

import pytest

from polytc import errors, lang
from polytc.errors import CompileError

S = {"A": (4, 4), "B": (4, 3), "v": (4,), "w": (3,), "n": (4,), "p": (4,)}
T = {"n": "i32", "p": "bool"}

CALLEE = "def g(f32[M,N] A, f32[N] v, i32 n) -> (Y) { assume n < N; Y[i] += A[i,k] + v[i+n] where i in 0:M-1 }"

# (code, program, text under the carets, part of the notes, other arguments of build)
ROWS = [
    ("E001", "C[i j] = v[i]", "j", "separated by commas"),
    ("E001", "C[i]", " ", "`=` or an update"),
    ("E001", "C[i] = v[i] +", " ", "operand is missing"),
    ("E001", "C[i] = v[i] where i in 3", " ", "where i in lower:upper"),
    ("E001", "C[i] == v[i]", "==", "update is written"),
    ("E001", "D[i] = v[i]\nC[i] == v[i]", "==", "update is written"),
    ("E001", "C[i] = v[i]**2", "**", "pow(v[i], 2)"),
    ("E001", "C[i] = v[i] where i > 1 or i < 3", "or", "`||`"),
    ("E306", "C[i] = i64(n[i]) * 99999999999999999999", "i64(n[i]) * 99999999999999999999", "i64 holds"),
    ("E001", "C[in] = v[in]", "in", "no name"),
    ("E109", "def f(f32[N] v) { C[i] = v[i] }", "f", "-> (C)"),
    ("E001", "C[i] = v.size[0]", "size", "A.shape[0]"),
    ("E002", "C[i] = exp(v[i]", "(", ""),
    ("E002", "def f(f32[N] v) -> (C) { C[i] = v[i]", "{", ""),
    ("E003", "C[i] = v[i] @ w[i]", "@", "C[i,j] += A[i,k] * B[k,j]"),
    ("E004", "  # nothing\n", None, ""),
    ("E005", "def f(f32[N] v) -> (C) { C[i] = v[i] }\nD[i] = v[i]", "D[i] = v[i]", "leave the definitions out"),
    ("E006", "C[i] = " + "(" * 3000 + "v[i]" + ")" * 3000, "i", "temporary"),
    ("E006", "C[i] = " + " + ".join(["v[i]"] * 3000), "v[i]", "temporary"),
    ("E007", "C[i] = v[i]  # " + "x" * 300 + "\nD[" + "x" * 201 + "] = v[i]", "x" * 201, "at most 200"),
    ("E008", "precise fast def f(f32[N] v) -> (C) { C[i] = v[i] }", "fast", "keep one"),
    ("E115", "for t in 0:3 { (M, J) argmax= (v[i], i) }", "(M, J) argmax= (v[i], i)", "write `argmax=!`"),
    ("E103", "def g(inout f32[N] a) { a[i] += 1 }\nT[i] = v[i]; C = g(T)", "C", "write the call alone: `g(...)`"),
    ("E104", "def g(inout f32[N] a, f32[N] b) { a[i] = b[i] }\nT[i] = v[i]; g(T, T)", "T", "a copy"),
    ("E106", "def g(inout f32[N] a) { a[i] += 1 }\ndef f(f32[N] v) -> (C) { g(v); C[i] = v[i] }", "v", "declare it `inout`"),
    ("E101", "def g(inout f32[N] a) { a[i] += 1 }\ng(T); C[i] = v[i]", "T", "nothing before this call writes it"),
    ("E102", "T[i] = v[i]; h(T)", "h(T)", ""),
    ("E110", "T[i] = v[i]; relu(*T)", "*T", "by its name"),
    ("E123", "V[i] = v[i]\nfor t in 0:2 { Z = relu(V); V[i+t+1] = Z[i] }", "V", "f32 0:4 in the first, and f32 0:6 in the end"),
    ("E101", "for t in 0:2 { Z = relu(Q); Q[i] = Z[i] + v[i] }", "Q", "nothing before this call writes it"),
    ("E210", "T[i] = v[i]; T[i+j] +=! w[i]*w[j] where i + j < 4, i + j != 1; U[i] = T[i]", "T[i+j]", "i=0, j=2 and i=1, j=1"
     " both write T[2]"),
    ("E302", "def f(f32[N] v, f64 k) -> (f32[N] C) { for i in 0:N { T[i] = k*(T[i-1] else 0) + v[i] }\nC[i] = T[i] }",
     "C[i] = T[i]", "`f32(...)`", dict(scalars={"k": 0.5})),
    ("E101", "def f(f32[N] v) -> (C) { C[i] = V[i] }", "V[i]", "did you mean `v`?"),
    ("E102", "C[i] = sqr(v[i])", "sqr(v[i])", "did you mean `sqrt`?"),
    ("E103", "C[i] = max(v[i])", "max(v[i])", ""),
    ("E104", "def f(f32[N] v, f32[N] v) -> (C) { C[i] = v[i] }", "v", ""),
    ("E104", "s[i] = v[i]", "s[i]", "", dict(scalars={"s": 2})),
    ("E105", "C[i] = A[i]", "A[i]", ""),
    ("E105", "C[i] = v[i]; C[i,j] = A[i,j]", "C[i,j]", ""),
    ("E105", "C[v] = w[i]", "v", ""),
    ("E106", "v[i] = w[i]", "v[i]", "another name"),
    ("E107", "op F<alpha>(v[*i]) -> Y[*i] { Y[*i] = alpha*v[*i] }", "alpha", ""),
    ("E107", "op F<alpha=1>(v[*i]) -> Y[*i] { Y[*i] = alpha*v[*i] }", "F", "did you mean `alpha`?", dict(attrs={"alph": 2})),
    ("E108", "def f(f32[N] v) -> (C) { C[i] = v[i] }\ndef g(f32[N] v) -> (C) { C[i] = v[i] }", "g", "f, g"),
    ("E108", "def f(f32[N] v) -> (C) { C[i] = v[i] }", None, "defined: f", dict(entry="main")),
    ("E109", "C[i] = v[i] -> (D)", "D", ""),
    ("E110", "op F(v[*i, *j]) -> Y[*i] { Y[*i] += v[*i, *j] }", "*i", "packs="),
    ("E110", "op F(v[*i]) -> Y[*i] { Y[*i] = v[i] }", "i", "write `*i`"),
    ("E111", "C[i] = v[i*i]", "i*i", ""),
    ("E111", "C[i] = v[i] where i in 0:i*i", "i*i", "min max clamp"),
    ("E112", "C[i] = A[i,j]", "C[i] = A[i,j]", "`+=`"),
    ("E112", "C[i] = v[i]; C[i] %= A[i,j]", "C[i] %= A[i,j]", "one after another: `for j in 0:N { C[i] %= A[i,j] }`"),
    ("E112", "C[i] = alpha * v[i]", "alpha", "scalars={"),
    ("E113", "C[i] = exp((v[i] * 2 else 0))", "v[i] * 2", "A[i-1] else 0"),
    ("E113", "C[i] = v[i] else identity", "v[i] else identity", "+="),
    ("E114", "C[i] = v[i] where v in 0:3", "v in 0:3", ""),
    ("E114", "C[i] = v[i] where i in 0:4:0", "i in 0:4:0", ""),
    ("E114", "C[i] = v[i]; for q in n[0]:4:2 { C[q] = v[q] }", "q", "narrow it"),
    ("E114", "C[i] = v[i] where v = 3", "v = 3", ""),
    ("E114", "C[i] = v[i] where i + 1", "i + 1", ""),
    ("E115", "(M, J) += (v[i], i)", "+=", "one statement for each tensor"),
    ("E115", "(M, J) = (v[i], i)", "=", "argmax="),
    ("E115", "(M, J) argmax= (v[i], i, i)", "(M, J) argmax= (v[i], i, i)", "the first value decides"),
    ("E116", "S1[j]: M max= v[i]", "S1[j]:", "they are i"),
    ("E203", "C = v[-1]", "v[-1]", "coordinates count from 0: the last one is 3"),
    ("E117", "C[i] = [1, 2][i, j] * v[i]", "[1, 2][i, j]", "a subscript for each dimension"),
    ("E116", "temp f32 M; M max= v[i]", "temp f32 M", "temp f32[N] T"),
    ("E117", "Y[i] = [[1,2],[3]][i,j]", "[[1,2],[3]]", "row"),
    ("E115", "M argmax= v[i]", "argmax=", "write `(M[i], J[i]) argmax="),
    ("E115", "M max= v[i]; (M, J) argmax= (v[i], i)", "M", "write to other tensors"),
    ("E115", "(M[i], M[i]) argmin= (A[i,j], j)", "M[i]", "starts afresh"),
    ("E115", "(M[i], J[j]) argmin= (A[i,j], j)", "J[j]", "one place"),
    *((code, f"{CALLEE}\n{call}", *rest) for code, call, *rest in [
        ("E103", "Y = g(A)", "g(A)", "`g` is defined in line 1: def g("),
        ("E103", "(Y, Z) = g(A, v, 2)", "Z", "line 1"),
        ("E205", "Y = g(v, v, 2)", "v", "`g` is defined in line 1: def g("),
        ("E206", "Y = g(B, v, 2)", "v", "line 1"),
        ("E301", "T[i] = f64(v[i])\nY = g(A, T, 2)", "T", "line 1"),
        ("E301", "Y = g(A, v, 0.5)", "0.5", "line 1"),
        ("E220", "Y = g(A, v, 7)", "g(A, v, 7)", "with n=7, N=4"),
        ("E101", "Y = g(A, u, 1); u[i] = v[i]", "u", "nothing before this call writes it"),
        ("E208", "Y = g(A, u, 1)", "u", ""),
        ("E121", "Y = g(A, v, 2 * m)", "2 * m", "a literal, a size"),
        ("E121", "Y = g(A, v + 1, 2)", "v + 1", "into a tensor first"),
        ("E121", "Y[i] = 2 * g(A, v, 2)", "g(A, v, 2)", "a statement of its own"),
        ("E121", "(Y[i], Z) = g(A, v, 2)", "Y[i]", "(A, B) = f(X)"),
        ("E203", "Y = g(A, v, 3)", "v[i+n]", "in the call in line 2"),
        ("E107", "Y = g<n=2>(A, v, 1)", "g<n=2>(A, v, 1)", "line 1"),
        ("E104", "(Y, Y) = (g(A, v, 1))", "(Y, Y) = (g(A, v, 1))", "its own"),
        ("E102", "Y = gg<n=2>(v)", "gg<n=2>(v)", "did you mean `g`?"),
        ("E106", "v = g(A, v, 1)", "v", ""),
    ]),
    ("E103", "Y = softmax(A, v)", "softmax(A, v)", "`softmax` comes from the prelude: op softmax(X)"),
    ("E105", "Y = bmm(v, v)", "bmm(v, v)", "prelude"),
    ("E121", "Y[i] = relu(v[i])", "relu(v[i])", "a statement of its own"),
    ("E303", "Y = softmax(p)", "softmax(p)", "prelude"),
    ("E310", "acc(f64) C[i] = v[i]", "acc(f64) C[i] = v[i]", "it belongs to an update"),
    ("E310", "acc(i32) C[i] += A[i,k]", "acc(i32) C[i] += A[i,k]", "the values of f32 fit into f64"),
    ("E310", "acc(f16) C[i] += A[i,k]", "acc(f16) C[i] += A[i,k]", "fit into f32"),
    ("E307", "acc(f65) C[i] += A[i,k]", "acc(f65) C[i] += A[i,k]", "did you mean"),
    ("E120", "def f(f32[N] v) -> (C) { C = g(v) }\ndef g(f32[N] v) -> (C) { D = f(v); C[i] = D[i] }", "g(v)",
     "line 2 calls `f`"),
    ("E120", "def f(f32[N] v) -> (C) { C = f(v) }", "f(v)", "`for` block"),
    ("E122", "assume M > 3; C[i] = v[i]", "assume M > 3", "sizes"),
    ("E122", "def f(f32[N] v, f32 a) -> (C) { assume a > 0; C[i] = a*v[i] }", "assume a > 0", "",
     dict(shapes={"v": (4,), "a": ()})),
    ("E220", "def f(f32[M,K] A) -> (C) { assume M > K + 1; C[i,j] = A[i,j] }", "assume M > K + 1", "with M=4, K=4"),
    ("E220", "assume v.shape[0] % 8 == 0; C[i] = v[i]", "assume v.shape[0] % 8 == 0", "v.shape[0]=4"),
    ("E201", "C[i] += k where k in 0:n[i]", "C[i] += k where k in 0:n[i]", "k in 0:..."),
    ("E211", "T[i] = n[i]; T[i] += n[k] where k in 0:T[i]", "T[i]", "which"),
    ("E308", "C[i] += v[k] where k in v[i]:4", "v[i]", "i64(...)"),
    ("E201", "C[i,j] = v[i]", "C[i,j] = v[i]", "`where j in 0:...`"),
    ("E201", "C[i] += alpha * v[i]", "C[i] += alpha * v[i]", "neither a tensor of the program, nor a size, nor a scalar"),
    ("E201", "C[i,j] = A[i, j%3]", "C[i,j] = A[i, j%3]", "dimension 1 of `A` allows every value of it"),
    ("E202", "C[i] += v[i+k] * A[k,l] * B[k+i,0] where k in 0:5", "C[i] += v[i+k] * A[k,l] * B[k+i,0] where k in 0:5",
     "dimension 0 of `v` allows the coordinates 0:4, for all of k in 0:5"),
    ("E202", "C[i] += v[k] where i in 0:3, i in 5:9", "C[i] += v[k] where i in 0:3, i in 5:9", "stated as 5:9"),
    ("E202", "(M[i], J[i]) argmax= (A[i,j], j)", "(M[i], J[i]) argmax= (A[i,j], j)", "there is no winner",
     dict(shapes={"A": (4, 0)})),
    ("E201", "C[i] += v[i+k] * w[k]", "C[i] += v[i+k] * w[k]", "allows every value", dict(shapes={"v": (4,), "w": (0,)})),
    ("E203", "C[i] = v[i] where i in 0:3", "v[i]", "i=2 reads v[2], extent 0", dict(shapes={"v": (0,)})),
    ("E203", "C[i] = v[n[i]]", "v[n[i]]", "guard the read", dict(shapes={"v": (0,), "n": (3,)})),
    ("E202", "C[i] = i%2 == 0 ? v[i] : v[i-9]", "C[i] = i%2 == 0 ? v[i] : v[i-9]", "reads in the branches",
     dict(shapes={"v": (7,)})),
    ("E202", "C[i] = v[i] where i > 7", "C[i] = v[i] where i > 7", "exclude every value"),
    ("E202", "s += v[i] where i % 2 == 0, i % 2 == 1", "s += v[i] where i % 2 == 0, i % 2 == 1", "exclude"),
    ("E202", "s += A[i,j] where i - j == 1, (i + j) % 2 == 0", "s += A[i,j] where i - j == 1, (i + j) % 2 == 0", ""),
    ("E203", "C[i] = v[i] where i in 1:7", "v[i]", "i=6 reads v[6], extent 4"),
    ("E203", "C[i] = v[i-1] where i in 0:4", "v[i-1]", "i=0 reads v[-1], extent 4"),
    ("E203", "def f(f32[M,K] A) -> (C) { C[i,j] = A[i,i+j] where i in 0:M, j in 0:K }", "A[i,i+j]",
     "with M=4, K=4: i=3, j=3 reads A[_, 6], extent 4"),
    ("E203", "C[i,j] = A[i,j] + v[i-j] where i in 0:4, j in 0:4, j <= i+1", "v[i-j]", "i=0, j=1 reads v[-1], extent 4"),
    ("E203", "C[i] = T[i] where i in 0:4; T2[i] = v[i]", None, "", dict(shapes={"T": (3,), "v": (4,)})),
    ("E204", "s += v[(i*7 + j) % 5 - (i*7 + j) % 4] where i in 0:3000, j in 0:3000",
     "v[(i*7 + j) % 5 - (i*7 + j) % 4]", "narrow the ranges"),
    ("E205", "def f(f32[4,5] A) -> (C) { C[i] += A[i,j] }", "5", ""),
    ("E205", "def f(f32[N] A) -> (C) { C[i] += A[i,j] }", "A", ""),
    ("E205", "def f(f32[N] v) -> (f32[N+1] C) { C[i] = v[i] }", "C[i]", "state the ranges"),
    ("E206", "def f(f32[N,K] A, f32[N] w) -> (C) { C[i] = w[i] }", "N", ""),
    ("E207", "C[0] = v[0]; C[i] = C[i-1] + v[i]", "v[i]", "in a loop: `for i in 1:7 { C[i] = C[i-1] + v[i] }`",
     dict(shapes={"v": (7,)})),
    ("E207", "op F(A[*i?], w[*i?]) -> Y[*i] { Y[*i] = A[*i] + w[*i] }", "w", ""),
    ("E208", "C[i] = x[i]", "x[i]", ""),
    ("E209", "C[i] = (v[i] else 0) where i in 0:1000000000000000", "C[i]", "compute it in parts"),
    ("E209", "T[i] = (v[i] else 0) where i in 0:2000000000000000000; s += T[i]", "T[i]", "process can address"),
    ("E209", "C[i] = v[i]", "C[i]", "", dict(shapes={"v": (1 << 61,)})),
    ("E210", "C[i+j] = A[i,j]", "C[i+j]", "i=0, j=1 and i=1, j=0 both write C[1]"),
    ("E210", "C[i//2] = v[i]", "C[i//2]", "i=0 and i=1 both write C[0]"),
    ("E211", "C[i] = v[i]; C[i] = C[i-1] + 1", "C[i-1]", "instance i=2 reads C[1], which i=1 writes"),
    ("E211", "C[i] = v[i]; C[i] += C[k]", "C[k]", "which"),
    ("E211", "C[i] = v[i]; C[i] = C[n[i]]", "C[n[i]]", "copy"),
    ("E211", "C[i] = v[i]; C[n[i]] = C[n[i]] + 1", "C[n[i]]", "+="),
    ("E214", "C[n[i]] = v[i] -> (f32[9] C)", "C[n[i]]", "the first is C[0]"),
    ("E308", "C[i] = v[i]; C[v[i]] = 1", "v[i]", "i64(...)"),
    ("E212", "C[i] = D[i] + v[i]; D[i] = v[i]", "D[i]", ""),
    ("E213", "T[2*i] = v[i]; C[i] = T[i] -> (C)", "T[i]", "i=1 reads T[1]"),
    ("E213", "T[i,j] = A[i,j] where j <= i; C[i] += T[i,j] -> (C)", "T[i,j]", "i=0, j=1 reads T[0, 1]"),
    ("E213", "T[i,j] = A[i,j] where j <= i; T[i,j] += B[i,j]", "T[i,j]", "i=0, j=1 reads T[0, 1]"),
    ("E213", "T[2*i] = v[i]; C[k] = T[n[k]] -> (C)", "T[n[k]]", "reads T[_]"),
    ("E214", "C[2*i] = v[i]", "C[2*i]", "the first is C[1]; its bounds are 0:7"),
    ("E215", "def f(f32[N] v, f32 alpha) -> (C) { C[i] = alpha*v[i] }", "alpha", ""),
    ("E216", "H[n[i]] += 1", "H[n[i]]", "declare the shape"),
    ("E216", "T[A2[i,j], j] = A[i,j]; C[i] = v[i]", "T[A2[i,j], j]", "write the tensor first",
     dict(shapes=S | {"A2": (4, 4)}, dtypes=T | {"A2": "i64"})),
    ("E301", "def f(f64[N] v) -> (C) { C[i] = v[i] }", "v", "declare `f32`", dict(dtypes={"v": "f32"})),
    ("E301", "def f(f32[N] v, i32 k) -> (C) { C[i] = v[i] }", "k", "", dict(scalars={"k": 1.5})),
    ("E302", "def f(f64[N] v) -> (f32[N] C) { C[i] = v[i] }", "C[i] = v[i]", "`f32(...)`", dict(dtypes={})),
    ("E302", "C[i] = n[i] else 0.5", "0.5", ""),
    ("E303", "C[i] = p[i] + p[i]", "p[i] + p[i]", "`i64(x)`"),
    ("E303", "s += v[i] > 0", "s += v[i] > 0", "`i64(v[i] > 0)`"),
    ("E303", "C[i] = n[i] & 1 == 0", "n[i] & 1 == 0", "write `(n[i] & 1) == 0`"),
    ("E303", "C[i] = -p[i]", "-p[i]", "!x"),
    ("E303", "C[i] = abs(p[i])", "abs(p[i])", "cast"),
    ("E304", "C[i] = v[i] & 3", "v[i] & 3", "cast"),
    ("E304", "s ^= v[i]", "s ^= v[i]", "cast"),
    ("E304", "C[i] = ~v[i]", "~v[i]", "cast"),
    ("E304", "T[i] = n[i]; for t in 0:1 { T[i] += 0.5*v[i] + (T[i] >> 3) }", "T[i] >> 3", "cast"),  # T is a float by then
    ("E304", "T[i] = n[i]; T[i] += 0.5*v[i]; T[i] += T[i] >> 3", "T[i] >> 3", "cast"),
    ("E304", "C[i] = v[i]; C[i] |= n[i]", "C[i] |= n[i]", "cast"),
    ("E305", "C[i] = n[i] ? 1 : 0", "n[i] ? 1 : 0", "!= 0"),
    ("E305", "C[i] = n[i] && p[i]", "n[i] && p[i]", "!= 0"),
    ("E305", "C[i] = !n[i]", "!n[i]", "== 0"),
    ("E306", "C[i] = n[i] + 3000000000", "n[i] + 3000000000", "i64"),
    ("E306", "C[i] = v[i+99999999999999999999999]", "i+99999999999999999999999", "i64 holds"),
    ("E306", "C[i] = v[i] + " + "9" * 5000, "9" * 5000, "1.8e308"),
    ("E306", "C[i] = v[i] + " + "9" * 400, "9" * 400, "1.8e308"),
    ("E306", "C[i] = v[i] * (1 << 1023)", "1 << 1023", "1.8e308"),
    ("E306", "C[i] = v[i] * (1 << 1000000000000)", "1 << 1000000000000", "64 bits"),
    ("E306", "C[i] = v[i] * pow(10, 1000000000000)", "pow(10, 1000000000000)", "1.8e308"),
    ("E306", "C[99999999999999999999999] += v[i]", "99999999999999999999999", "i64"),
    ("E306", "s += (v[i] else 0) where i in 0:" + "9" * 30, "9" * 30, "i64"),
    ("E306", "s += (v[i] else 0) where i in 0:9000000000000000000",
     "s += (v[i] else 0) where i in 0:9000000000000000000", "2**62"),
    ("E306", "C[i] = v[i] where i in 0:4:99999999999999999999999", "i in 0:4:99999999999999999999999", "i64"),
    ("E306", "C[i] = (v[i*13835058055282163712] else 0) where i in 0:4", "i*13835058055282163712", ""),
    ("E306", "C[i] = (v[i*4611686018427387904*3] else 0) where i in 0:4", "v[i*4611686018427387904*3] else 0", "2**62"),
    ("E307", "def f(f33[N] v) -> (C) { C[i] = v[i] }", "v", "did you mean"),
    ("E307", "C[i] = v[i]", "v[i]", "", dict(dtypes={"v": "f31"})),
    ("E308", "C[i] = v[w[i]]", "w[i]", "i64(...)"),
    ("E309", "C[i] = v[i] * (i % 0)", "i % 0", "another number"),
    ("E309", "C[i] = n[i] // s", "n[i] // s", "another number", dict(scalars={"s": 0})),
    ("E309", "C[i] = v[i % 0]", "i % 0", "another number"),
    ("E311", "C[i] = k14 where k0 = v[i], " + ", ".join(f"k{n} = k{n - 1} * k{n - 1}" for n in range(1, 15)), None,
     "a statement of its own"),
    ("E312", "C[i] = 1j*v[i] < 2", "1j*v[i] < 2", "compare `abs(z)`"),
    ("E312", "C[i] = f32(1j*v[i])", "f32(1j*v[i])", "f32(real(z))"),
    ("E312", "C[i] = log(v[i] + 2j)", "log(v[i] + 2j)", "angle(z)"),
    ("E312", "s max= v[i] + 2j", "s max= v[i] + 2j", "compare `abs(z)`"),
    ("E302", "def f(f32[N] v) -> (f32[N] C) { C[i] = 1j*v[i] }", "C[i] = 1j*v[i]", "take a part of it: `real(...)`"),
]


def failure(text, **more):
    arguments = dict(shapes=S, dtypes=T) | more
    with pytest.raises(CompileError) as error:
        lang.build(text, arguments.pop("shapes"), arguments.pop("dtypes"), **arguments)
    return error.value


@pytest.mark.part(2)
@pytest.mark.parametrize("row", ROWS, ids=[f"{r[0]} {r[1][:40]}" for r in ROWS])
def test_diagnostic(row):
    code, text, carets, note = row[:4]
    error = failure(text, **(row[4] if len(row) > 4 else {}))
    found = next((d for d in error.diagnostics if d.code == code), None)
    assert found is not None, str(error)
    if carets is not None:
        assert found.span is not None
        assert text[found.span.start:found.span.end].ljust(1) == carets, str(error)
        assert "^" * max(1, min(len(carets), 3)) in str(error)
    assert note in found.render(None), str(error)


def test_every_code_has_a_row():
    import polytc.lang.building  # noqa: F401  registers all codes of the language
    language = {c for c in errors.TITLES if c < "E4"}
    assert language <= {row[0] for row in ROWS}


def test_every_code_of_the_language_is_documented():
    text = (Path(__file__).parents[2] / "docs" / "errors.md").read_text()
    documented = set(re.findall(r"^\| (E\d+)", text, re.M))
    assert {c for c in errors.TITLES if c < "E4"} <= documented


def test_all_errors_of_a_program_are_shown_in_order():
    error = failure("C[i] = expp(v[i]) + A[i]\nD[i] = Q[v]\nE[i] = v[i] + C[i]\nF[i] = n[i] ? 1 : 0", shapes=S | {"Q": (3,)})
    assert [d.code for d in error.diagnostics] == ["E102", "E105", "E105", "E305"]
    error = failure("C[i] = v[i] where i in 0:9\nD[i,j] = v[i]\nG[i+j] = A[i,j]\nH[2*i] = v[i]\nK[i] = D[i,0]")
    assert [d.code for d in error.diagnostics] == ["E203", "E201", "E210"]


def test_a_lost_statement_hides_nothing_else():
    """What depends on a refused statement is left alone; what does not is still checked."""
    error = failure("T[i] = A[i]; U[i] = T[i] + 1; W[i] = v[i] & 1")
    assert [d.code for d in error.diagnostics] == ["E105", "E304"]


def test_the_whole_text_of_a_diagnostic():
    assert str(failure("T[b,o] += A[b,i] * B[i,o]\nY[b,o] = T[b,o-1] where o in 0:3")) == """\
E203: dimension 1 of `T` is read out of bounds
 2 | Y[b,o] = T[b,o-1] where o in 0:3
   |          ^^^^^^^^
  note: o=0 reads T[_, -1], extent 3
  note: narrow the range with `where`, or guard the read: `(T[b,o-1] else 0)`"""

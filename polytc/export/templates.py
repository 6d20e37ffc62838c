"""Filling in templates, and what the C programs of all folders share."""

from __future__ import annotations

from polytc.codegen import weight_file
from polytc.export.bundle import Bundle
from polytc.graph.library.headers import c_type

HEADER_END = '''\
/* Frees everything; NULL is allowed. */
void @NAME@_release(@NAME@ *self);

#ifdef __cplusplus
}
#endif
#endif
'''

COMMON = '''\
 * FILE: raw data, one for each argument in order; those of inputs are read, those of outputs are written, of what is both the
 * file is read and written over; - is no file. Inputs without a file are zeros. Prints the first elements of each output. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "@NAME@.h"

enum { COUNT = @COUNT@, SIZES = @SIZES@, DEVICES = 16 };
enum format { BYTES, FLOAT, DOUBLE, INT, LONG };

struct argument {
    const char *name;
    int read, written;
    enum format format;
};

@ROWS@

static int fail(const char *what, const char *why)
{
    fprintf(stderr, "%s: %s\\n", what, why);
    return 1;
}

/* Says what is wrong with the command line; 0 if nothing is. */
static int misused(int argc, char **argv)
{
    int k;
    if (argc < 2 + SIZES || argc > 2 + SIZES + COUNT) return fail("usage", "main FOLDER@USAGE@ [FILE ...]");
    for (k = 2; k < 2 + SIZES; k++)
        if (atoi(argv[k]) < 1) return fail(argv[k], "is no size: sizes are at least 1");
    return 0;
}

static void print(const struct argument *a, const void *data, size_t bytes)
{
    const size_t sizes[] = {1, 4, 8, 4, 8};
    size_t k, count = bytes / sizes[a->format];
    printf("%s", a->name);
    for (k = 0; k < count && k < 8; k++) {
        if (a->format == FLOAT) printf(" %.9g", ((const float *)data)[k]);
        else if (a->format == DOUBLE) printf(" %.17g", ((const double *)data)[k]);
        else if (a->format == INT) printf(" %ld", (long)((const int32_t *)data)[k]);
        else if (a->format == LONG) printf(" %lld", (long long)((const int64_t *)data)[k]);
        else printf(" %u", ((const unsigned char *)data)[k]);
    }
    printf("\\n");
}

static int transfer(const char *path, const char *mode, void *data, size_t bytes)
{
    FILE *file = fopen(path, mode);
    size_t got = !file ? 0 : mode[0] == 'r' ? fread(data, 1, bytes, file) : fwrite(data, 1, bytes, file);
    if (file && mode[0] == 'r' && fgetc(file) != EOF) got = 0;
    if (file && fclose(file)) got = 0;
    return file && got == bytes;
}

/* The file of an argument, NULL if there is none. */
static const char *file_of(int argc, char **argv, int number)
{
    const char *path = argc > number + 2 + SIZES ? argv[number + 2 + SIZES] : "-";
    return strcmp(path, "-") ? path : NULL;
}

/* What an argument is before the run, for the caller to free; NULL if that cannot be had. */
static char *loaded(const struct argument *a, const char *path, size_t bytes)
{
    char *data = calloc(1, bytes + 1);
    if (!data) {
        fail(a->name, "no memory");
    } else if (a->read && path && !transfer(path, "rb", data, bytes)) {
        fprintf(stderr, "%s: cannot be read, or has not the %lu bytes of %s\\n", path, (unsigned long)bytes, a->name);
        free(data);
        data = NULL;
    }
    return data;
}

/* Prints an argument after the run, and writes it to its file; 1 if that fails. */
static int stored(const struct argument *a, const char *path, char *data, size_t bytes)
{
    print(a, data, bytes);
    return path && !transfer(path, "wb", data, bytes) ? fail(path, "cannot be written") : 0;
}
'''
"""The rest of the comment that a main program begins with, and its functions."""

_CMAKE = '''\
cmake_minimum_required(VERSION 3.10)
project(@NAME@ C)
set(CMAKE_C_STANDARD 99)
@FIND@
add_library(@NAME@ @NAME@.c)
target_include_directories(@NAME@ PUBLIC ${CMAKE_CURRENT_SOURCE_DIR})
@LINK@
add_executable(@NAME@_main main.c)
target_link_libraries(@NAME@_main @NAME@)
'''

FLOORDIV = '''\
/* a / b, rounded down; b is positive. */
static int64_t floordiv(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

'''

PRODUCT = '''\
/* a * b of sizes; a large number where the product is larger. */
static int64_t product(int64_t a, int64_t b)
{
    return a > 0 && b > (INT64_C(1) << 56) / a ? INT64_C(1) << 56 : a * b;
}

'''

ROOM = '''\
/* Bytes of a buffer, of which there is at least one. */
static int64_t room(int64_t bytes)
{
    return bytes > 0 ? bytes : 1;
}

'''

SATURATED = '''\
/* a * b of numbers that are not negative; the largest number where the product is larger. */
static int64_t saturated(int64_t a, int64_t b)
{
    return a > 0 && b > INT64_MAX / a ? INT64_MAX : a * b;
}

'''

_WEIGHT_CHECK = '''\
static const uint64_t weight_header[@WORDS@] = {
    @HEADER@
};

/* Is this file, a header and the arrays behind it, that of these weights? */
static int are_weights(const char *block, size_t bytes)
{
    uint64_t word, total = 0, sums = 0;
    size_t k;
    if (bytes != @BYTES@u || memcmp(block, weight_header, sizeof weight_header)) return 0;
    for (k = sizeof weight_header; k < bytes; k += sizeof word) {
        memcpy(&word, block + k, sizeof word);
        total += word;
        sums += total;
    }
    return total == weight_header[@SUM@] && sums == weight_header[@SUMS@];
}

'''

_FORMATS = {"float": "FLOAT", "double": "DOUBLE", "int32_t": "INT", "int64_t": "LONG"}


def quotients(text: str) -> str:
    """The functions for quotients and products of sizes, and for room of buffers, that a text calls."""
    known = (("floordiv(", FLOORDIV), ("product(", PRODUCT), ("room(", ROOM))
    return "".join(function for call, function in known if call in text)


def rendered(text: str, **values: object) -> str:
    """A template with @NAME@ in place of `{name}`, since C has braces of its own."""
    for key, value in values.items():
        text = text.replace(f"@{key}@", str(value))
    return text


def common(b: Bundle) -> str:
    """What main programs begin with: their arguments, and how to read, write and print them."""
    rows = [f'{{"{a.name}", {int(a.role != "output")}, {int(a.role != "input")}, '
            f"{_FORMATS.get(c_type(a.type.dtype), 'BYTES')}}}" for a in b.arguments]
    return rendered(COMMON, NAME=b.name, ROWS=table("struct argument", "about", rows, '{"", 0, 0, BYTES}'),
                    COUNT=len(b.arguments), SIZES=len(b.sizes))


def cmake(name: str, find: str, link: str, **values: object) -> str:
    """CMakeLists.txt of a library and its main program. find: what finds the packages that it needs; link: what links it to
    them; values: for the templates that both are."""
    return rendered(rendered(_CMAKE, FIND=find, LINK=link), NAME=name, **values)


def weight_check(b: Bundle) -> str:
    """The function that tells the weights of a bundle from others; '' without weights."""
    if not b.weights:
        return ""
    head = weight_file.header(b.weights)
    return rendered(_WEIGHT_CHECK, WORDS=weight_file.WORDS, HEADER=",\n    ".join(f"UINT64_C({word})" for word in head),
                    BYTES=weight_file.BYTES + head[weight_file.BYTES_WORD], SUM=weight_file.SUM_WORD,
                    SUMS=weight_file.SUMS_WORD)


def table(ctype: str, name: str, rows: list[str], empty: str = "0") -> str:
    """A constant table, with the row `empty` where it would be empty, which C does not allow."""
    body = ",\n    ".join(_filled(rows or [empty]))
    return f"static const {ctype} {name}[] = {{\n    {body}\n}};"


def _filled(rows: list[str]) -> list[str]:
    """Short rows several to a line."""
    lines = [""]
    for row in rows:
        if lines[-1] and len(lines[-1]) + len(row) > 100:
            lines.append("")
        lines[-1] += f", {row}" if lines[-1] else row
    return lines

"""A C program that runs a model which was compiled ahead of time: numpy's files in, numpy's files out."""

from __future__ import annotations


def text(name: str) -> str:
    """The program. name: prefix of the model's functions."""
    return _PROGRAM.replace("@", name)


_PROGRAM = r"""/* @ [-o FOLDER] [-s SIZE,...] [WEIGHTS [THREADS [INPUT ...]]]: runs the model once. Sizes: of those that are
 * open, in the order of @_sizes; the largest if not said. Inputs are .npy files, or raw ones; those without a
 * file are zeros. The first elements of each output are printed; all of them go to FOLDER/NUMBER.npy.
 * cc -O2 main.c @.o -lm -lpthread -o @ */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "@.h"

static const struct { const char *type, *npy; size_t bytes; } TYPES[] = {
    {"f32", "<f4", 4}, {"f64", "<f8", 8}, {"f16", "<f2", 2}, {"bf16", "<u2", 2}, {"bool", "|b1", 1}, {"c64", "<c8", 8},
    {"c128", "<c16", 16}, {"i8", "|i1", 1}, {"i16", "<i2", 2}, {"i32", "<i4", 4}, {"i64", "<i8", 8}, {"u8", "|u1", 1},
    {"u16", "<u2", 2}, {"u32", "<u4", 4}, {"u64", "<u8", 8}};

static int kind(const char *type) {
    for (int k = 0; k < (int)(sizeof TYPES / sizeof *TYPES); k++)
        if (!strcmp(TYPES[k].type, type)) return k;
    fprintf(stderr, "numpy has no type %s\n", type);
    exit(1);
}

/* The header of a .npy file, as numpy writes it. */
static void describe(const @_array *a, char *to, size_t room) {
    size_t n = (size_t)snprintf(to, room, "{'descr': '%s', 'fortran_order': False, 'shape': (", TYPES[kind(a->type)].npy);
    for (size_t d = 0; d < a->rank && n < room; d++)
        n += (size_t)snprintf(to + n, room - n, d + 1 < a->rank ? "%lld, " : a->rank == 1 ? "%lld," : "%lld",
                              (long long)a->shape[d]);
    if (n < room) snprintf(to + n, room - n, "), }");
}

static int fill(const char *path, const @_array *a, void *to) {
    unsigned char lead[12];
    char wanted[1024], header[1024] = "";
    FILE *file = fopen(path, "rb");
    if (!file) { fprintf(stderr, "%s cannot be read\n", path); return 0; }
    if (fread(lead, 1, 10, file) == 10 && !memcmp(lead, "\x93NUMPY", 6)) {
        size_t length = lead[8] | (size_t)lead[9] << 8;
        if (lead[6] > 1 && fread(lead + 10, 1, 2, file) == 2) length |= (size_t)lead[10] << 16 | (size_t)lead[11] << 24;
        describe(a, wanted, sizeof wanted);
        if (length >= sizeof header || fread(header, 1, length, file) != length || strncmp(header, wanted, strlen(wanted))) {
            fprintf(stderr, "%s is for %s: it must be %s, and is %.200s\n", path, a->name, wanted, header);
            fclose(file);
            return 0;
        }
    } else {
        rewind(file);
    }
    size_t got = fread(to, 1, a->bytes, file);
    int whole = got == a->bytes && fgetc(file) == EOF;
    fclose(file);
    if (!whole) fprintf(stderr, "%s: %zu bytes are needed\n", path, a->bytes);
    return whole;
}

static int save(const char *folder, size_t number, const @_array *a, const void *from) {
    char path[4096], header[1024];
    describe(a, header, sizeof header);
    snprintf(path, sizeof path, "%s/%zu.npy", folder, number);
    size_t length = strlen(header), whole = (10 + length + 1 + 63) / 64 * 64 - 10;
    unsigned char lead[10] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, (unsigned char)(whole & 255), (unsigned char)(whole >> 8)};
    FILE *file = fopen(path, "wb");
    int good = file && fwrite(lead, 1, 10, file) == 10 && fprintf(file, "%s%*s\n", header, (int)(whole - 1 - length), "") > 0
        && fwrite(from, 1, a->bytes, file) == a->bytes;
    if (file && fclose(file)) good = 0;
    if (!good) fprintf(stderr, "%s cannot be written\n", path);
    return good;
}

static void show(const @_array *a, const void *from) {
    const char *type = a->type;
    size_t bytes = TYPES[kind(type)].bytes, count = a->bytes / bytes;
    int complex = *type == 'c', reals = complex ? 2 : 1;
    for (const char *c = a->name; *c; c++) putchar((unsigned char)*c > ' ' ? *c : '?');
    for (size_t k = 0; k < (count < 8 ? count : 8) * (size_t)reals; k++) {
        const char *at = (const char *)from + k * bytes / (size_t)reals;
        size_t part = bytes / (size_t)reals;
        if ((*type == 'f' || complex) && part == 4) { float v; memcpy(&v, at, 4); printf(" %.9g", (double)v); continue; }
        if ((*type == 'f' || complex) && part == 8) { double v; memcpy(&v, at, 8); printf(" %.17g", v); continue; }
        uint64_t bits = 0;
        for (size_t b = 0; b < part; b++) bits |= (uint64_t)((const unsigned char *)at)[b] << 8 * b;
        if (*type == 'i' && part < 8 && bits >> (8 * part - 1)) bits |= ~(uint64_t)0 << 8 * part;
        if (*type == 'i') printf(" %lld", (long long)bits);
        else printf(" %llu", (unsigned long long)bits);
    }
    printf("\n");
}

static void **arrays(const @_array *of, size_t count) {
    void **made = calloc(count ? count : 1, sizeof *made);
    for (size_t k = 0; made && k < count; k++)
        if (!(made[k] = calloc(of[k].bytes ? of[k].bytes : 1, 1))) return NULL;
    return made;
}

/* The sizes of a text like 4,128. */
static int resize(@_model *model, const char *text) {
    size_t count;
    const @_size *open = @_sizes(&count);
    int64_t *sizes = calloc(count ? count : 1, sizeof *sizes);
    for (size_t k = 0; sizes && k < count; k++) {
        char *end;
        sizes[k] = strtoll(text, &end, 10);
        if (end == text || (*end != ',' && *end)) {
            fprintf(stderr, "-s wants %zu numbers; the next one is %s, from %lld to %lld\n", count, open[k].name,
                    (long long)open[k].least, (long long)open[k].largest);
            exit(1);
        }
        text = *end ? end + 1 : end;
    }
    if (!sizes) { fprintf(stderr, "there is no memory\n"); exit(1); }
    int status = @_resize(model, sizes);
    free(sizes);
    return status;
}

int main(int argc, char **argv) {
    const char *folder = NULL, *sizes = NULL;
    for (; argc > 2 && (!strcmp(argv[1], "-o") || !strcmp(argv[1], "-s")); argv += 2, argc -= 2)
        *(argv[1][1] == 'o' ? &folder : &sizes) = argv[2];
    size_t reads, writes;
    @_inputs(&reads);
    @_outputs(&writes);
    @_model *model;
    int status = @_open(&model, argc > 1 ? argv[1] : "@.weights", argc > 2 ? atoi(argv[2]) : 1, NULL);
    if (!status && sizes) status = resize(model, sizes);
    if (status) { fprintf(stderr, "%s\n", @_meaning(status)); return 1; }
    const @_array *inputs = @_model_inputs(model), *outputs = @_model_outputs(model);
    void **in = arrays(inputs, reads), **out = arrays(outputs, writes);
    if (!in || !out) { fprintf(stderr, "there is no memory\n"); return 1; }
    for (size_t k = 0; k < reads && (int)k + 3 < argc; k++)
        if (!fill(argv[k + 3], &inputs[k], in[k])) return 1;
    status = @_run_arrays(model, (const void *const *)in, out);
    if (status) { fprintf(stderr, "%s\n", @_meaning(status)); return 1; }
    for (size_t k = 0; k < writes; k++) {
        show(&outputs[k], out[k]);
        if (folder && !save(folder, k, &outputs[k], out[k])) return 1;
    }
    @_close(model);
    return 0;
}
"""

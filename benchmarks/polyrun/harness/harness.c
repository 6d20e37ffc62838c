/* A PolyBench program as a contestant (polyrun/contestant.py has the protocol): arrays, their initial values, the clock.

   stdin        stdout
                ready
   run COUNT    COUNT times in seconds, each on the initial values
   dump FOLDER  done; every array of the last run lies in FOLDER, as NAME.TYPE, raw
*/

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MOST 32

static struct {
    const char *name, *type;
    size_t bytes;
    void *data, *initial;
} arrays[MOST];
static int count, runs;
static struct timespec start;

void *harness_array(const char *name, const char *type, size_t bytes) {
    void *data = NULL;
    if (count == MOST || posix_memalign(&data, 4096, bytes)) abort();
    arrays[count].name = name, arrays[count].type = type, arrays[count].bytes = bytes, arrays[count].data = data;
    count++;
    return data;
}

void harness_free(void *data) {
    for (int k = 0; k < count; k++)
        if (arrays[k].data == data) {
            memmove(&arrays[k], &arrays[k + 1], (size_t)(--count - k) * sizeof arrays[0]);
            break;
        }
    free(data);
}

static void keep(void) {
    for (int k = 0; k < count; k++) {
        if (posix_memalign(&arrays[k].initial, 4096, arrays[k].bytes)) abort();
        memcpy(arrays[k].initial, arrays[k].data, arrays[k].bytes);
    }
    puts("ready");
}

static void dump(const char *folder) {
    for (int k = 0; k < count; k++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s.%s", folder, arrays[k].name, arrays[k].type);
        FILE *file = fopen(path, "wb");
        if (!file || fwrite(arrays[k].data, 1, arrays[k].bytes, file) != arrays[k].bytes || fclose(file)) abort();
    }
    puts("done");
}

int harness_turn(void) {
    static char line[4096];
    static int kept;
    if (!kept) keep(), kept = 1;
    while (!runs) {
        fflush(stdout);
        if (!fgets(line, sizeof line, stdin)) return 0;
        line[strcspn(line, "\n")] = 0;
        if (!strncmp(line, "dump ", 5)) dump(line + 5);
        else if (sscanf(line, "run %d", &runs) != 1) abort();
    }
    runs--;
    for (int k = 0; k < count; k++) memcpy(arrays[k].data, arrays[k].initial, arrays[k].bytes);
    return 1;
}

void harness_start(void) { clock_gettime(CLOCK_MONOTONIC, &start); }

void harness_stop(void) {
    struct timespec end;
    clock_gettime(CLOCK_MONOTONIC, &end);
    printf("%.9f\n", (double)(end.tv_sec - start.tv_sec) + 1e-9 * (double)(end.tv_nsec - start.tv_nsec));
}

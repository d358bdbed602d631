/* run_corpus.c - a fuzz target as an ordinary test.
 *
 * Runs LLVMFuzzerTestOneInput() over every file of a corpus folder, so that what a fuzzer once
 * found is checked in every build, by every compiler, without a fuzzer. Each file is also tried at
 * every shorter length (up to a bound): a file cut short is the commonest damage there is, and the
 * cut lands on every field in turn. Inputs live in a buffer of exactly their size, so that the
 * address sanitizer sees a read past the end. */
#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

/* Beyond this many lengths a file is tried at evenly spread ones. */
#define MOST_LENGTHS 4096

static void run_one(const uint8_t *data, size_t size_bytes)
{
    uint8_t *exact = malloc(size_bytes != 0 ? size_bytes : 1);
    if (exact == NULL) {
        fprintf(stderr, "no memory for an input of %zu bytes\n", size_bytes);
        exit(1);
    }
    if (size_bytes != 0)
        memcpy(exact, data, size_bytes);
    LLVMFuzzerTestOneInput(exact, size_bytes);
    free(exact);
}

static void run_every_length(const uint8_t *data, size_t size_bytes)
{
    size_t step = size_bytes / MOST_LENGTHS + 1;
    for (size_t length = 0; length < size_bytes; length += step)
        run_one(data, length);
    run_one(data, size_bytes);
}

/* The whole file in memory from malloc(), or NULL with a message. */
static uint8_t *read_file(const char *path, size_t *size_bytes)
{
    struct stat facts;
    uint8_t *data = NULL;
    FILE *file = fopen(path, "rb");
    if (file == NULL || fstat(fileno(file), &facts) != 0) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        goto done;
    }
    *size_bytes = (size_t)facts.st_size;
    data = malloc(*size_bytes + 1);
    if (data == NULL || fread(data, 1, *size_bytes, file) != *size_bytes) {
        fprintf(stderr, "%s: cannot be read\n", path);
        free(data);
        data = NULL;
    }
done:
    if (file != NULL)
        fclose(file);
    return data;
}

int main(int argc, char **argv)
{
    size_t file_count = 0;
    if (argc != 2) {
        fprintf(stderr, "usage: %s CORPUS_FOLDER\n", argv[0]);
        return 2;
    }
    DIR *folder = opendir(argv[1]);
    if (folder == NULL) {
        fprintf(stderr, "%s: %s\n", argv[1], strerror(errno));
        return 1;
    }
    for (struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
        char path[4096];
        size_t size_bytes = 0;
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s", argv[1], entry->d_name);
        uint8_t *data = read_file(path, &size_bytes);
        if (data == NULL) {
            closedir(folder);
            return 1;
        }
        run_every_length(data, size_bytes);
        free(data);
        file_count++;
    }
    closedir(folder);
    printf("%zu files\n", file_count);
    if (file_count == 0) {
        fprintf(stderr, "%s: empty, so nothing was tested\n", argv[1]);
        return 1;
    }
    return 0;
}

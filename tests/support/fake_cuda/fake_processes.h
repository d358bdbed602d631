/* fake_processes.h - the GPUs and processes that the fake management libraries tell of.
 *
 * They show every GPU of the machine, whatever CUDA_VISIBLE_DEVICES says. GPU 0 is used by three
 * processes unless the test says otherwise: the one that asks, one that hides its memory, and one
 * more. The others are used by nobody. Nobody draws. */
#ifndef VW_TESTS_FAKE_PROCESSES_H
#define VW_TESTS_FAKE_PROCESSES_H

#include <stddef.h>
#include <stdint.h>

typedef struct fake_process {
    uint32_t pid;
    uint64_t used_bytes;
} fake_process;

unsigned fake_number_or(const char *variable, unsigned otherwise);
unsigned fake_process_count(int device);
fake_process fake_process_at(int device, unsigned index);

const char *fake_gpu_name(void);
void fake_gpu_uuid(char *uuid, size_t uuid_bytes, int device);
unsigned fake_gpu_percent(int device);
uint64_t fake_gpu_total_bytes(void);
uint64_t fake_gpu_used_bytes(int device);

#endif /* VW_TESTS_FAKE_PROCESSES_H */

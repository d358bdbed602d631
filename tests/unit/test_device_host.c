/* test_device_host.c - what only the host device has: bytes at addresses one can touch. */
#include "device/device_common.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "contract/device_contract.h" /* assert_ok and its like */

#define MIB (UINT64_C(1) << 20)
#define UNTOUCHED UINT64_C(0x5a5a5a5a5a5a5a5a)

static vw_device *make(uint64_t capacity_bytes)
{
    vw_device *device = NULL;
    assert_ok(vw_host_device_create(capacity_bytes, &device));
    return device;
}

static volatile uint8_t *bytes_at(vw_device_ptr address)
{
    return (volatile uint8_t *)(uintptr_t)address;
}

static vw_device_ptr reserve(const vw_device *device, uint64_t granules)
{
    vw_device_ptr address = VW_NULL;
    assert_ok(device->table->reserve(device->context,
                                     granules * device->properties.granularity_bytes, &address));
    return address;
}

static vw_handle create(const vw_device *device, uint64_t granules)
{
    vw_handle handle = 0;
    assert_ok(device->table->create(device->context,
                                    granules * device->properties.granularity_bytes, &handle));
    return handle;
}

static void map(const vw_device *device, vw_device_ptr address, uint64_t granules, vw_handle handle)
{
    uint64_t size_bytes = granules * device->properties.granularity_bytes;
    assert_ok(device->table->map(device->context, address, size_bytes, handle));
    assert_ok(device->table->set_access(device->context, address, size_bytes));
}

/* ---- touching -------------------------------------------------------------------------------- */

/* What becomes of a process that touches the byte: forks one and looks. Sanitizers put their own
 * handler on the fault, which would end the child with an exit status instead: the child takes it
 * off again, so that a fault is a signal everywhere. */
static bool does_touching_fault(vw_device_ptr address)
{
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        signal(SIGBUS, SIG_DFL);
        *bytes_at(address) = 1;
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFSIGNALED(status)) {
        assert_int_equal(WTERMSIG(status), SIGSEGV);
        return true;
    }
    assert_int_equal(WEXITSTATUS(status), 0);
    return false;
}

static void a_page_can_be_touched_only_while_it_is_mapped_with_access(void **state)
{
    (void)state;
    vw_device *device = make(16 * MIB);
    uint64_t g = device->properties.granularity_bytes;
    vw_device_ptr address = reserve(device, 2);
    vw_handle handle = create(device, 1);
    assert_true(does_touching_fault(address)); /* reserved */
    assert_ok(device->table->map(device->context, address, g, handle));
    assert_true(does_touching_fault(address)); /* mapped, no access yet */
    assert_ok(device->table->set_access(device->context, address, g));
    assert_false(does_touching_fault(address));
    assert_false(does_touching_fault(address + g - 1));
    assert_true(does_touching_fault(address + g)); /* its neighbour */
    assert_ok(device->table->unmap(device->context, address, g));
    assert_true(does_touching_fault(address)); /* unmapped */
    map(device, address, 1, handle);
    assert_false(does_touching_fault(address));
    assert_ok(device->table->unmap(device->context, address, g));
    assert_ok(device->table->release(device->context, handle));
    vw_device_destroy(device);
}

static void plain_memory_can_be_touched_to_its_last_byte(void **state)
{
    (void)state;
    vw_device *device = make(16 * MIB);
    vw_device_ptr address;
    assert_ok(device->table->take(device->context, MIB + 1, &address));
    assert_false(does_touching_fault(address));
    assert_false(does_touching_fault(address + MIB));
    assert_ok(device->table->give_back(device->context, address));
    vw_device_destroy(device);
}

static void two_mappings_of_a_handle_are_one_memory_to_the_cpu_as_well(void **state)
{
    (void)state;
    vw_device *device = make(16 * MIB);
    uint64_t g = device->properties.granularity_bytes;
    vw_device_ptr address = reserve(device, 4);
    vw_handle handle = create(device, 2);
    map(device, address, 2, handle);
    map(device, address + 2 * g, 2, handle);
    bytes_at(address)[g + 5] = 0x42;
    assert_int_equal(bytes_at(address)[3 * g + 5], 0x42);
    bytes_at(address)[2 * g] = 0x43;
    assert_int_equal(bytes_at(address)[0], 0x43);
    vw_device_destroy(device); /* with all of it still held */
}

static void reservations_start_on_a_granule_whatever_the_system_gives(void **state)
{
    (void)state;
    vw_device *device = make(MIB);
    assert_true(device->properties.granularity_bytes >= VW__DEVICE_HOST_GRANULARITY_BYTES);
    for (uint64_t i = 1; i < 20; i++) {
        vw_device_ptr plain; /* a page, to push the next one off the granule */
        assert_ok(device->table->take(device->context, 1, &plain));
        assert_int_equal(reserve(device, i) % device->properties.granularity_bytes, 0);
    }
    vw_device_destroy(device);
}

/* ---- memory really comes and goes ------------------------------------------------------------ */

/* The bytes behind the device's handles, as the system counts them. */
static uint64_t bytes_in_file(void)
{
    for (int file = 0; file < 256; file++) {
        char path[64], target[64];
        snprintf(path, sizeof path, "/proc/self/fd/%d", file);
        ssize_t length = readlink(path, target, sizeof target - 1);
        if (length < 0)
            continue;
        target[length] = '\0';
        struct stat found;
        if (strncmp(target, "/memfd:vramwise", 15) == 0 && fstat(file, &found) == 0)
            return (uint64_t)found.st_blocks * 512;
    }
    fail_msg("the device's file is not among the open ones");
    return 0;
}

/* The addresses this process has mapped, in bytes. */
static uint64_t mapped_bytes(void)
{
    unsigned long long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%llu", &pages), 1);
    fclose(file);
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Somebody else may map something at the same moment, so half the size is enough of a difference.
 */
static void plain_memory_and_reservations_return_their_addresses_to_the_system(void **state)
{
    (void)state;
    vw_device *device = make(256 * MIB);
    vw_device_ptr address;
    uint64_t before = mapped_bytes();
    assert_ok(device->table->take(device->context, 256 * MIB, &address));
    assert_true(mapped_bytes() > before + 128 * MIB);
    assert_ok(device->table->give_back(device->context, address));
    assert_true(mapped_bytes() < before + 128 * MIB);
    assert_ok(device->table->reserve(device->context, 256 * MIB, &address));
    assert_true(mapped_bytes() > before + 128 * MIB);
    assert_ok(device->table->unreserve(device->context, address, 256 * MIB));
    assert_true(mapped_bytes() < before + 128 * MIB);
    enum { COUNT = 4000 }; /* and so does what was cut off to reach a whole granule */
    static vw_device_ptr pages[COUNT], reservations[COUNT];
    for (int i = 0; i < COUNT; i++) {
        assert_ok(device->table->take(device->context, 1, &pages[i])); /* off the granule again */
        reservations[i] = reserve(device, 1);
    }
    for (int i = 0; i < COUNT; i++) {
        assert_ok(device->table->give_back(device->context, pages[i]));
        assert_ok(device->table->unreserve(device->context, reservations[i],
                                           device->properties.granularity_bytes));
    }
    assert_true(mapped_bytes() < before + 8 * MIB);
    assert_ok(device->table->reserve(device->context, 256 * MIB, &address));
    assert_ok(device->table->take(device->context, 256 * MIB, &address));
    vw_device_destroy(device); /* and what is still held goes with the device */
    assert_true(mapped_bytes() < before + 128 * MIB);
}

static void a_released_handle_gives_its_memory_to_the_system_and_a_new_one_is_zero(void **state)
{
    (void)state;
    vw_device *device = make(16 * MIB);
    uint64_t g = device->properties.granularity_bytes;
    vw_device_ptr address = reserve(device, 8);
    for (int round = 0; round < 3; round++) {
        vw_handle handle = create(device, 8);
        map(device, address, 8, handle);
        for (uint64_t i = 0; i < 8 * g; i++)
            if (bytes_at(address)[i] != 0)
                fail_msg("byte %llu of a new handle is not 0", (unsigned long long)i);
        memset((void *)(uintptr_t)address, 0xff, 8 * g);
        assert_true(bytes_in_file() >= 8 * g);
        assert_ok(device->table->release(device->context, handle));
        assert_true(bytes_in_file() >= 8 * g); /* still mapped */
        assert_ok(device->table->unmap(device->context, address, 8 * g));
        assert_int_equal(bytes_in_file(), 0);
    }
    vw_device_destroy(device);
}

static void thousands_of_handles_need_no_more_files_than_one(void **state)
{
    (void)state;
    enum { COUNT = 3000 };
    vw_device *device = make(1024 * MIB);
    uint64_t g = device->properties.granularity_bytes;
    vw_device_ptr address = reserve(device, COUNT);
    static vw_handle handles[COUNT];
    for (uint64_t i = 0; i < COUNT; i++)
        handles[i] = create(device, 1);
    for (uint64_t i = 0; i < COUNT; i++) { /* backwards, so that no two neighbours join */
        map(device, address + i * g, 1, handles[COUNT - 1 - i]);
        bytes_at(address)[i * g] = (uint8_t)(i * 31);
    }
    assert_ok(device->table->unmap(device->context, address, COUNT * g));
    for (uint64_t i = 0; i < COUNT; i++) /* and forwards: each has kept its byte */
        map(device, address + i * g, 1, handles[i]);
    for (uint64_t i = 0; i < COUNT; i++)
        assert_int_equal(bytes_at(address)[i * g], (uint8_t)((COUNT - 1 - i) * 31));
    assert_ok(device->table->unmap(device->context, address, COUNT * g));
    for (uint64_t i = 0; i < COUNT; i++)
        assert_ok(device->table->release(device->context, handles[i]));
    assert_int_equal(bytes_in_file(), 0);
    vw_device_destroy(device);
}

/* ---- sharing --------------------------------------------------------------------------------- */

static uint8_t *see_through(int file, uint64_t size_bytes)
{
    void *seen = mmap(NULL, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    assert_ptr_not_equal(seen, MAP_FAILED);
    return seen;
}

static void an_exported_handle_is_the_same_memory_to_whoever_maps_it(void **state)
{
    (void)state;
    vw_device *device = make(16 * MIB);
    const vw_device_table *table = device->table;
    uint64_t g = device->properties.granularity_bytes;
    vw_device_ptr address = reserve(device, 4);
    vw_handle first = 0, second = 0;
    int file = -1;
    assert_ok(table->create_shareable(device->context, 2 * g, &first));
    assert_ok(table->create_shareable(device->context, 2 * g, &second));
    map(device, address, 2, first);
    map(device, address + 2 * g, 2, second);
    assert_ok(table->export_handle(device->context, second, &file));
    struct stat found;
    assert_int_equal(fstat(file, &found), 0);
    assert_int_equal(found.st_size, 2 * g); /* this memory, and no other */
    uint8_t *seen = see_through(file, 2 * g);
    bytes_at(address)[2 * g + 5] = 0x42;
    assert_int_equal(seen[5], 0x42);
    seen[2 * g - 1] = 0x43;
    assert_int_equal(bytes_at(address)[4 * g - 1], 0x43);
    assert_int_equal(bytes_at(address)[2 * g - 1], 0);

    assert_ok(table->unmap(device->context, address + 2 * g, 2 * g));
    assert_ok(table->release(device->context, second)); /* whoever has it keeps it */
    assert_int_equal(seen[5], 0x42);
    vw_device_destroy(device); /* with the first still held and mapped */
    assert_int_equal(seen[2 * g - 1], 0x43);
    munmap(seen, 2 * g);
    close(file);
}

static int open_file_count(void)
{
    int count = 0;
    for (int file = 0; file < 256; file++)
        count += fcntl(file, F_GETFD) >= 0;
    return count;
}

static void a_shareable_handle_ends_with_its_last_mapping_or_the_device(void **state)
{
    (void)state;
    int before = open_file_count();
    vw_device *device = make(16 * MIB);
    int with_device = open_file_count();
    uint64_t g = device->properties.granularity_bytes;
    vw_device_ptr address = reserve(device, 2);
    vw_handle mapped = 0, held = 0;
    assert_ok(device->table->create_shareable(device->context, g, &mapped));
    map(device, address, 1, mapped);
    assert_ok(device->table->release(device->context, mapped));
    assert_int_equal(open_file_count(), with_device + 1);
    assert_ok(device->table->unmap(device->context, address, g));
    assert_int_equal(open_file_count(), with_device);
    assert_ok(device->table->create_shareable(device->context, g, &held));
    assert_ok(device->table->create_shareable(device->context, g, &mapped));
    map(device, address, 1, mapped);
    assert_ok(device->table->release(device->context, mapped));
    vw_device_destroy(device);
    assert_int_equal(open_file_count(), before);
}

/* ---- refusals -------------------------------------------------------------------------------- */

static void bytes_that_are_not_there_are_refused_rather_than_touched(void **state)
{
    (void)state;
    vw_device *device = make(16 * MIB);
    const vw_device_table *table = device->table;
    void *context = device->context;
    uint64_t g = device->properties.granularity_bytes;
    uint8_t byte = 7;
    vw_device_ptr plain;
    vw_device_ptr address = reserve(device, 3);
    vw_handle handle = create(device, 1);
    assert_ok(table->take(context, 1000, &plain));
    assert_status(VW_ERR_INVALID_ARGUMENT, table->read(context, &byte, address, 1));
    assert_last_error_has("nothing is mapped");
    assert_ok(table->map(context, address, g, handle));
    assert_status(VW_ERR_INVALID_ARGUMENT, table->read(context, &byte, address, 1));
    assert_last_error_has("no access");
    assert_ok(table->set_access(context, address, g));
    assert_ok(table->fill(context, address, 9, g, 0));
    assert_status(VW_ERR_INVALID_ARGUMENT, table->fill(context, address, 9, g + 1, 0));
    assert_status(VW_ERR_INVALID_ARGUMENT, table->fill(context, address + 2 * g, 9, g + 1, 0));
    assert_status(VW_ERR_INVALID_ARGUMENT, table->write(context, plain, &byte, 0));
    assert_status(VW_ERR_INVALID_ARGUMENT, table->write(context, plain + 1000, &byte, 1));
    assert_status(VW_ERR_INVALID_ARGUMENT, table->fill(context, plain, 9, 1001, 0));
    assert_last_error_has("the memory ends at");
    assert_status(VW_ERR_INVALID_ARGUMENT, table->fill(context, plain, 9, UINT64_MAX, 0));
    assert_status(VW_ERR_INVALID_ARGUMENT, table->copy(context, plain, address + g, 1, 0));
    assert_status(VW_ERR_INVALID_ARGUMENT, table->copy(context, address + g, plain, 1, 0));
    assert_status(VW_ERR_INVALID_ARGUMENT, table->read(context, &byte, VW_NULL, 1));
    assert_int_equal(byte, 7);
    assert_ok(table->copy(context, plain, address, 1000, 0));
    assert_ok(table->read(context, &byte, plain + 999, 1));
    assert_int_equal(byte, 9);
    vw_device_destroy(device);
}

static void what_the_system_refuses_is_told_with_its_own_words(void **state)
{
    (void)state;
    vw_device *device = make(UINT64_MAX);
    uint64_t size_bytes = UINT64_C(1) << 60; /* more addresses than a process can have */
    vw_device_ptr out = UNTOUCHED;
    vw_handle handle = UNTOUCHED;
    assert_status(VW_ERR_DEVICE, device->table->take(device->context, size_bytes, &out));
    assert_last_error_has("mmap: Cannot allocate memory (errno 12)");
    assert_status(VW_ERR_DEVICE, device->table->reserve(device->context, size_bytes, &out));
    assert_status(VW_ERR_DEVICE, device->table->take(device->context, UINT64_MAX, &out));
    assert_status(VW_ERR_DEVICE,
                  device->table->create(device->context, UINT64_C(1) << 63, &handle));
    assert_status(VW_ERR_DEVICE,
                  device->table->create_shareable(device->context, UINT64_C(1) << 63, &handle));
    assert_true(out == UNTOUCHED && handle == UNTOUCHED);
    vw_device_calls calls;
    assert_ok(vw_device_get_calls(device, &calls));
    assert_int_equal(calls.in_use_bytes, 0);
    assert_int_equal(calls.elapsed_ns, 0); /* only the simulated device knows costs */
    vw_device_destroy(device);
}

static void a_device_without_capacity_is_refused_and_the_result_untouched(void **state)
{
    (void)state;
    vw_device *const untouched = (vw_device *)&state;
    vw_device *device = untouched;
    assert_status(VW_ERR_INVALID_ARGUMENT, vw_host_device_create(0, &device));
    assert_status(VW_ERR_INVALID_ARGUMENT, vw_host_device_create(MIB, NULL));
    assert_ptr_equal(device, untouched);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_page_can_be_touched_only_while_it_is_mapped_with_access),
        cmocka_unit_test(plain_memory_can_be_touched_to_its_last_byte),
        cmocka_unit_test(two_mappings_of_a_handle_are_one_memory_to_the_cpu_as_well),
        cmocka_unit_test(reservations_start_on_a_granule_whatever_the_system_gives),
        cmocka_unit_test(plain_memory_and_reservations_return_their_addresses_to_the_system),
        cmocka_unit_test(a_released_handle_gives_its_memory_to_the_system_and_a_new_one_is_zero),
        cmocka_unit_test(thousands_of_handles_need_no_more_files_than_one),
        cmocka_unit_test(an_exported_handle_is_the_same_memory_to_whoever_maps_it),
        cmocka_unit_test(a_shareable_handle_ends_with_its_last_mapping_or_the_device),
        cmocka_unit_test(bytes_that_are_not_there_are_refused_rather_than_touched),
        cmocka_unit_test(what_the_system_refuses_is_told_with_its_own_words),
        cmocka_unit_test(a_device_without_capacity_is_refused_and_the_result_untouched),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* error_text_clauses.c - what a message says: which number is which.
 *
 * A number is known by the phrase before or behind it. One table serves all programs: their phrases
 * do not contradict each other, and a message that was cut, elided or put together by hand still
 * says what it says. The end of a message is found first; then each number in it is looked up in
 * the table. The first number for a field stands, but the exact size in brackets behind a rounded
 * one takes its place. */
#include "parse/error_text_internal.h"

#include <stddef.h>
#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

/* A number of a report: the offset of its field. */
#define FIELD(name) offsetof(vw__error_text_report, name)
#define NOT_KEPT 0 /* the number is known, and no field is for it */

typedef vw__error_text_clause clause;

#define CLAUSE(before, behind, name) VW__ERROR_TEXT_CLAUSE(before, behind, true, name)
#define BARE_CLAUSE(before, behind, name) VW__ERROR_TEXT_CLAUSE(before, behind, false, name)
#define UNKEPT_CLAUSE(before, behind)                                                              \
    {                                                                                              \
        before, behind, sizeof(before) - 1, sizeof(behind) - 1, true, NOT_KEPT                     \
    }

/* A new wording of a message is a row here. A phrase before a number need only be the end of what
 * is there: where a longer one means something else ("this process has", "has"), it comes above the
 * shorter one. The first that fits counts. */
static const clause clauses[] = {
    /* PyTorch */
    CLAUSE("", "totalcapac", total),
    CLAUSE("totalcapacityof", "", total),
    CLAUSE("totalcapactyof", "", total),
    CLAUSE("", "alreadyallocated", allocated),
    UNKEPT_CLAUSE("", "currentactive"),
    CLAUSE("ofwhich", "isfree", free),
    CLAUSE("", "free;", free),
    CLAUSE("", "free)", free),
    CLAUSE("", "cached", unallocated),
    CLAUSE("", "allowed;", allowed),
    CLAUSE("", "reservedintotal", reserved),
    CLAUSE("", "isallocatedbypytorch", allocated),
    CLAUSE("", "allocatedinprivatepool", private_pool),
    CLAUSE("", "isreservedbypytorch", unallocated),
    CLAUSE("thisprocesshas", "memoryinuse", process),
    CLAUSE("has", "memoryinuse", other_process),
    BARE_CLAUSE("requestedsize:", "", tried),
    UNKEPT_CLAUSE("segmentreserveof", ""),
    UNKEPT_CLAUSE("segmentisatleast", ""),
    BARE_CLAUSE("(free:", "", free),
    BARE_CLAUSE(",total:", "", total),
    BARE_CLAUSE("tryingtomap", "", tried),
    CLAUSE("mpsallocated:", "", allocated),
    CLAUSE("otherallocations:", "", other),
    CLAUSE("maxallowed:", "", allowed),
    /* PyTorch on cudaMallocAsync */
    CLAUSE("currentlyallocated:", "", allocated),
    CLAUSE("requested:", "", tried),
    CLAUSE("devicelimit:", "", total),
    CLAUSE("accordingtocuda):", "", free),
    CLAUSE("memoryfraction):", "", allowed),
    /* vLLM */
    CLAUSE("", "kvcacheisneeded", needed),
    CLAUSE("kvcachememory(", "", available),
    /* Paddle, ONNX Runtime, CuPy, Julia, XLA on TPUs */
    CLAUSE("availablememoryisonly", "", free),
    BARE_CLAUSE("availablememoryof", "", free),
    CLAUSE("", "memoryhasbeenallocated", allocated),
    CLAUSE("allocatedsofar:", "", allocated),
    CLAUSE("limitsetto:", "", allowed),
    CLAUSE("memorypoolusage:", "", allocated),
    CLAUSE("bytes(total", "", reserved),
    CLAUSE("", "reserved)", reserved),
    CLAUSE("used", "of", needed),
    CLAUSE("of", "hbm", total),
    /* what was asked for, in everybody's words */
    UNKEPT_CLAUSE("largerthan", ""),
    UNKEPT_CLAUSE("morethan", ""),
    BARE_CLAUSE("toallocate", "", tried),
    CLAUSE("toallocaterequestfor", "", tried),
    BARE_CLAUSE("toalloc", "", tried),
    CLAUSE("cannotallocate", "", tried),
    CLAUSE("cantallocate", "", tried),
    CLAUSE("couldnotallocate", "", tried),
    CLAUSE("failedtoallocatememory:", "", tried),
    CLAUSE("allocatetensorwith", "", tried),
    CLAUSE("outofmemoryallocating", "", tried),
    BARE_CLAUSE("outofmemorywhenallocating", "", tried),
    CLAUSE("outofmemoryrequesting", "", tried),
    CLAUSE("allocating", "", tried),
    CLAUSE("attemptingtoreserve", "", tried),
    CLAUSE("amountofgpumemory(", "", tried),
    BARE_CLAUSE("bufferofsize", "", tried),
    CLAUSE("buffer,size=", "", tried),
    CLAUSE("invalidbuffersize:", "", tried),
    CLAUSE("buffersizeof", "", allowed),
    CLAUSE("unabletommap", "", tried),
    CLAUSE("allocsize:", "", tried),
    BARE_CLAUSE("failedforsize::", "", tried),
    BARE_CLAUSE("(needed", "", needed),
    BARE_CLAUSE(",available", "", available),
    CLAUSE("allocationof", "failed", tried), /* Rust */
    BARE_CLAUSE("mallocofsize", "", tried),  /* Arrow */
    CLAUSE("(requested", "", tried),
    BARE_CLAUSE("requestedmemory:", "", tried), /* XGBoost */
    BARE_CLAUSE("freememory:", "", free),
    CLAUSE("systemmemory(", "", tried), /* Ollama */
    CLAUSE("thanisavailable(", "", free),
    CLAUSE("thereare", "free", free), /* XLA */
    BARE_CLAUSE("allocationofsize", "", tried),
    BARE_CLAUSE("memoryofsize:", "", tried),
    BARE_CLAUSE("memoryofsize", "", tried),
    BARE_CLAUSE("requestedbytesof", "", tried),
    CLAUSE("cudacalloc", "", tried),
    CLAUSE("cudacallocasync", "", tried),
    CLAUSE("cudamalloc", "", tried),
};

/* People retell messages in their own words ("22 GiB reserved against 12 GiB allocated"). Those
 * words are common ones, so these are only tried where the program's own phrases gave nothing. */
static const clause loose_clauses[] = {
    CLAUSE("", "reserved", reserved),
    CLAUSE("reserved", "", reserved),
    CLAUSE("reserved:", "", reserved),
    CLAUSE("reserved=", "", reserved),
    CLAUSE("reservedis", "", reserved),
    CLAUSE("reservedmemory:", "", reserved),
    CLAUSE("", "allocated", allocated),
    CLAUSE("", "isallocated", allocated),
    CLAUSE("", "wereallocated", allocated),
    CLAUSE("allocated:", "", allocated),
    CLAUSE("allocated=", "", allocated),
    CLAUSE("allocatedmemory:", "", allocated),
    CLAUSE("", "live", allocated),
    UNKEPT_CLAUSE("", "ofwhich"),
    CLAUSE("", "available", free),
    CLAUSE("", "isavailable", free),
    CLAUSE("", "areavailable", free),
    CLAUSE("available:", "", free),
    CLAUSE("butonly", "", free),
    CLAUSE("", "free", free),
    CLAUSE("", "isfree", free),
    CLAUSE("", "arefree", free),
    CLAUSE("", "wasfree", free),
    CLAUSE("", "werefree", free),
    CLAUSE("free:", "", free),
    CLAUSE("free=", "", free),
    CLAUSE("", "left", free),
    CLAUSE("", "remaining", free),
    CLAUSE("", "total", total),
    CLAUSE("", "capacity", total),
    CLAUSE("total:", "", total),
    CLAUSE("total=", "", total),
    CLAUSE("capacityof", "", total),
    CLAUSE("capacity:", "", total),
    CLAUSE("", "card", total),
    CLAUSE("", "allowed", allowed),
    CLAUSE("limitof", "", allowed),
    CLAUSE("requested", "", tried),
    CLAUSE("", "requested", tried),
    CLAUSE("", "asked", tried),
    CLAUSE("askedfor", "", tried),
    CLAUSE("requestfor", "", tried),
    CLAUSE("requestof", "", tried),
    CLAUSE("tried:", "", tried),
};

#undef CLAUSE

/* More than any machine has: NVML's "not available", or 2^64 for no limit. */
#define ABSURD_BYTES (UINT64_C(1) << 60)

static const size_t number_fields[] = {
    FIELD(tried_bytes),         FIELD(total_bytes),    FIELD(free_bytes),
    FIELD(allocated_bytes),     FIELD(reserved_bytes), FIELD(unallocated_bytes),
    FIELD(process_bytes),       FIELD(allowed_bytes),  FIELD(private_pool_bytes),
    FIELD(other_process_bytes), FIELD(other_bytes),    FIELD(needed_bytes),
    FIELD(available_bytes),
};

static uint64_t get_field(const vw__error_text_report *report, size_t field)
{
    uint64_t bytes;
    memcpy(&bytes, (const char *)report + field, sizeof bytes);
    return bytes;
}

static void put_field(vw__error_text_report *report, size_t field, uint64_t bytes)
{
    memcpy((char *)report + field, &bytes, sizeof bytes);
}

void vw__error_text_report_init(vw__error_text_report *report)
{
    memset(report, 0, sizeof *report);
    for (size_t i = 0; i < COUNT_OF(number_fields); i++)
        put_field(report, number_fields[i], VW__MODEL_UNKNOWN_BYTES);
    report->device = report->rank = -1;
}

bool vw__error_text_report_has_numbers(const vw__error_text_report *report)
{
    for (size_t i = 0; i < COUNT_OF(number_fields); i++)
        if (get_field(report, number_fields[i]) != VW__MODEL_UNKNOWN_BYTES)
            return true;
    return false;
}

/* ---- reading --------------------------------------------------------------------------------- */

typedef struct reading {
    const vw__error_text_region *region;
    vw__error_text_report *report;
    size_t first, end; /* letters that belong to the message, at most */
    size_t parts_end;  /* behind the last part that was read */
    size_t number_end; /* of the last number, with its field */
    size_t number_field;
    bool is_tried_exact;
} reading;

static bool fits(const reading *message, const vw__error_text_number *number, const clause *row)
{
    const char *letters = message->region->letters;
    if (!number->has_unit && row->needs_unit)
        return false;
    if (row->behind_bytes > message->region->letter_count - number->end ||
        row->before_bytes > number->first)
        return false;
    if (row->behind_bytes != 0 &&
        (letters[number->end] != row->behind[0] ||
         memcmp(letters + number->end, row->behind, row->behind_bytes) != 0))
        return false;
    return memcmp(letters + number->first - row->before_bytes, row->before, row->before_bytes) == 0;
}

static const clause *find_clause(const reading *message, const vw__error_text_number *number,
                                 const clause *table, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (fits(message, number, &table[i]))
            return &table[i];
    return NULL;
}

static void add_other_process(vw__error_text_report *report, uint64_t bytes)
{
    report->other_process_count++;
    if (report->other_process_bytes == VW__MODEL_UNKNOWN_BYTES)
        report->other_process_bytes = 0;
    if (bytes < ABSURD_BYTES && report->other_process_bytes < ABSURD_BYTES)
        report->other_process_bytes += bytes;
}

/* ggml says it rounded, and on the next line to the byte. */
static bool is_same_request(uint64_t bytes, uint64_t exact_bytes)
{
    uint64_t difference = bytes > exact_bytes ? bytes - exact_bytes : exact_bytes - bytes;
    return difference <= exact_bytes / 100;
}

/* Stores the number; returns whether the field has it now. */
static bool set_field(reading *message, size_t field, const vw__error_text_number *number)
{
    bool may_be_absurd = field == FIELD(tried_bytes) || field == FIELD(free_bytes);
    if (field == FIELD(other_process_bytes))
        add_other_process(message->report, number->bytes);
    if (field == FIELD(other_process_bytes) || field == NOT_KEPT)
        return false;
    uint64_t known = get_field(message->report, field);
    bool is_better = field == FIELD(tried_bytes) && number->is_exact && !message->is_tried_exact &&
                     is_same_request(known, number->bytes);
    if (known != VW__MODEL_UNKNOWN_BYTES && !is_better)
        return known == number->bytes;
    if (field == FIELD(tried_bytes))
        message->is_tried_exact = number->is_exact;
    if (may_be_absurd || number->bytes < ABSURD_BYTES)
        put_field(message->report, field, number->bytes);
    return true;
}

/* "6.27GiB (6727663616B)": the same size once more, to the byte. */
static bool is_exact_again(const reading *message, const vw__error_text_number *number)
{
    return number->is_exact && number->has_unit && message->number_end != 0 &&
           number->first == message->number_end + 1 &&
           message->region->letters[message->number_end] == '(';
}

/* "19.77/22.05 GiB": the first shares the unit of the second. */
static bool read_pair(reading *message, const vw__error_text_number *first)
{
    vw__error_text_number second;
    const vw__error_text_region *region = message->region;
    if (first->has_unit || !vw__error_text_region_precedes(region, first->first, "(") ||
        !vw__error_text_region_continues(region, first->end, "/") ||
        !vw__error_text_number_next(region, first->end, message->end, &second) ||
        second.first != first->end + 1 || !second.has_unit)
        return false;
    vw__error_text_number shared = *first;
    shared.bytes = vw__error_text_number_in(first, second.log2);
    (void)set_field(message, FIELD(free_bytes), &shared);
    (void)set_field(message, FIELD(total_bytes), &second);
    message->parts_end = second.end;
    return true;
}

/* vLLM: "less than desired GPU memory utilization (0.9, 19.84 GiB)" */
static bool is_desired(const reading *message, const vw__error_text_number *number)
{
    const vw__error_text_region *region = message->region;
    size_t at = number->first;
    if (!number->has_unit || !vw__error_text_region_precedes(region, at, ","))
        return false;
    for (at--; at > message->first; at--) {
        char c = region->letters[at - 1];
        if (!vw__ascii_is_digit(c) && c != '.')
            break;
    }
    return vw__error_text_region_precedes(region, at, "utilization(");
}

/* Without what stands between a translated phrase and its number. */
static vw__error_text_number behind_fillers(const reading *message, vw__error_text_number number)
{
    for (size_t i = 0; i < vw__error_text_filler_count; i++)
        if (vw__error_text_region_precedes(message->region, number.first,
                                           vw__error_text_fillers[i])) {
            number.first -= strlen(vw__error_text_fillers[i]);
            i = SIZE_MAX; /* from the first again */
        }
    return number;
}

/* The parts of a message are close to each other: a number behind a long gap is not part of it. */
static void read_numbers(reading *message, size_t at, const clause *table, size_t count)
{
    enum { MOST_GAP = 260 };
    vw__error_text_number number;
    size_t last = at;
    message->number_end = 0;
    for (size_t here = message->first;
         vw__error_text_number_next(message->region, here, message->end, &number);
         here = number.end) {
        if (number.first > last && number.first - last > MOST_GAP)
            break;
        const clause *found = find_clause(message, &number, table, count);
        if (found == NULL && table == vw__error_text_translated_clauses) {
            vw__error_text_number named = behind_fillers(message, number);
            found = find_clause(message, &named, table, count);
        }
        if (is_exact_again(message, &number)) {
            put_field(message->report, message->number_field, number.bytes);
            message->parts_end = number.end;
        } else if (found != NULL) {
            bool is_taken = set_field(message, found->field, &number);
            message->number_field = found->field;
            message->number_end = is_taken ? number.end : 0;
            if (number.end + found->behind_bytes > message->parts_end)
                message->parts_end = number.end + found->behind_bytes;
        } else if (message->report->kind == VW__ERROR_TEXT_VLLM) {
            if (is_desired(message, &number)) {
                (void)set_field(message, FIELD(needed_bytes), &number);
                message->parts_end = number.end;
            } else if (read_pair(message, &number)) {
                number.end = message->parts_end;
            }
        }
        last = message->parts_end > last ? message->parts_end : last;
    }
    if (last < message->end && message->end - last > MOST_GAP)
        message->end = last + MOST_GAP;
}

/* ---- the device ------------------------------------------------------------------------------ */

static int device_number(const vw__error_text_region *region, size_t at, size_t end, size_t *behind)
{
    int value = 0;
    size_t first = at;
    while (at < end && vw__ascii_is_digit(region->letters[at])) {
        if (at > first && region->clean_of[at] != region->clean_of[at - 1] + 1)
            break;
        if (at - first == 3)
            return -1; /* a year, a model */
        value = value * 10 + (region->letters[at++] - '0');
    }
    *behind = at;
    return at == first ? -1 : value;
}

static bool is_device_at(const vw__error_text_region *region, size_t at, size_t behind)
{
    static const char *const names[] = {"gpu",      "npu",           "xpu",       "musa", "hpu",
                                        "ondevice", "gpu:",          "gpu=",      "dml:", "cuda:",
                                        "device:",  "deviceordinal", "device(id:"};
    vw__error_text_number number;
    size_t clean_behind = region->clean_of[behind - 1] + (size_t)1;
    char next = clean_behind < region->clean_bytes ? region->clean[clean_behind] : ' ';
    if (vw__error_text_number_next(region, at, region->letter_count, &number) && number.has_unit)
        return false; /* "GPU 24 GiB" */
    if (next == '-' || next == '/' || next == '.' || next == ',')
        if (clean_behind + 1 < region->clean_bytes &&
            vw__ascii_is_digit(region->clean[clean_behind + 1]))
            return false; /* a date, a fraction */
    if (vw__error_text_region_precedes_any(region, at, names, COUNT_OF(names)))
        return true;
    if (vw__error_text_region_precedes(region, at, "cuda") &&
        vw__error_text_region_continues(region, behind, "buffer"))
        return true; /* ggml: "CUDA0 buffer" */
    if (!vw__error_text_region_continues(region, behind, ";"))
        return false;
    while (at > 0 && vw__ascii_is_lower(region->letters[at - 1]))
        at--;
    return at > 0 && region->letters[at - 1] == '('; /* PyTorch: "(GPU 0;", whatever it is called */
}

/* "gpu1: ", "gpu-a-3" are names of machines. A device has a blank or a mark before its number. */
static bool is_host_name(const vw__error_text_region *region, size_t digit)
{
    size_t clean = region->clean_of[digit];
    char before = clean > 0 ? region->clean[clean - 1] : ' ';
    if (!vw__error_text_region_precedes(region, digit, "gpu"))
        return false;
    bool is_joined = before == '-' || (before | 0x20) == 'u';
    return is_joined && (digit < 4 || region->letters[digit - 4] != '(');
}

static int device_between(const vw__error_text_region *region, size_t first, size_t end)
{
    size_t behind = 0;
    for (size_t i = first; i < end; i++) {
        char c = region->letters[i];
        if (!vw__ascii_is_digit(c))
            continue;
        int device = device_number(region, i, end, &behind);
        if (device >= 0 && is_device_at(region, i, behind) && !is_host_name(region, i))
            return device;
        while (i + 1 < end && vw__ascii_is_digit(region->letters[i + 1]))
            i++;
    }
    return -1;
}

/* The first letter of the line in which `at` stands, not before `first`. */
static size_t first_of_line(const vw__error_text_region *region, size_t first, size_t at)
{
    size_t line = vw__error_text_region_line_start(region, at);
    while (at > first && region->clean_of[at - 1] >= line)
        at--;
    return at;
}

static int find_device(const reading *message, size_t start, size_t at)
{
    const vw__error_text_region *region = message->region;
    bool is_nccl = message->report->kind == VW__ERROR_TEXT_NCCL;
    size_t behind = 0;
    /* NCCL: host:pid:tid [device] file */
    for (size_t i = at; is_nccl && i > message->first && at - i < 160; i--) {
        int device = region->letters[i - 1] == '[' ? device_number(region, i, at, &behind) : -1;
        if (device >= 0 && vw__error_text_region_continues(region, behind, "]"))
            return device;
    }
    /* The message itself comes first, then the line in front of it. */
    int device = device_between(region, start, message->end);
    size_t first = first_of_line(region, message->first, start);
    return device >= 0 ? device : device_between(region, first, start);
}

/* ---- the message ----------------------------------------------------------------------------- */

static bool is_torch(vw__error_text_kind kind)
{
    return kind >= VW__ERROR_TEXT_TORCH_CUDA && kind <= VW__ERROR_TEXT_TORCH_OTHER;
}

/* How far a message may reach, in letters. PyTorch's names every process of the card. */
static size_t longest_message(vw__error_text_kind kind)
{
    switch (kind) {
    case VW__ERROR_TEXT_TORCH_CUDA:
    case VW__ERROR_TEXT_TORCH_HIP:
    case VW__ERROR_TEXT_TORCH_XPU:
    case VW__ERROR_TEXT_TORCH_OTHER:
        return VW__ERROR_TEXT_REGION_BYTES;
    case VW__ERROR_TEXT_TENSORFLOW:
    case VW__ERROR_TEXT_JAX:
    case VW__ERROR_TEXT_GGML:
    case VW__ERROR_TEXT_CUDA_ASYNC:
        return 600;
    case VW__ERROR_TEXT_NCCL:
        return 400;
    case VW__ERROR_TEXT_CUBLAS:
    case VW__ERROR_TEXT_CUDNN:
    case VW__ERROR_TEXT_CUSOLVER:
    case VW__ERROR_TEXT_HOST_KILLED:
    case VW__ERROR_TEXT_HOST_WORKER:
    case VW__ERROR_TEXT_HOST_SHARED:
        return 0; /* their numbers are not about the request */
    default:
        return 320;
    }
}

/* The message ends before the next one begins. */
static size_t message_end(const vw__error_text_region *region, vw__error_text_kind kind,
                          size_t longest, const vw__error_text_place *place)
{
    static const char *const heads[] = {"outofmemory",  "cpuallocator", "triedtoallocate",
                                        "cublasstatus", "cudnnstatus",  "memoryerror"};
    static const char *const log_lines[] = {VW__ERROR_TEXT_ADDRESSES_TAG, "failedwithoom"};
    static const char *const torch_heads[] = {"cudaoutofmemory", "hipoutofmemory", "xpuoutofmemory",
                                              "mpsbackendoutofmemory", "cpuallocator"};
    size_t at = place->at, end = at + longest, tried = SIZE_MAX, next;
    if (end < place->end)
        end = place->end;
    if (end > region->letter_count)
        end = region->letter_count;
    next = vw__error_text_next_head(region, place->end, end);
    end = next < end ? next : end;
    for (size_t i = 0; i < COUNT_OF(log_lines); i++)
        if (vw__error_text_region_has(region, log_lines[i], place->end, end, &next) && next < end)
            end = next;
    /* The request may stand behind the first words, and then once only. */
    if (vw__error_text_region_has(region, "triedtoallocate", at >= 8 ? at - 8 : 0, end, &tried) &&
        vw__error_text_region_has(region, "triedtoallocate", tried + 1, end, &next))
        end = next;
    if (!is_torch(kind) && kind != VW__ERROR_TEXT_HOST_ALLOCATOR)
        for (size_t i = 0; i < COUNT_OF(torch_heads); i++)
            if (vw__error_text_region_has(region, torch_heads[i], place->end, end, &next) &&
                next < end)
                end = next;
    if (kind == VW__ERROR_TEXT_TENSORFLOW || kind == VW__ERROR_TEXT_JAX) {
        if (vw__error_text_region_has(region, "fromdevice:", at, end, &next) &&
            vw__error_text_region_has(region, "fromdevice:", next + 1, end, &next) && next < end)
            end = next;
        return end;
    }
    bool says_it_again = kind == VW__ERROR_TEXT_GGML || kind == VW__ERROR_TEXT_OTHER_GPU ||
                         kind == VW__ERROR_TEXT_CUDA_ASYNC;
    size_t reach = says_it_again ? 160 : 60;
    for (size_t i = 0; i < COUNT_OF(heads); i++)
        if (vw__error_text_region_has(region, heads[i], at + reach, end, &next) && next != tried &&
            next < end)
            end = next;
    return end;
}

static const char *torch_wording(const vw__error_text_region *region,
                                 const vw__error_text_report *report, size_t at, size_t end)
{
    bool has_total = vw__error_text_region_has(region, "totalcapacity", at, end, NULL);
    if (vw__error_text_region_has(region, "totalcapacty", at, end, NULL))
        return "PyTorch 2.1";
    if (has_total && vw__error_text_region_has(region, "reservedintotal", at, end, NULL)) {
        for (size_t i = at; i < end + 120 && i < region->letter_count; i++)
            if (vw__error_text_region_continues(region, i, "maxsplitsizemb"))
                return "PyTorch 1.10 to 2.0";
        return report->allowed_bytes != VW__MODEL_UNKNOWN_BYTES ? "PyTorch 1.8 to 2.0"
                                                                : "PyTorch 1.4 to 2.0";
    }
    if (has_total && vw__error_text_region_has(region, "alreadyallocated", at, end, NULL) &&
        report->unallocated_bytes != VW__MODEL_UNKNOWN_BYTES)
        return "PyTorch 1.0 to 1.3";
    if (has_total && report->allowed_bytes != VW__MODEL_UNKNOWN_BYTES)
        return "PyTorch 2.5 and later";
    if (has_total && report->private_pool_bytes != VW__MODEL_UNKNOWN_BYTES)
        return "PyTorch 2.4 and later";
    return has_total ? "PyTorch 2.2 and later" : NULL;
}

/* The variable that the message tells its reader to set. */
static const char *variable_between(const vw__error_text_region *region, size_t first, size_t end)
{
    static const struct {
        const char *letters, *name;
    } variables[] = {
        {"pytorchcudaallocconf", "PYTORCH_CUDA_ALLOC_CONF"},
        {"pytorchallocconf", "PYTORCH_ALLOC_CONF"},
        {"pytorchhipallocconf", "PYTORCH_HIP_ALLOC_CONF"},
        {"pytorchnpuallocconf", "PYTORCH_NPU_ALLOC_CONF"},
        {"pytorchmusaallocconf", "PYTORCH_MUSA_ALLOC_CONF"},
        {"pytorchmluallocconf", "PYTORCH_MLU_ALLOC_CONF"},
    };
    const char *name = NULL;
    size_t at;
    for (size_t i = 0; i < COUNT_OF(variables); i++)
        if (vw__error_text_region_has(region, variables[i].letters, first, end, &at)) {
            name = variables[i].name;
            end = at; /* only one that comes before it */
        }
    return name;
}

static void conclude_reserved(vw__error_text_report *report)
{
    /* What CuPy calls its total has the request in it. */
    if (report->kind == VW__ERROR_TEXT_CUPY && report->reserved_bytes != VW__MODEL_UNKNOWN_BYTES &&
        report->tried_bytes <= report->reserved_bytes)
        report->reserved_bytes -= report->tried_bytes;
    if (report->reserved_bytes == VW__MODEL_UNKNOWN_BYTES &&
        report->allocated_bytes != VW__MODEL_UNKNOWN_BYTES &&
        report->unallocated_bytes != VW__MODEL_UNKNOWN_BYTES)
        report->reserved_bytes = report->allocated_bytes + report->unallocated_bytes;
}

static bool has_state(const vw__error_text_report *report)
{
    return report->total_bytes != VW__MODEL_UNKNOWN_BYTES ||
           report->allocated_bytes != VW__MODEL_UNKNOWN_BYTES ||
           report->reserved_bytes != VW__MODEL_UNKNOWN_BYTES;
}

size_t vw__error_text_read_clauses(const vw__error_text_region *region,
                                   const vw__error_text_rule *rule,
                                   const vw__error_text_place *place, vw__error_text_report *report)
{
    enum {
        MOST_BEFORE = 200,
        LOG_LETTERS = 140,   /* of a line of PyTorch's log */
        ADVICE_LETTERS = 400 /* behind the last number */
    };
    bool is_retried = (rule->flags & VW__ERROR_TEXT_RULE_RETRIED) != 0;
    size_t first = place->start > MOST_BEFORE ? place->start - MOST_BEFORE : 0, at = place->at;
    if (first < place->first)
        first = place->first;
    reading message = {.region = region, .report = report, .first = first, .parts_end = at};
    if (longest_message(report->kind) == 0)
        message.first = at;
    if (is_torch(report->kind) &&
        (rule->flags & (VW__ERROR_TEXT_RULE_PART | VW__ERROR_TEXT_RULE_SUMMARY)) == 0)
        message.first = first_of_line(region, first, place->start);
    size_t end = message_end(region, report->kind,
                             is_retried ? LOG_LETTERS : longest_message(report->kind), place);
    message.end = end;
    read_numbers(&message, at, clauses, COUNT_OF(clauses));
    bool may_be_retold = is_torch(report->kind) || (rule->flags & VW__ERROR_TEXT_RULE_SUMMARY) != 0;
    if ((may_be_retold || rule->kind == VW__ERROR_TEXT_OTHER_GPU) && !has_state(report))
        read_numbers(&message, at, vw__error_text_translated_clauses,
                     vw__error_text_translated_clause_count);
    if (may_be_retold && !has_state(report))
        read_numbers(&message, at, loose_clauses, COUNT_OF(loose_clauses));
    conclude_reserved(report);
    report->device = find_device(&message, place->start, at);
    report->says_capped = (rule->flags & VW__ERROR_TEXT_RULE_CAPPED) != 0;
    if (end > message.parts_end + ADVICE_LETTERS)
        end = message.parts_end + ADVICE_LETTERS;
    if (is_torch(report->kind) && !is_retried)
        report->variable = variable_between(region, place->start, end);
    if (is_torch(report->kind)) /* 2.13 logs retries; 2.12 refuses by its own limit */
        report->least_torch = is_retried ? 213 : report->says_capped ? 212 : 0;
    report->is_warning =
        is_retried ||
        ((report->kind == VW__ERROR_TEXT_TENSORFLOW || report->kind == VW__ERROR_TEXT_JAX) &&
         (vw__error_text_region_has(region, "notafailure", first, message.end, NULL) ||
          vw__error_text_region_has(region, "notanerror", first, message.end, NULL)));
    report->wording = rule->wording;
    if (is_torch(report->kind) && rule->wording == NULL)
        report->wording = torch_wording(region, report, first, message.end);
    report->is_truncated =
        is_torch(report->kind) && report->tried_bytes != VW__MODEL_UNKNOWN_BYTES &&
        (rule->flags & VW__ERROR_TEXT_RULE_SUMMARY) == 0 && rule->wording == NULL &&
        (report->total_bytes == VW__MODEL_UNKNOWN_BYTES ||
         report->reserved_bytes == VW__MODEL_UNKNOWN_BYTES);
    return message.parts_end;
}

/* error_text_words.h - the words that give a report away, and how they are found in a text.
 *
 * Words are compared *squeezed*: in lower case, and without blanks, line ends, hyphens,
 * underscores, quotes and the marks of markdown. "CUDA out of memory", "CUDA_ERROR_OUT_OF_MEMORY"
 * and a message that a terminal broke after "out of mem" are then the same letters in a row, and
 * nobody has to guess whether a line break stood for a blank.
 *
 * A whole text is searched for these words, and each of them costs time: they are at least
 * VW__WORD_SHORTEST long. Words that only matter beside one of them stand in the rules
 * (error_text_rules.c). */
#ifndef VW_FORMAT_ERROR_TEXT_WORDS_H
#define VW_FORMAT_ERROR_TEXT_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VW__WORD_SHORTEST 6

/* Where two begin at the same place, the one that stands first here is tried first. The last word
 * of the first group (is_plain() in error_text_mentions.c) is the last that people use themselves.
 */
#define VW__WORD_LIST(X)                                                                           \
    /* running out, in so many words */                                                            \
    X(OUT_OF_MEMORY, "outofmemory")                                                                \
    X(OUT_OF_GPU_MEMORY, "outofgpumemory")                                                         \
    X(OUT_OF_CUDA_MEMORY, "outofcudamemory")                                                       \
    X(OUT_OF_DEVICE_MEMORY, "outofdevicememory")                                                   \
    X(OUT_OF_VIDEO_MEMORY, "outofvideomemory")                                                     \
    X(OUT_OF_VRAM, "outofvram")                                                                    \
    X(OUT_OF_RAM, "outofram")                                                                      \
    X(OUT_OF_HOST_MEMORY, "outofhostmemory")                                                       \
    X(NOT_ENOUGH_MEMORY, "notenoughmemory")                                                        \
    X(NOT_ENOUGH_GPU_MEMORY, "notenoughgpumemory")                                                 \
    X(NOT_ENOUGH_VIDEO_MEMORY, "notenoughgpuvideomemory")                                          \
    X(NOT_ENOUGH_VRAM, "notenoughvram")                                                            \
    X(INSUFFICIENT_MEMORY, "insufficientmemory")                                                   \
    X(INSUFFICIENT_GPU_MEMORY, "insufficientgpumemory")                                            \
    X(MEMORY_EXHAUSTED, "memoryexhausted")                                                         \
    X(RESOURCE_EXHAUSTED, "resourceexhausted")                                                     \
    X(OOM_WHEN_ALLOCATING, "oomwhenallocating")                                                    \
    X(FAILED_WITH_OOM, "failedwithoom")                                                            \
    X(OOM_ERROR, "oomerror")                                                                       \
    X(CUDA_OOM, "cudaoom")                                                                         \
    X(GPU_OOM, "gpuoom")                                                                           \
    X(GOT_AN_OOM, "gotanoom")                                                                      \
    X(VRAM_SHORT_CHINESE, "\xe6\x98\xbe\xe5\xad\x98\xe4\xb8\x8d\xe8\xb6\xb3")                      \
    X(MEMORY_SHORT_CHINESE, "\xe5\x86\x85\xe5\xad\x98\xe4\xb8\x8d\xe8\xb6\xb3")                    \
    /* an allocation that failed */                                                                \
    X(TO_ALLOCATE, "toallocate")                                                                   \
    X(FAILED_TO_ALLOC, "failedtoalloc")                                                            \
    X(CANNOT_ALLOCATE, "cannotallocate")                                                           \
    X(CANT_ALLOCATE, "cantallocate")                                                               \
    X(COULD_NOT_ALLOCATE, "couldnotallocate")                                                      \
    X(COULD_NOT_BE_ALLOCATED, "couldnotbeallocated")                                               \
    X(ALLOC_FAILED, "allocfailed")                                                                 \
    X(ERROR_MEMORY_ALLOCATION, "cudaerrormemoryallocation")                                        \
    X(DEVICE_ALLOCATION_OF_SIZE, "memoryallocationofsize")                                         \
    X(MEMORY_ALLOCATION_OF, "memoryallocationof")                                                  \
    X(MEM_OBJECT_FAILURE, "memobjectallocationfail")                                               \
    X(ALLOCATION_ON_DEVICE, "allocationondevice")                                                  \
    X(CUDA_MALLOC, "cudamalloc")                                                                   \
    X(CUDA_CALLOC, "cudacalloc")                                                                   \
    X(POOL_SIZE_EXCEEDED, "maximumpoolsizeexceeded")                                               \
    X(REQUESTED_BUFFER, "forrequestedbuffer")                                                      \
    X(REQUESTED_BYTES_OF, "smallerthanrequestedbytes")                                             \
    X(PREEMPTIVELY_REJECTED, "preemptivelyrejected")                                               \
    X(INVALID_BUFFER_SIZE, "invalidbuffersize")                                                    \
    X(MODEL_UNABLE_TO_ALLOCATE, "loadingmodel:unabletoallocate")                                   \
    X(GGML_POOL_FULL, "notenoughspaceinthecontext")                                                \
    X(MEMORY_IS_NOT_ENOUGH, "memoryisntenough")                                                    \
    X(MEMORY_NOT_ENOUGH, "memorynotenough")                                                        \
    X(FAILED_FOR_SIZE, "allocationfailedforsize")                                                  \
    /* the parts of PyTorch's messages */                                                          \
    X(TOTAL_CAPACITY, "totalcapacity")                                                             \
    X(TOTAL_CAPACTY, "totalcapacty")                                                               \
    X(ALREADY_ALLOCATED, "alreadyallocated")                                                       \
    X(RESERVED_IN_TOTAL, "reservedintotal")                                                        \
    X(ALLOCATED_BY_PYTORCH, "isallocatedbypytorch")                                                \
    X(RESERVED_BY_PYTORCH, "isreservedbypytorch")                                                  \
    X(RESERVED_AGAINST, "reservedagainst")                                                         \
    X(RESERVED_BUT_ONLY, "reservedbutonly")                                                        \
    X(RESERVED_WHILE_ONLY, "reservedwhileonly")                                                    \
    X(RESERVED_VERSUS, "reservedversus")                                                           \
    X(RESERVED_VS, "reservedvs")                                                                   \
    /* libraries */                                                                                \
    X(CUBLAS_STATUS, "cublasstatus")                                                               \
    X(CUDNN_STATUS, "cudnnstatus")                                                                 \
    X(CUSOLVER_STATUS, "cusolverstatus")                                                           \
    X(CUDNN_NO_ALGORITHM, "validcudnnalgorithm")                                                   \
    X(CUDNN_NO_ENGINE, "unabletofindanengine")                                                     \
    X(CURAND_STATUS, "curandstatusallocationfail")                                                 \
    X(RESOURCE_ALLOCATION_FAILED, "resourceallocationfailed")                                      \
    X(DRIVER_ERROR_2, "cudadrivererror:2")                                                         \
    X(BAD_ALLOC, "badalloc")                                                                       \
    X(BAD_ALLOCATION, "badallocation")                                                             \
    /* vLLM and its like */                                                                        \
    X(NO_CACHE_MEMORY, "noavailablememoryforthecache")                                             \
    X(NO_GPU_BLOCKS, "gpublocks:0,")                                                               \
    X(STORED_IN_KV_CACHE, "storedinkvcache")                                                       \
    X(KV_CACHE_IS_NEEDED, "kvcacheisneeded")                                                       \
    X(ON_STARTUP_IS_LESS, "onstartupislessthan")                                                   \
    /* the host */                                                                                 \
    X(CPU_ALLOCATOR, "cpuallocator")                                                               \
    X(POSIX_MEMALIGN, "posixmemalign")                                                             \
    X(ARRAY_MEMORY_ERROR, "arraymemoryerror")                                                      \
    X(MEMORY_ERROR, "memoryerror")                                                                 \
    X(PAGING_FILE, "pagingfileistoosmall")                                                         \
    X(WINDOWS_1455, "winerror1455")                                                                \
    X(ERRNO_12, "[errno12]")                                                                       \
    X(MORE_SYSTEM_MEMORY, "requiresmoresystemmemory")                                              \
    X(OOM_KILL, "oomkill")                                                                         \
    X(OOM_REAPER, "oomreaper")                                                                     \
    X(KILLED_PROCESS, "killedprocess")                                                             \
    X(LOW_ON_MEMORY, "lowonmemory")                                                                \
    X(MEMORY_PRESSURE, "memorypressure")                                                           \
    X(EXCEEDED_MEMORY_LIMIT, "exceededmemorylimit")                                                \
    X(EXCEEDED_JOB_MEMORY, "exceededjobmemorylimit")                                               \
    X(EXCEEDED_STEP_MEMORY, "exceededstepmemorylimit")                                             \
    X(LSF_MEMORY_LIMIT, "termmemlimit")                                                            \
    X(PBS_MEMORY_LIMIT, "jobkilled:mem")                                                           \
    X(PBS_VIRTUAL_LIMIT, "jobkilled:vmem")                                                         \
    X(SYSTEMD_OOMD, "systemdoomd")                                                                 \
    X(SLURM_STATE_CUT, "outofme+")                                                                 \
    X(ALL_AVAILABLE_RAM, "usingallavailableram")                                                   \
    X(MORE_THAN_AVAILABLE, "morememorythanisavailable")                                            \
    X(KILLED_SIGNAL, "killedsignalterminated")                                                     \
    X(KERNEL_DIED, "kernelappearstohavedied")                                                      \
    X(EXCESSIVE_MEMORY, "excessivememoryusage")                                                    \
    X(DATALOADER_WORKER, "dataloaderworker")                                                       \
    X(SHARED_MEMORY, "sharedmemory")                                                               \
    X(BUS_ERROR, "buserror")                                                                       \
    X(DEV_SHM, "/dev/shm")                                                                         \
    X(WRITE_TORCH_FILE, "unabletowritetofile")                                                     \
    X(UNABLE_TO_MMAP, "unabletommap")                                                              \
    X(KILLED, "killed")                                                                            \
    X(KILLED_CHINESE, "\xe5\xb7\xb2\xe6\x9d\x80\xe6\xad\xbb")                                      \
    X(KILLED_GERMAN, "get\xc3\xb6tet")                                                             \
    X(KILLED_JAPANESE, "\xe5\xbc\xb7\xe5\x88\xb6\xe7\xb5\x82\xe4\xba\x86")                         \
    X(KILLED_KOREAN, "\xec\xa3\xbd\xec\x97\x88\xec\x9d\x8c")                                       \
    X(KILLED_RUSSIAN, "\xd1\x83\xd0\xb1\xd0\xb8\xd1\x82\xd0\xbe")                                  \
    X(KILLED_RUSSIAN_CAPITAL, "\xd0\xa3\xd0\xb1\xd0\xb8\xd1\x82\xd0\xbe")                          \
    X(EXIT_CODE, "exitcode")                                                                       \
    X(EXIT_STATUS, "exitstatus")                                                                   \
    X(RETURN_CODE, "returncode")                                                                   \
    X(EXITED_WITH_CODE, "exitedwithcode")                                                          \
    X(EXITED_WITH_STATUS, "exitedwithstatus")                                                      \
    X(SIGNAL_9, "signal9")                                                                         \
    X(SIGNAL_COLON_9, "signal:9")                                                                  \
    X(SIGKILL, "sigkill")                                                                          \
    /* what is no report of running out */                                                         \
    X(ERROR_COLON, "error:")                                                                       \
    X(EXCEPTION_COLON, "exception:")                                                               \
    X(TRACEBACK, "traceback(mostrecent")                                                           \
    X(ILLEGAL_ACCESS, "illegalmemoryaccess")                                                       \
    X(DEVICE_ASSERT, "devicesideassert")                                                           \
    X(OUT_OF_RESOURCE, "outofresource")                                                            \
    X(NO_SPACE_LEFT, "nospaceleft")                                                                \
    X(TERMINATE_CALLED, "terminatecalled")                                                         \
    X(SEGMENTATION_FAULT, "segmentationfault")                                                     \
    X(INVALID_DEVICE_POINTER, "invaliddevicepointer")                                              \
    X(CUDA_FAILURE, "cudafailure")                                                                 \
    X(ASSERTION_FAILED, "assertionfailed")                                                         \
    X(SETTING_EXPANDABLE, "expandablesegment")                                                     \
    X(ASCEND_CODE, "el0004")

typedef enum vw__word {
#define VW__WORD_ENUM(upper, text) VW__WORD_##upper,
    VW__WORD_LIST(VW__WORD_ENUM)
#undef VW__WORD_ENUM
        VW__WORD_COUNT
} vw__word;

/* The squeezed form of every byte; 0 = dropped. */
extern const unsigned char *const vw__squeezed;

#define VW__WORD_HASHES 4096

/* All words looked for at once, after Wu and Manber: two letters at the end of a window as
 * long as the shortest word say how far the window may move at least. */
typedef struct vw__word_search {
    uint8_t shift[VW__WORD_HASHES];
    uint16_t first[VW__WORD_HASHES]; /* word + 1, of those whose window ends so; 0 = none */
    uint16_t next[VW__WORD_COUNT];   /* word + 1 */
    uint16_t size_bytes[VW__WORD_COUNT];
} vw__word_search;

void vw__word_search_init(vw__word_search *search);

typedef struct vw__word_match {
    vw__word word;
    size_t at; /* of its first letter */
} vw__word_match;

/* Where a search stands: all zero at the beginning. */
typedef struct vw__word_cursor {
    size_t at;
    uint16_t candidate; /* word + 1: the next to try at `at`; 0 = look for the next place */
} vw__word_cursor;

/* The next match in squeezed letters, in the order of their places. */
bool vw__word_search_next(const vw__word_search *search, const char *letters, size_t size_bytes,
                          vw__word_cursor *cursor, vw__word_match *match);

/* The word itself: static. */
const char *vw__word_text(vw__word word);

/* ---- squeezing a buffer ---------------------------------------------------------------------- */

/* A buffer of text is squeezed without colours and without the prefixes that loggers put before a
 * line. The origin of a letter is asked for few of them, so it is not kept for each: there is a
 * *mark* every few hundred letters, and the way from there is walked again. */
enum {
    VW__LETTERS_BYTES = 128 << 10, /* raw bytes that are squeezed at once, at most */
    VW__LETTERS_PER_MARK = 256,
    VW__BYTES_PER_MARK = 1 << 10 /* likewise, of raw bytes */
};

/* Where the letters at `letter` came from. */
typedef struct vw__letter_mark {
    uint32_t letter, raw;
} vw__letter_mark;

typedef struct vw__letters {
    char text[VW__LETTERS_BYTES];
    vw__letter_mark marks[VW__LETTERS_BYTES / VW__LETTERS_PER_MARK +
                          VW__LETTERS_BYTES / VW__BYTES_PER_MARK + 2];
    size_t mark_count;
} vw__letters;

/* Squeezes the lines of raw bytes from `at` to `end` into letters->text, without their prefixes.
 * `is_line_start`: of the first. Returns how many letters there are. */
size_t vw__letters_squeeze(vw__letters *letters, const char *raw, size_t at, size_t end,
                           bool is_line_start);

/* The raw byte that a letter came from. `raw` and `end` are those that were squeezed. `*known`, all
 * zero at first, is an earlier answer to go on from, and becomes this one. */
size_t vw__letters_raw_of(const vw__letters *letters, const char *raw, size_t letter, size_t end,
                          vw__letter_mark *known);

#endif /* VW_FORMAT_ERROR_TEXT_WORDS_H */

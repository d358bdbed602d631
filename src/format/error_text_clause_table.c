/* error_text_clause_table.c - the table of phrases, by program.
 *
 * A new wording of a message is a line here. Phrases are squeezed (error_text_words.h). One that
 * stands before a number need only be the end of what is there: where a longer one means something
 * else ("this process has", "has"), it comes above the shorter one. */
#include "format/error_text_clause_table.h"

#define CLAUSE(before, behind, name, needs_unit)                                                   \
    {                                                                                              \
        before, behind, sizeof before - 1, sizeof behind - 1, VW__SAID_##name, needs_unit          \
    }

const vw__error_clause vw__error_clauses[] = {
    /* PyTorch */
    CLAUSE("", "totalcapac", TOTAL, true),
    CLAUSE("totalcapacityof", "", TOTAL, true),
    CLAUSE("totalcapactyof", "", TOTAL, true),
    CLAUSE("", "alreadyallocated", ALLOCATED, true),
    CLAUSE("", "currentactive", NONE, true),
    CLAUSE("ofwhich", "isfree", FREE, true),
    CLAUSE("", "free;", FREE, true),
    CLAUSE("", "free)", FREE, true),
    CLAUSE("", "cached", UNALLOCATED, true),
    CLAUSE("", "allowed;", ALLOWED, true),
    CLAUSE("", "reservedintotal", RESERVED, true),
    CLAUSE("", "isallocatedbypytorch", ALLOCATED, true),
    CLAUSE("", "allocatedinprivatepool", PRIVATE_POOL, true),
    CLAUSE("", "isreservedbypytorch", UNALLOCATED, true),
    CLAUSE("thisprocesshas", "memoryinuse", PROCESS, true),
    CLAUSE("has", "memoryinuse", OTHER_PROCESS, true),
    CLAUSE("requestedsize:", "", TRIED, false),
    CLAUSE("segmentreserveof", "", NONE, true),
    CLAUSE("segmentisatleast", "", NONE, true),
    CLAUSE("(free:", "", FREE, false),
    CLAUSE(",total:", "", TOTAL, false),
    CLAUSE("tryingtomap", "", TRIED, false),
    CLAUSE("mpsallocated:", "", ALLOCATED, true),
    CLAUSE("otherallocations:", "", OTHER, true),
    CLAUSE("maxallowed:", "", ALLOWED, true),
    /* PyTorch on cudaMallocAsync */
    CLAUSE("currentlyallocated:", "", ALLOCATED, true),
    CLAUSE("requested:", "", TRIED, true),
    CLAUSE("devicelimit:", "", TOTAL, true),
    CLAUSE("accordingtocuda):", "", FREE, true),
    CLAUSE("memoryfraction):", "", ALLOWED, true),
    /* vLLM */
    CLAUSE("", "kvcacheisneeded", NEEDED, true),
    CLAUSE("kvcachememory(", "", AVAILABLE, true),
    /* Paddle, ONNX Runtime, CuPy, Julia, XLA on TPUs */
    CLAUSE("availablememoryisonly", "", FREE, true),
    CLAUSE("availablememoryof", "", FREE, false),
    CLAUSE("", "memoryhasbeenallocated", ALLOCATED, true),
    CLAUSE("allocatedsofar:", "", ALLOCATED, true),
    CLAUSE("limitsetto:", "", ALLOWED, true),
    CLAUSE("memorypoolusage:", "", ALLOCATED, true),
    CLAUSE("", "reserved)", RESERVED, true),
    CLAUSE("used", "of", NEEDED, true),
    CLAUSE("of", "hbm", TOTAL, true),
    /* what was asked for, in everybody's words */
    CLAUSE("largerthan", "", NONE, true),
    CLAUSE("morethan", "", NONE, true),
    CLAUSE("toallocate", "", TRIED, false),
    CLAUSE("toallocaterequestfor", "", TRIED, true),
    CLAUSE("toalloc", "", TRIED, false),
    CLAUSE("cannotallocate", "", TRIED, true),
    CLAUSE("cantallocate", "", TRIED, true),
    CLAUSE("couldnotallocate", "", TRIED, true),
    CLAUSE("failedtoallocatememory:", "", TRIED, true),
    CLAUSE("allocatetensorwith", "", TRIED, true),
    CLAUSE("outofmemoryallocating", "", TRIED, true),
    CLAUSE("outofmemorywhenallocating", "", TRIED, false),
    CLAUSE("outofmemoryrequesting", "", TRIED, true),
    CLAUSE("allocating", "", TRIED, true),
    CLAUSE("attemptingtoreserve", "", TRIED, true),
    CLAUSE("amountofgpumemory(", "", TRIED, true),
    CLAUSE("bufferofsize", "", TRIED, false),
    CLAUSE("buffer,size=", "", TRIED, true),
    CLAUSE("invalidbuffersize:", "", TRIED, true),
    CLAUSE("buffersizeof", "", ALLOWED, true),
    CLAUSE("unabletommap", "", TRIED, true),
    CLAUSE("allocsize:", "", TRIED, true),
    CLAUSE("failedforsize::", "", TRIED, false),
    CLAUSE("(needed", "", NEEDED, false),
    CLAUSE(",available", "", AVAILABLE, false),
    CLAUSE("\xe5\xb0\x9d\xe8\xaf\x95\xe5\x88\x86\xe9\x85\x8d", "", TRIED, true), /* Chinese */
    CLAUSE("", "\xe6\x80\xbb\xe5\xae\xb9\xe9\x87\x8f", TOTAL, true),
    CLAUSE("", "\xe5\xb7\xb2\xe5\x88\x86\xe9\x85\x8d", ALLOCATED, true),
    CLAUSE("", "\xe5\x8f\xaf\xe7\x94\xa8", FREE, true),
    CLAUSE("", "\xe7\xa9\xba\xe9\x97\xb2", FREE, true),
    CLAUSE("", "\xe7\x94\xb1pytorch\xe6\x80\xbb\xe5\x85\xb1\xe4\xbf\x9d\xe7\x95\x99", RESERVED,
           true),
    CLAUSE("allocationof", "failed", TRIED, true), /* Rust */
    CLAUSE("mallocofsize", "", TRIED, false),      /* Arrow */
    CLAUSE("(requested", "", TRIED, true),
    CLAUSE("requestedmemory:", "", TRIED, false), /* XGBoost */
    CLAUSE("freememory:", "", FREE, false),
    CLAUSE("systemmemory(", "", TRIED, true), /* Ollama */
    CLAUSE("thanisavailable(", "", FREE, true),
    CLAUSE("thereare", "free", FREE, true), /* XLA */
    CLAUSE("allocationofsize", "", TRIED, false),
    CLAUSE("memoryofsize:", "", TRIED, false),
    CLAUSE("memoryofsize", "", TRIED, false),
    CLAUSE("requestedbytesof", "", TRIED, false),
    CLAUSE("cudacalloc", "", TRIED, true),
    CLAUSE("cudacallocasync", "", TRIED, true),
    CLAUSE("cudamalloc", "", TRIED, true),
};

const size_t vw__error_clause_count = sizeof vw__error_clauses / sizeof *vw__error_clauses;

const vw__error_clause vw__loose_error_clauses[] = {
    CLAUSE("", "reserved", RESERVED, true),
    CLAUSE("reserved", "", RESERVED, true),
    CLAUSE("reserved:", "", RESERVED, true),
    CLAUSE("reserved=", "", RESERVED, true),
    CLAUSE("reservedis", "", RESERVED, true),
    CLAUSE("reservedmemory:", "", RESERVED, true),
    CLAUSE("", "allocated", ALLOCATED, true),
    CLAUSE("", "isallocated", ALLOCATED, true),
    CLAUSE("", "wereallocated", ALLOCATED, true),
    CLAUSE("allocated:", "", ALLOCATED, true),
    CLAUSE("allocated=", "", ALLOCATED, true),
    CLAUSE("allocatedmemory:", "", ALLOCATED, true),
    CLAUSE("", "live", ALLOCATED, true),
    CLAUSE("", "ofwhich", NONE, true),
    CLAUSE("", "available", FREE, true),
    CLAUSE("", "isavailable", FREE, true),
    CLAUSE("", "areavailable", FREE, true),
    CLAUSE("available:", "", FREE, true),
    CLAUSE("butonly", "", FREE, true),
    CLAUSE("", "free", FREE, true),
    CLAUSE("", "isfree", FREE, true),
    CLAUSE("", "arefree", FREE, true),
    CLAUSE("", "wasfree", FREE, true),
    CLAUSE("", "werefree", FREE, true),
    CLAUSE("free:", "", FREE, true),
    CLAUSE("free=", "", FREE, true),
    CLAUSE("", "left", FREE, true),
    CLAUSE("", "remaining", FREE, true),
    CLAUSE("", "total", TOTAL, true),
    CLAUSE("", "capacity", TOTAL, true),
    CLAUSE("total:", "", TOTAL, true),
    CLAUSE("total=", "", TOTAL, true),
    CLAUSE("capacityof", "", TOTAL, true),
    CLAUSE("capacity:", "", TOTAL, true),
    CLAUSE("", "card", TOTAL, true),
    CLAUSE("", "allowed", ALLOWED, true),
    CLAUSE("limitof", "", ALLOWED, true),
    CLAUSE("requested", "", TRIED, true),
    CLAUSE("", "requested", TRIED, true),
    CLAUSE("", "asked", TRIED, true),
    CLAUSE("askedfor", "", TRIED, true),
    CLAUSE("requestfor", "", TRIED, true),
    CLAUSE("requestof", "", TRIED, true),
    CLAUSE("tried:", "", TRIED, true),
};

const size_t vw__loose_error_clause_count =
    sizeof vw__loose_error_clauses / sizeof *vw__loose_error_clauses;

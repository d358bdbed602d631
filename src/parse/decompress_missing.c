/* decompress_missing.c - the error of a build that lacks a library. */
#include "parse/decompress.h"

#include "base/error.h"

#ifndef VW_HAS_ZLIB
vw_status vw__decompress_gzip_create(vw__decompress_stream **out)
{
    *out = NULL;
    return vw__fail(VW_ERR_UNSUPPORTED, "it is compressed with gzip, and this build has no zlib");
}
#endif

#ifndef VW_HAS_LZMA
vw_status vw__decompress_xz_create(vw__decompress_stream **out)
{
    *out = NULL;
    return vw__fail(VW_ERR_UNSUPPORTED, "it is compressed with xz, and this build has no liblzma");
}
#endif

#ifndef VW_HAS_ZSTD
vw_status vw__decompress_zstd_create(vw__decompress_stream **out)
{
    *out = NULL;
    return vw__fail(VW_ERR_UNSUPPORTED,
                    "it is compressed with zstd, and this build has no libzstd");
}
#endif

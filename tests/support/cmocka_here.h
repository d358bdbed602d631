/* cmocka_here.h - cmocka and the headers that it needs. */
#ifndef VW_TESTS_CMOCKA_HERE_H
#define VW_TESTS_CMOCKA_HERE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#endif

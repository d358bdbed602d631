/* cmocka_here.h - cmocka, and what it wants included before it. */
#ifndef VW_TESTS_CMOCKA_HERE_H
#define VW_TESTS_CMOCKA_HERE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#endif

/* What every unit test includes; cmocka wants these headers first. */
#ifndef TM_TEST_H
#define TM_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/err.h"

/* Fails with the error's own words. */
#define assert_ok(call, err) do { \
	int rc_ = (call); \
	if (rc_) fail_msg("%s: %d: %s:%u: %s", #call, rc_, (err)->file, (err)->line, (err)->text); \
} while (0)

#endif

/* Any bytes that are no JSON: pickles, packed files, and what is neither. */
#include "snapshot_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	if (n && data[0] != '{' && data[0] != '[')
		check_snapshot(data, n);
	return 0;
}

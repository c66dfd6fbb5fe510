/*
 * The CPU device as a part of the program: for the portable build, which
 * loads nothing, and for tests.
 */
#include "device/cpu/cpu.h"

__attribute__((constructor))
static void register_cpu(void)
{
	device_register(&device_cpu);
}

/* The library in place of NVML, and its script. */
#ifndef TM_TEST_CARD_KIT_H
#define TM_TEST_CARD_KIT_H

#include "test.h"

#include "base/file.h"

#include <unistd.h>

static char kit_dir[] = "/tmp/tm-card-XXXXXX", kit_script_path[64];

/* Two cards that are free, of which the second is the slower one. */
#define KIT_H200 "card GPU-11111111-2222-3333-4444-555555555555 00000000:1A:00.0 143771 NVIDIA H200\n" \
	"capability 9 0\nmax 1980\nclock 1980\nmemclock 3201\npower 312.5\nlimit 700\nenergy 500\ntemperature 41\n" \
	"ecc 1\npersistence 1\nused 4\ngpm 0.5 0.25 0.125\n"
#define KIT_T4 "card GPU-99999999-2222-3333-4444-555555555555 00000000:3B:00.0 15360 Tesla T4\n" \
	"capability 7 5\nmax 1590\nclock 1590\nmemclock 5001\npower 30\nlimit 70\ntemperature 35\n"
#define KIT_DRIVER "driver 580.159.04\ncuda 13000\n"

static inline void kit_script(const char *text)
{
	struct tm_err err = { 0 };

	assert_ok(tm_write_file(kit_script_path, text, strlen(text), &err), &err);
}

static inline void kit_begin(void)
{
	if (!mkdtemp(kit_dir))
		exit(1);
	snprintf(kit_script_path, sizeof kit_script_path, "%s/script", kit_dir);
	setenv("TIDEMARK_NVML", BUILD_DIR "/fake_nvml.so", 1);
	setenv("FAKE_NVML", kit_script_path, 1);
	setenv("TIDEMARK_LOCK_DIR", kit_dir, 1);
	unsetenv("CUDA_VISIBLE_DEVICES");
	unsetenv("CUDA_DEVICE_ORDER");
}

#endif

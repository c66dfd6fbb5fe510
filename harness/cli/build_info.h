/* What this program was built from; the definition is generated (cmake/BuildInfo.cmake). */
#ifndef TM_BUILD_INFO_H
#define TM_BUILD_INFO_H

#include <stdint.h>

struct build_info {
	const char *version, *commit, *branch, *compiler, *flags;
	int dirty;
	int64_t commit_us;
};
extern const struct build_info build_info;

/* What `tidemark-work --describe` printed at build time. */
extern const char description_json[];

#endif

/* The command that repeats one configuration. */
#ifndef TM_COMMAND_LINE_H
#define TM_COMMAND_LINE_H

#include "base/str.h"
#include "spec/spec.h"

/*
 * Appends `tidemark run WORKLOAD -s name=value …` with the parameters that
 * differ from their defaults, quoted for a POSIX shell. params: canonical
 * JSON; measure may be NULL.
 */
void command_line_of(const struct describe *d, const char *workload, const char *params,
		     const struct spec_measure *measure, struct tm_str *out);

#endif

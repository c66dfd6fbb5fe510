/* The flags that run and plan share, turned into a spec request. */
#ifndef TM_REQUEST_H
#define TM_REQUEST_H

#include "cli/cli.h"
#include "spec/spec.h"

#define REQUEST_OPT_N 16
#define REQUEST_HELP_SPEC \
	"SPEC is a YAML file (docs/spec.md) or the name of a workload.\n\n" \
	"  -s NAME=VALUE        set a parameter; a dotted path starts at the root (-s limits.wall=60s)\n" \
	"  -a NAME=V1,V2        an axis; NAME=LO:HI:STEP is a range, ends included\n" \
	"  --only EXPR          keep the points for which EXPR holds; --skip drops them\n"
#define REQUEST_HELP_REST \
	"  --cap SIZE           limit of device memory (-s cap=SIZE)\n" \
	"  --reps N, --seed N, --order interleaved|listed\n" \
	"  --limit KEY=V        wall, silent, host or sweep\n" \
	"  --max-points N       refuse a larger sweep (10,000)\n" \
	"  --label KEY=V        a note kept with the sweep\n" \
	"  --out FILE           the answer to a file instead of stdout\n"

struct request {
	struct cli_list set, axis, limit, label;
	const char *only, *skip, *reps, *seed, *order, *device, *cap, *max_points, *out;
};

/* Writes its options into opts (room for REQUEST_OPT_N); returns how many. */
size_t request_options(struct request *r, struct cli_opt *opts);
void request_free(struct request *r);

/* The name of an option that changes the settings of a sweep and was given, or NULL. */
const char *request_changes(const struct request *r);

/*
 * Loads and expands the spec, asking the worker about impossible shapes;
 * prints every error but the last to stderr (that one is in cli->err) and
 * the warnings unless quiet.
 */
int request_load(struct cli *cli, const struct request *r, const char *spec_name, struct spec **out);

/* Prints `text` to stdout or to r->out. */
int request_answer(struct cli *cli, const struct request *r, const struct tm_str *text);

#endif

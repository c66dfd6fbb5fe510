#include "snapshot/recording.h"

#include "base/mem.h"
#include "snapshot/json.h"
#include "snapshot/pickle.h"
#include "snapshot/sniff.h"
#include "snapshot/trace_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const pickle_format[] = {
	[2] = "pickle 2", [3] = "pickle 3", [4] = "pickle 4", [5] = "pickle 5",
};

void recording_free(struct recording *r)
{
	if (!r)
		return;
	for (size_t i = 0; i < r->warning_n; i++)
		free(r->warnings[i]);
	free(r->warnings);
	free(r->path);
	free(r->events);
	free(r->segments);
	free(r->blocks);
	free(r->streams);
	free(r->pools);
	free(r->frames);
	free(r->stacks);
	free(r->stack_frames);
	free(r->notes);
	free(r->settings.conf);
	free(r->recorded_by);
	snap_arena_free(r->arena);
	free(r);
}

static int read_values(struct snap_build *b, enum snap_format format, struct snap_value *result, struct recording *r)
{
	int protocol = 0, rc;
	bool cut = false;

	switch (format) {
	case SNAP_PICKLE:
		rc = snap_pickle_read(b, result, &protocol);
		if (!rc)
			r->format = pickle_format[protocol];
		break;
	case SNAP_JSON:
		r->format = "json";
		rc = snap_json_read(b, result);
		break;
	default:
		r->format = "tidemark trace";
		rc = snap_trace_read(b, result, &cut);
		if (!rc && cut)
			snap_warn(r, "the trace has no closing line: the run did not end, and what came last may be missing");
	}
	return rc;
}

int snap_read(struct snap_input *in, int device, uint64_t max_bytes, struct recording **out, struct tm_err *err)
{
	struct recording *r = tm_xcalloc(1, sizeof *r);
	struct snap_value result = { 0 };
	enum snap_format format;
	struct snap_build b;
	uint64_t left;
	bool zero;
	int rc;

	snap_build_init(&b, in, max_bytes, err);
	r->path = tm_xstrdup(in->path);
	rc = snap_sniff(in, &format, err);
	if (!rc)
		rc = read_values(&b, format, &result, r);
	if (!rc)
		rc = snap_input_drain(in, &left, &zero, err);
	if (!rc && !zero && format == SNAP_PICKLE)
		snap_warn(r, "%llu bytes behind the end of the snapshot were not looked at", (unsigned long long)left);
	if (!rc)
		rc = snap_finish(&b, &result, device, r);
	if (!rc) {
		snap_input_sha(in, r->sha);
		r->recorded_by = tm_xstrdup(format == SNAP_TRACE ? "Tidemark" : "PyTorch (version not recorded)");
		*out = r;
		r = NULL;
	}
	snap_build_free(&b);
	recording_free(r);
	return rc;
}

int recording_read(const char *path, int device, const struct recording_limits *limits,
		   struct recording **out, struct tm_err *err)
{
	struct snap_input in;
	int rc = snap_input_open(&in, path, err);

	if (rc)
		return rc;
	rc = snap_read(&in, device, limits ? limits->max_bytes : 0, out, err);
	snap_input_close(&in);
	return rc;
}

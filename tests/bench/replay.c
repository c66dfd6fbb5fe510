/*
 * Replays against what was measured, and against the clock:
 *
 *   bench-replay truth FOLDER            FOLDER/truth.jsonl, each row under its conf and cap
 *   bench-replay exact FILE… [--cut PERCENT]
 *   bench-replay speed FILE              what-if under 20 settings, smallest caps under 8
 *
 * truth.jsonl has one object a row: workload (FOLDER/WORKLOAD.pickle.xz), conf,
 * cap_gib, ooms_caught, and the statistics that PyTorch reported at the end.
 */
#include "base/json.h"
#include "base/mem.h"
#include "replay/replay.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TOTAL_BYTES 150109880320ull       /* of the card of the measurements */

static const char *const stats[] = {
	"reserved_bytes.all.peak", "segment.all.peak", "num_device_alloc", "num_device_free", "num_alloc_retries",
	"allocated_bytes.all.peak", "active_bytes.all.peak", "requested_bytes.all.peak", "inactive_split_bytes.all.peak",
	"reserved_bytes.all.current", "allocated_bytes.all.current", "allocation.all.allocated", "num_ooms",
	"reserved_bytes.small_pool.peak", "reserved_bytes.large_pool.peak",
};
#define STAT_N TM_ARRAY_N(stats)
#define STAT_CORE 5                       /* the first ones must agree in every row */

struct recording_here {
	char path[4096];
	struct recording *r;
	struct replay *replay;
};

static void fail(const struct tm_err *err)
{
	fprintf(stderr, "%s%s%s\n", err->file, *err->file ? ": " : "", err->text);
	exit(1);
}

static struct recording_here *opened(const char *path, double cut)
{
	static struct recording_here here[16];
	struct tm_err err = { 0 };
	size_t i = 0, skip;

	while (i < TM_ARRAY_N(here) - 1 && here[i].r && (strcmp(here[i].path, path) || cut > 0))
		i++;
	if (here[i].r)
		return &here[i];
	snprintf(here[i].path, sizeof here[i].path, "%s", path);
	if (recording_read(path, -1, NULL, &here[i].r, &err))
		fail(&err);
	skip = (size_t)((double)here[i].r->event_n * cut);
	memmove(here[i].r->events, here[i].r->events + skip, (here[i].r->event_n - skip) * sizeof *here[i].r->events);
	here[i].r->event_n -= skip;
	if (replay_new(here[i].r, &here[i].replay, &err))
		fail(&err);
	return &here[i];
}

/* ---- truth ---------------------------------------------------------------------- */

struct got {
	json_int_t value[STAT_N];
};

static void take(void *arg, const char *name, int64_t value)
{
	struct got *got = arg;

	for (size_t i = 0; i < STAT_N; i++)
		if (strcmp(stats[i], name) == 0)
			got->value[i] = value;
}

struct tally {
	unsigned rows, core, all, ooms, oomed, bad;
};

static void judge(const char *folder, const json_t *row, struct tally *tally)
{
	const char *workload = tm_json_str(row, "workload", ""), *conf = tm_json_str(row, "conf", "");
	double cap = tm_json_real(row, "cap_gib", 0);
	int64_t caught = tm_json_i64(row, "ooms_caught", 0);
	struct replay_setting setting = {
		.policy = "caching", .conf = conf, .mode = REPLAY_WHAT_IF, .cap_bytes = (uint64_t)(cap * 0x1p30),
		.total_bytes = TOTAL_BYTES,
	};
	struct replay_result result;
	struct tm_err err = { 0 };
	struct got got = { 0 };
	unsigned equal = 0, core = 0;
	char path[4096];

	if (strstr(conf, "backend:cudaMallocAsync"))
		return;
	snprintf(path, sizeof path, "%s/%s.pickle.xz", folder, workload);
	if (replay_run_stats(opened(path, 0)->replay, &setting, &result, take, &got, &err))
		fail(&err);
	printf("%-8s %4g  %-80s ", workload, cap, conf);
	if (caught) {
		tally->ooms++;
		tally->oomed += !result.completes;
		printf("%s\n", result.completes ? "COMPLETES, but ran out" : "runs out too");
		return;
	}
	for (size_t i = 0; i < STAT_N; i++) {
		bool same = got.value[i] == tm_json_i64(row, stats[i], -1);

		equal += same;
		core += same && i < STAT_CORE;
	}
	tally->rows++;
	tally->core += core == STAT_CORE;
	tally->all += equal == STAT_N;
	printf("%s, %u of %zu equal%s\n", core == STAT_CORE ? "core equal" : "CORE DIFFERS", equal, STAT_N,
	       result.completes ? "" : ", RUNS OUT");
	tally->bad += !result.completes;
	for (size_t i = 0; i < STAT_N; i++) {
		int64_t truth = tm_json_i64(row, stats[i], -1);

		if (got.value[i] != truth)
			printf("    %-30s %15lld, measured %15lld (%+.4f %%)\n", stats[i], (long long)got.value[i],
			       (long long)truth, 100.0 * ((double)got.value[i] / (double)truth - 1));
	}
}

static int truth(const char *folder)
{
	struct tally tally = { 0 };
	char path[4096], line[8192];
	FILE *f;

	snprintf(path, sizeof path, "%s/truth.jsonl", folder);
	f = fopen(path, "r");
	if (!f) {
		perror(path);
		return 1;
	}
	while (fgets(line, sizeof line, f)) {
		struct tm_err err = { 0 };
		json_t *row = NULL;

		if (tm_json_parse(line, strlen(line), &row, &err))
			fail(&err);
		judge(folder, row, &tally);
		json_decref(row);
	}
	fclose(f);
	printf("%u rows: %u equal in reserved, segments, driver calls and retries, %u in all %zu statistics; %u of %u rows that ran out run out\n",
	       tally.rows, tally.core, tally.all, STAT_N, tally.oomed, tally.ooms);
	return tally.core == tally.rows && tally.oomed == tally.ooms && !tally.bad ? 0 : 1;
}

/* ---- exact ---------------------------------------------------------------------- */

static bool whole(double share)
{
	return isnan(share) || share == 1;
}

static int exact(const char *path, double cut)
{
	const struct replay_setting setting = { .policy = "caching", .mode = REPLAY_EXACT };
	struct recording_here *here = opened(path, cut);
	const struct replay_facts *facts = replay_facts(here->replay);
	struct replay_result result;
	struct tm_err err = { 0 };
	bool good;

	if (replay_run(here->replay, &setting, &result, &err))
		fail(&err);
	good = whole(result.exact_address_share) && whole(result.exact_segment_share) && whole(result.exact_block_share);
	printf("%s cut %.0f%%: %s addresses %.6f of %llu, segment events %.6f of %zu, final blocks %.6f; before %llu, inferred %llu, slack %llu, undecided %llu, unmatched %llu, reserved end %llu\n",
	       path, cut * 100, good ? "identical" : "DIFFERS", result.exact_address_share,
	       (unsigned long long)facts->requests, result.exact_segment_share, here->r->segment_n,
	       result.exact_block_share, (unsigned long long)facts->before_n, (unsigned long long)facts->inferred_blocks,
	       (unsigned long long)facts->slack_blocks, (unsigned long long)facts->undecided_blocks,
	       (unsigned long long)facts->unmatched_frees, (unsigned long long)result.reserved_end);
	if (!good)
		printf("    first difference at event %lld\n", (long long)result.first_difference);
	return !good;
}

/* ---- speed ----------------------------------------------------------------------- */

static const char *const confs[] = {
	"", "expandable_segments:True", "max_split_size_mb:64", "max_split_size_mb:128", "max_split_size_mb:256",
	"max_split_size_mb:512", "roundup_power2_divisions:4", "garbage_collection_threshold:0.8",
	"roundup_power2_divisions:2", "roundup_power2_divisions:8", "roundup_power2_divisions:16", "max_split_size_mb:32",
	"max_split_size_mb:1024", "large_segment_size_mb:12", "large_segment_size_mb:40",
	"expandable_segments:True,roundup_power2_divisions:4", "max_split_size_mb:128,roundup_power2_divisions:4",
	"garbage_collection_threshold:0.6", "garbage_collection_threshold:0.8,max_split_size_mb:128",
	"expandable_segments:True,large_segment_size_mb:40",
};

/* Processor time: others may use the machine. */
static double used(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int speed(const char *path)
{
	double begin = used(), read, at, all;
	struct recording_here *here = opened(path, 0);
	struct replay_setting setting = { .policy = "caching", .mode = REPLAY_WHAT_IF };
	struct replay_result result;
	struct tm_err err = { 0 };

	read = used() - begin;
	for (size_t i = 0; i < TM_ARRAY_N(confs); i++) {
		setting.conf = confs[i];
		at = used();
		if (replay_run(here->replay, &setting, &result, &err))
			fail(&err);
		printf("%-58s %7.2f M events/s, reserved %llu\n", confs[i], (double)result.events / (used() - at) * 1e-6,
		       (unsigned long long)result.reserved_peak);
	}
	printf("reading and preparing %.3f s, with %zu settings %.3f s\n", read, TM_ARRAY_N(confs), used() - begin);
	all = used();
	for (size_t i = 0; i < 8; i++) {
		uint64_t cap;
		bool monotone;

		setting.conf = confs[i];
		if (replay_min_cap(here->replay, &setting, &cap, &monotone, &err))
			fail(&err);
		printf("%-58s smallest cap %llu MiB%s\n", confs[i], (unsigned long long)cap >> 20, monotone ? "" : ", not monotone");
	}
	printf("smallest caps of 8 settings %.3f s\n", used() - all);
	return 0;
}

int main(int argc, char **argv)
{
	double cut = 0;
	int bad = 0;

	if (argc > 4 && strcmp(argv[argc - 2], "--cut") == 0) {
		cut = strtod(argv[argc - 1], NULL) / 100;
		argc -= 2;
	}
	if (argc == 3 && strcmp(argv[1], "truth") == 0)
		return truth(argv[2]);
	if (argc == 3 && strcmp(argv[1], "speed") == 0)
		return speed(argv[2]);
	for (int i = 2; i < argc && strcmp(argv[1], "exact") == 0; i++)
		bad |= exact(argv[i], cut);
	return argc < 3 ? 64 : bad;
}

/* Real recordings against what PyTorch measured under other settings (tests/data/truth). */
#include "kit.h"

#include "base/json.h"

#include <math.h>

#define FOLDER TESTS_DIR "/data/truth/"
#define TOTAL_BYTES 150109880320ull

static const char *const stats[] = {
	"reserved_bytes.all.peak", "segment.all.peak", "num_device_alloc", "num_device_free", "num_alloc_retries", "num_ooms",
	"requested_bytes.all.peak", "reserved_bytes.all.current", "reserved_bytes.small_pool.peak",
	"reserved_bytes.large_pool.peak", "allocation.all.allocated",
	/* which of equal blocks is taken moves these by what a block may be larger than its request */
	"allocated_bytes.all.peak", "active_bytes.all.peak", "allocated_bytes.all.current", "inactive_split_bytes.all.peak",
};
#define STAT_N TM_ARRAY_N(stats)
#define FIRST_TIED 11

struct got {
	int64_t value[STAT_N];
	unsigned n;
};

static void take(void *arg, const char *name, int64_t value)
{
	struct got *got = arg;

	for (size_t i = 0; i < STAT_N; i++)
		if (strcmp(stats[i], name) == 0) {
			got->value[i] = value;
			got->n++;
		}
}

static struct recording *opened(const char *workload)
{
	struct recording *r;
	struct tm_err err = { 0 };
	char path[4096];

	snprintf(path, sizeof path, FOLDER "%s.pickle.xz", workload);
	assert_ok(recording_read(path, -1, NULL, &r, &err), &err);
	return r;
}

/* True: equal in every figure. */
static bool check_row(const json_t *row)
{
	const char *conf = tm_json_str(row, "conf", NULL), *workload = tm_json_str(row, "workload", NULL);
	struct recording *r = opened(workload);
	struct replay *replay = kit_replay(r);
	const struct replay_setting setting = {
		.policy = "caching", .conf = conf, .mode = REPLAY_WHAT_IF, .total_bytes = TOTAL_BYTES,
	};
	struct replay_result result;
	struct got got = { 0 };
	struct tm_err err = { 0 };
	bool equal = true;

	assert_ok(replay_run_stats(replay, &setting, &result, take, &got, &err), &err);
	assert_int_equal(got.n, STAT_N);
	assert_true(result.completes);
	for (size_t i = 0; i < STAT_N; i++) {
		int64_t truth = tm_json_i64(row, stats[i], -1);
		double off = fabs((double)got.value[i] / (double)truth - 1);

		if (got.value[i] == truth)
			continue;
		equal = false;
		if (i < FIRST_TIED || off > (i == STAT_N - 1 ? 0.024 : 0.0007))
			fail_msg("%s under \"%s\": %s is %lld, measured %lld", workload, conf, stats[i], (long long)got.value[i],
				 (long long)truth);
	}
	replay_free(replay);
	recording_free(r);
	return equal;
}

static void test_truth(void **state)
{
	FILE *f = fopen(FOLDER "truth.jsonl", "r");
	unsigned rows = 0, equal = 0;
	char line[8192];

	(void)state;
	assert_non_null(f);
	while (fgets(line, sizeof line, f)) {
		struct tm_err err = { 0 };
		json_t *row;

		assert_ok(tm_json_parse(line, strlen(line), &row, &err), &err);
		equal += check_row(row);
		rows++;
		json_decref(row);
	}
	fclose(f);
	assert_int_equal(rows, 18);
	assert_true(equal >= 17);
}

static void test_exact(void **state)
{
	static const char *const workloads[] = { "streams", "steady", "ckpt" };
	static const unsigned cuts[] = { 0, 30, 60 };

	(void)state;
	for (size_t w = 0; w < TM_ARRAY_N(workloads); w++)
		for (size_t c = 0; c < TM_ARRAY_N(cuts); c++) {
			struct recording *r = opened(workloads[w]);
			struct replay *replay;
			struct replay_result result;

			kit_cut(r, r->event_n * cuts[c] / 100);
			replay = kit_replay(r);
			result = kit_pass(replay, (struct replay_setting){ .mode = REPLAY_EXACT });
			assert_true(result.exact_address_share == 1);
			assert_true(result.exact_block_share == 1);
			assert_true(isnan(result.exact_segment_share) || result.exact_segment_share == 1);
			assert_int_equal(replay_facts(replay)->unmatched_frees, 0);
			replay_free(replay);
			recording_free(r);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_truth),
		cmocka_unit_test(test_exact),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Settings as an option string, the other way round than memory/conf.h. */
#include "replay.h"

#include "base/num.h"

static void add_key(struct tm_str *out, const char *key)
{
	if (out->n)
		tm_str_addc(out, ',');
	tm_str_add(out, key);
	tm_str_addc(out, ':');
}

static void add_mib(struct tm_str *out, const char *key, uint64_t bytes, uint64_t usual)
{
	if (bytes == usual)
		return;
	add_key(out, key);
	tm_str_addf(out, "%llu", (unsigned long long)bytes >> 20);
}

static void add_true(struct tm_str *out, const char *key, bool value)
{
	if (!value)
		return;
	add_key(out, key);
	tm_str_add(out, "True");
}

/* One number where all are equal; else each interval by its lower end in MiB. */
static void add_roundup(struct tm_str *out, const uint64_t *roundup)
{
	bool equal = true, any = false;

	for (int i = 0; i < CONF_ROUNDUP_N; i++) {
		equal &= roundup[i] == roundup[0];
		any |= roundup[i] > 1;
	}
	if (!any)
		return;
	add_key(out, "roundup_power2_divisions");
	if (equal) {
		tm_str_addf(out, "%llu", (unsigned long long)roundup[0]);
		return;
	}
	for (int i = 0; i < CONF_ROUNDUP_N; i++)
		tm_str_addf(out, "%c%u:%llu", i ? ',' : '[', 1u << i, (unsigned long long)roundup[i]);
	tm_str_addc(out, ']');
}

void replay_spell(const struct conf *conf, struct tm_str *out)
{
	struct conf usual;

	conf_default(&usual);
	if (conf->backend == CONF_ASYNC)
		tm_str_add(out, "backend:cudaMallocAsync");
	add_true(out, "expandable_segments", conf->expandable);
	add_mib(out, "large_segment_size_mb", conf->large_segment_bytes, usual.large_segment_bytes);
	add_mib(out, "max_split_size_mb", conf->max_split_bytes, usual.max_split_bytes);
	add_mib(out, "max_non_split_rounding_mb", conf->max_non_split_rounding_bytes, conf->large_segment_bytes);
	if (conf->gc_threshold > 0) {
		add_key(out, "garbage_collection_threshold");
		tm_add_double(out, conf->gc_threshold);
	}
	add_roundup(out, conf->roundup);
	if (conf->fraction < 1) {
		add_key(out, "per_process_memory_fraction");
		tm_add_double(out, conf->fraction);
	}
	add_true(out, "throw_on_cudamalloc_oom", conf->throw_on_oom);
}

/* Questions that only the program's owner can answer, and how far to trust the figures. */
#include "judge/replay_rules.h"

#include "base/json.h"

#include <string.h>

static bool advises_expandable(const struct look *l)
{
	return l->best != REPLAY_NONE && l->best != l->base && look_is_expandable(look_effective(l, l->best)) && !look_is_expandable(look_effective(l, l->base));
}

double rule_shares_tensors(const struct look *l, struct tm_str *out)
{
	if (!advises_expandable(l))
		return -1;
	tm_str_add(out, "Does it pass CUDA tensors to other processes (torch.multiprocessing, CUDA IPC), or register buffers for RDMA? "
		   "Expandable segments need support for that from driver, platform and library; try that part first.");
	return 0;
}

double rule_uses_sleep_mode(const struct look *l, struct tm_str *out)
{
	if (!advises_expandable(l))
		return -1;
	tm_str_add(out, "Does it use torch.cuda.MemPool with an allocator of its own, as the sleep mode of inference servers does? "
		   "The two exclude each other there.");
	return 0;
}

double rule_calls_stop(const struct look *l, struct tm_str *out)
{
	if (l->best == REPLAY_NONE || !replay_is_dear(l->c, l->best))
		return -1;
	tm_str_addf(out, "How fast is it then? %.0f driver calls instead of %.0f can cost more time than the memory is worth; measure some steps.",
		    replay_calls(l->c, l->best), replay_calls(l->c, l->base));
	return 0;
}

double rule_rules_and_version(const struct look *l, struct tm_str *out)
{
	tm_str_addf(out, "Rules of PyTorch 2.11; the recording is from %s. What a program does after an out-of-memory of its own is another path, "
		    "which a recording cannot tell.", tm_json_str(l->c->recording, "recorded_by", "an unknown version"));
	return 0;
}

double rule_is_truncated(const struct look *l, struct tm_str *out)
{
	if (strcmp(tm_json_str(l->c->recording, "confidence", ""), "truncated"))
		return -1;
	tm_str_add(out, "The recording is truncated: its ring overflowed and the beginning is lost, with any peak in it. "
		   "Record again with a larger max_entries.");
	return 0;
}

double rule_is_inferred(const struct look *l, struct tm_str *out)
{
	int64_t n = tm_json_i64(l->c->recording, "inferred_blocks", 0);

	if (!n && strcmp(tm_json_str(l->c->recording, "confidence", ""), "inferred"))
		return -1;
	tm_str_add(out, "The recording began with memory in use");
	if (n)
		tm_str_addf(out, "; the sizes of %lld block%s that lived then are inferred, each up to 1 MiB uncertain", (long long)n, n == 1 ? "" : "s");
	tm_str_add(out, ". Start recording before the model is built.");
	return 0;
}

double rule_not_monotone(const struct look *l, struct tm_str *out)
{
	for (size_t i = 0; i < json_array_size(l->c->settings); i++) {
		if (!replay_has(l->c, i) || !json_is_false(json_object_get(l->c->results[i], "min_cap_monotone")))
			continue;
		replay_setting_text(l->c, i, out);
		tm_str_add(out, ": near its minimum cap a larger cap fails again; the figure is the smallest from which all that were tried complete.");
		return 0;
	}
	return -1;
}

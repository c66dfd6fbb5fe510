/*
 * Every key of the option string with what may stand behind it. Numbers are
 * read as the C++ library reads them: a sign, digits, and whatever follows is
 * left lying.
 */
#include "memory/conf_priv.h"

#include "base/mem.h"
#include "base/num.h"

#include <errno.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB (1ull << 20)
#define GIB (1ull << 30)
#define LARGE_LEAST_MIB 10                /* a large segment is larger than what shares one at most */

static struct conf_word *word_of(struct conf_reader *r)
{
	return &r->word[r->i];
}

static void *field(struct conf_reader *r, const struct conf_key *key)
{
	return (char *)&r->conf + key->offset;
}

/* ---- words, numbers --------------------------------------------------------- */

/* i must be there; it may be a mark, which is no number. */
static int read_u64(struct conf_reader *r, const char *name, uint64_t *out)
{
	const struct conf_word *w = word_of(r);
	const char *p = w->s + (*w->s == '-' || *w->s == '+');
	uint64_t v = 0;

	if (*p < '0' || *p > '9')
		return conf_refuse(r, CONF_VALUE_ERROR, w->at, "%s: expected a whole number, got \"%.64s\"", name, w->s);
	for (; *p >= '0' && *p <= '9'; p++)
		if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, (uint64_t)(*p - '0'), &v))
			return conf_refuse(r, CONF_VALUE_ERROR, w->at, "%s: %.64s is beyond 64 bits", name, w->s);
	if (*w->s == '-' && v) {
		v = -v;
		conf_note(r, CONF_LENIENT, w->at, "%s: the negative number %.64s wraps around to %llu", name, w->s,
			  (unsigned long long)v);
	}
	if (*p)
		conf_note(r, CONF_LENIENT, w->at, "%s: \"%.64s\" is read as %llu; sizes here are whole MiB without a unit", name,
			  w->s, (unsigned long long)v);
	*out = v;
	return 0;
}

static int read_share(struct conf_reader *r, const char *name, double *out)
{
	const struct conf_word *w = word_of(r);
	static locale_t plain;
	char *end, text[32];
	double v = 0;

	if (!plain)
		plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
	errno = 0;
	v = strtod_l(w->s, &end, plain);
	if (end == w->s)
		return conf_refuse(r, CONF_VALUE_ERROR, w->at, "%s: expected a number, got \"%.64s\"", name, w->s);
	if (errno == ERANGE)
		return conf_refuse(r, CONF_VALUE_ERROR, w->at, "%s: %.64s is beyond what a double holds", name, w->s);
	if (*end) {
		struct tm_str s = TM_STR_INIT;

		tm_add_double(&s, v);
		snprintf(text, sizeof text, "%s", s.s);
		tm_str_free(&s);
		conf_note(r, CONF_LENIENT, w->at, "%s: \"%.64s\" is read as %s", name, w->s, text);
	}
	*out = v;
	return 0;
}

static int read_bool(struct conf_reader *r, const struct conf_key *key)
{
	const struct conf_word *w = word_of(r);
	bool *out = field(r, key);

	if (strcmp(w->s, "True") != 0 && strcmp(w->s, "False") != 0)
		return conf_refuse(r, CONF_VALUE_ERROR, w->at, "%s: expected True or False, got \"%.64s\"", key->name, w->s);
	*out = w->s[0] == 'T';
	return 0;
}

static bool is_power2(uint64_t v)
{
	return v && !(v & (v - 1));
}

/* MiB to bytes; what does not fit becomes the largest that does. */
static uint64_t mib(uint64_t v)
{
	return (v < UINT64_MAX / MIB ? v : UINT64_MAX / MIB) * MIB;
}

/* ---- keys ------------------------------------------------------------------- */

static int read_backend(struct conf_reader *r, const struct conf_key *key)
{
	const struct conf_word *w = word_of(r);

	(void)key;
	if (strcmp(w->s, "native") != 0 && strcmp(w->s, "cudaMallocAsync") != 0)
		return conf_refuse(r, CONF_VALUE_ERROR, w->at, "backend: expected native or cudaMallocAsync, got \"%.64s\"", w->s);
	r->conf.backend = w->s[0] == 'n' ? CONF_NATIVE : CONF_ASYNC;
	return 0;
}

/* Of max_split_size_mb and max_non_split_rounding_mb. */
static int read_at_least_large(struct conf_reader *r, const struct conf_key *key)
{
	uint64_t v, least = r->conf.large_segment_bytes / MIB, *out = field(r, key);
	int rc = read_u64(r, key->name, &v);

	if (rc)
		return rc;
	if (v < least)
		return conf_refuse(r, CONF_VALUE_ERROR, word_of(r)->at, "%s must be at least %llu (large_segment_size_mb), but is %llu",
				   key->name, (unsigned long long)least, (unsigned long long)v);
	*out = mib(v);
	return 0;
}

static int read_large_segment(struct conf_reader *r, const struct conf_key *key)
{
	uint64_t v;
	int rc = read_u64(r, key->name, &v);

	if (rc)
		return rc;
	if (v <= LARGE_LEAST_MIB)
		return conf_refuse(r, CONF_VALUE_ERROR, word_of(r)->at, "%s must be more than %d, but is %llu", key->name,
				   LARGE_LEAST_MIB, (unsigned long long)v);
	r->conf.large_segment_bytes = mib(v);
	return 0;
}

static int read_threshold(struct conf_reader *r, const struct conf_key *key)
{
	double v = 0;
	int rc = read_share(r, key->name, &v);

	if (rc)
		return rc;
	if (!(v > 0 && v < 1))
		return conf_refuse(r, CONF_VALUE_ERROR, word_of(r)->at, "%s must lie between 0 and 1, both excluded, but is \"%.64s\"",
				   key->name, word_of(r)->s);
	r->conf.gc_threshold = v;
	return 0;
}

static int read_fraction(struct conf_reader *r, const struct conf_key *key)
{
	double v = 0;
	int rc = read_share(r, key->name, &v);

	if (rc)
		return rc;
	if (!(v >= 0 && v <= 1))
		return conf_refuse(r, CONF_VALUE_ERROR, word_of(r)->at, "%s must lie between 0 and 1, but is \"%.64s\"", key->name,
				   word_of(r)->s);
	r->conf.fraction = v;
	return 0;
}

/* ---- roundup_power2_divisions ------------------------------------------------ */

struct roundup {
	unsigned last;                    /* index of the last size given */
	bool any;
	unsigned set;                     /* bit i: entry i was given or filled on purpose */
};

static int read_interval(struct conf_reader *r, struct roundup *state, size_t size_i, uint64_t divisions)
{
	const char *name = "roundup_power2_divisions";
	uint64_t *table = r->conf.roundup, size;
	size_t back = r->i;
	unsigned i;
	int rc;

	r->i = size_i;
	rc = read_u64(r, name, &size);
	r->i = back;
	if (rc)
		return rc;
	if (!is_power2(size))
		return conf_refuse(r, CONF_VALUE_ERROR, r->word[size_i].at, "%s: the size %llu is not a power of two (in MiB)", name,
				   (unsigned long long)size);
	i = 63u - (unsigned)__builtin_clzll(size);
	if (i > CONF_ROUNDUP_N - 1)
		i = CONF_ROUNDUP_N - 1;
	for (unsigned below = 0; below < i && !state->any; below++) {
		table[below] = divisions;
		state->set |= 1u << below;
	}
	table[i] = divisions;
	state->set |= 1u << i;
	state->last = i;
	state->any = true;
	return 0;
}

/* '>': all intervals behind the last one given. Before mid 2025 that one too. */
static void fill_rest(struct conf_reader *r, struct roundup *state, uint64_t divisions, bool from_last)
{
	for (unsigned i = state->last + !from_last; i < CONF_ROUNDUP_N; i++) {
		r->conf.roundup[i] = divisions;
		state->set |= 1u << i;
	}
}

static int read_pair(struct conf_reader *r, struct roundup *state)
{
	size_t size_i = r->i;
	uint64_t divisions;
	int rc;

	r->i++;
	rc = conf_separator(r, ":");
	if (rc)
		return rc;
	if (r->i >= r->n)
		return conf_refuse(r, CONF_ASSERTION, strlen(r->text), "roundup_power2_divisions: no value behind the size");
	rc = read_u64(r, "roundup_power2_divisions", &divisions);
	if (rc)
		return rc;
	if (divisions && !is_power2(divisions))
		return conf_refuse(r, CONF_VALUE_ERROR, word_of(r)->at, "roundup_power2_divisions: %llu is neither 0 nor a power of two",
				   (unsigned long long)divisions);
	if (!conf_is(r, size_i, ">"))
		return read_interval(r, state, size_i, divisions);
	fill_rest(r, state, divisions, conf_minor(r) < 8 || r->ctx->fill_from_last);
	return 0;
}

static void remark_gaps(struct conf_reader *r, size_t at, const struct roundup *state)
{
	for (unsigned i = 0; i < state->last; i++)
		if (!(state->set & 1u << i)) {
			conf_note(r, CONF_LENIENT, at, "roundup_power2_divisions: sizes from %u MiB are not rounded, since the list skips them",
				  1u << i);
			return;
		}
}

static int read_roundup_list(struct conf_reader *r)
{
	struct roundup state = { 0 };
	size_t at = word_of(r)->at;
	int rc;

	for (r->i++; r->i < r->n && !conf_is(r, r->i, "]"); r->i++) {
		rc = read_pair(r, &state);
		if (rc)
			return rc;
		if (r->i + 1 >= r->n)
			break;
		if (!conf_is(r, r->i + 1, "]")) {
			r->i++;
			rc = conf_separator(r, ",");
			if (rc)
				return rc;
			r->i--;           /* the loop goes on to the next size */
		}
	}
	if (!conf_is(r, r->i, "]"))
		return conf_refuse(r, CONF_ASSERTION, strlen(r->text), "roundup_power2_divisions: ']' is missing");
	remark_gaps(r, at, &state);
	return 0;
}

static int read_roundup(struct conf_reader *r, const struct conf_key *key)
{
	uint64_t v;
	int rc;

	if (conf_is(r, r->i, "["))
		return read_roundup_list(r);
	rc = read_u64(r, key->name, &v);
	if (rc)
		return rc;
	if (!is_power2(v))
		return conf_refuse(r, CONF_VALUE_ERROR, word_of(r)->at, "%s: %llu is not a power of two", key->name,
				   (unsigned long long)v);
	for (int i = 0; i < CONF_ROUNDUP_N; i++)
		r->conf.roundup[i] = v;
	return 0;
}

/* ---- address ranges ----------------------------------------------------------- */

/* A share of the device, or GiB with a G behind it. False: neither. */
static bool reserve_of(const char *s, double *share, uint64_t *bytes)
{
	size_t n = strlen(s);
	bool gib = n && (s[n - 1] == 'G' || s[n - 1] == 'g');
	char *number = tm_xstrndup(s, n - gib);
	double v = 0;
	bool good = !tm_parse_double(number, &v) && v > 0 && v < 1e9;

	free(number);
	if (good) {
		*share = gib ? 0 : v;
		*bytes = gib ? (uint64_t)(v * (double)GIB) : 0;
	}
	return good;
}

static int read_reserve(struct conf_reader *r, const struct conf_key *key)
{
	const struct conf_word *w = word_of(r);

	if (!reserve_of(w->s, &r->conf.reserve_share, &r->conf.reserve_bytes))
		conf_note(r, CONF_LENIENT, w->at, "%s: \"%.64s\" is neither a positive share nor GiB such as 64G; PyTorch warns and ignores it",
			  key->name, w->s);
	return 0;
}

/* Classes are given to streams by C++ code only, so nothing of it has an effect; bad entries are remarked. */
static int read_reserve_classes(struct conf_reader *r, const struct conf_key *key)
{
	double share;
	uint64_t bytes;

	if (!conf_is(r, r->i, "[")) {
		conf_note(r, CONF_LENIENT, word_of(r)->at, "%s: expected [name:value,…]; PyTorch warns and ignores it", key->name);
		return 0;
	}
	while (++r->i < r->n && !conf_is(r, r->i, "]"))
		if (conf_is(r, r->i, ":") && r->i + 1 < r->n && !reserve_of(r->word[r->i + 1].s, &share, &bytes))
			conf_note(r, CONF_LENIENT, r->word[r->i + 1].at, "%s: the entry \"%.64s\" is ignored with a warning", key->name,
				  r->word[r->i + 1].s);
	if (r->i >= r->n)
		return conf_refuse(r, CONF_ASSERTION, strlen(r->text), "%s: ']' is missing", key->name);
	return 0;
}

/* ---- pinned memory of the host -------------------------------------------------- */

static int read_threads(struct conf_reader *r, const struct conf_key *key)
{
	uint64_t v;
	int rc = read_u64(r, key->name, &v);

	if (rc)
		return rc;
	if (!is_power2(v) || v > 128)
		return conf_refuse(r, CONF_VALUE_ERROR, word_of(r)->at, "%s must be a power of two up to 128, but is %llu", key->name,
				   (unsigned long long)v);
	r->conf.pinned_threads = v;
	return 0;
}

static int read_pinned_reserve(struct conf_reader *r, const struct conf_key *key)
{
	uint64_t v;
	int rc = read_u64(r, key->name, &v);

	if (rc)
		return rc;
	if (!v)
		return conf_refuse(r, CONF_VALUE_ERROR, word_of(r)->at, "%s must be more than 0", key->name);
	r->conf.pinned_reserve_bytes = mib(v);
	return 0;
}

/* ---- the table ------------------------------------------------------------------- */

#define AT(member) .offset = offsetof(struct conf, member)
#define PINNED "it is about pinned host memory"
/* Releases by when their texts appeared: large segments in autumn 2025, limits and reserves in 2026 behind 2.11. */
#define MINOR_LARGE_SEGMENT 10
#define MINOR_NEXT 12

const struct conf_key conf_key[] = {
	{ .name = "backend", .read = read_backend },
	{ .name = "max_split_size_mb", .read = read_at_least_large, AT(max_split_bytes), .native_only = true },
	{ .name = "max_non_split_rounding_mb", .read = read_at_least_large, AT(max_non_split_rounding_bytes), .native_only = true },
	{ .name = "large_segment_size_mb", .read = read_large_segment, .since_minor = MINOR_LARGE_SEGMENT, .native_only = true },
	{ .name = "garbage_collection_threshold", .read = read_threshold, .native_only = true },
	{ .name = "roundup_power2_divisions", .read = read_roundup, .native_only = true },
	{ .name = "expandable_segments", .read = read_bool, AT(expandable), .native_only = true },
	{ .name = "expandable_segments_reserve", .read = read_reserve, .since_minor = MINOR_NEXT, .native_only = true },
	{ .name = "expandable_segments_reserve_by_class", .read = read_reserve_classes, .since_minor = MINOR_NEXT,
	  .native_only = true, .inert = "classes are given to streams by C++ code only" },
	{ .name = "per_process_memory_fraction", .read = read_fraction },
	{ .name = "throw_on_cudamalloc_oom", .read = read_bool, AT(throw_on_oom), .since_minor = MINOR_NEXT, .native_only = true },
	{ .name = "release_lock_on_cudamalloc", .alias = "release_lock_on_hipmalloc", .read = read_bool, AT(release_lock),
	  .native_only = true, .inert = "it is about several threads" },
	{ .name = "graph_capture_record_stream_reuse", .read = read_bool, AT(capture_reuse), .native_only = true,
	  .inert = "it is about blocks that other streams use while a graph is captured" },
	{ .name = "pinned_use_cuda_host_register", .alias = "pinned_use_hip_host_register", .read = read_bool,
	  AT(pinned_register), .inert = PINNED },
	{ .name = "pinned_num_register_threads", .read = read_threads, .inert = PINNED },
	{ .name = "pinned_use_background_threads", .read = read_bool, AT(pinned_background), .inert = PINNED },
	{ .name = "pinned_reserve_segment_size_mb", .read = read_pinned_reserve, .inert = PINNED },
	{ .name = "pinned_free_catch_all", .read = read_bool, AT(pinned_catch_all), .inert = PINNED },
};
const size_t conf_key_n = TM_ARRAY_N(conf_key);

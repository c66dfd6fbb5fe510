/*
 * How fast a large snapshot is read, and in how much memory. The file is made
 * here: a pickle of protocol 4 as CPython writes it (memo for every container
 * and text, frames, batches of 1000), of events with stacks, some shared.
 *
 *   snapshot make FILE BYTES SEED
 *   snapshot read FILE
 */
#include "base/clock.h"
#include "base/num.h"
#include "base/str.h"
#include "snapshot/recording.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define SLOTS 4096u                       /* blocks of SLOT_BYTES, each live or free */
#define SLOT_BYTES (2ull << 20)
#define BASE 0x7f0000000000ull
#define STACK_N 200u
#define STACK_FRAMES 24u

static FILE *out;
static uint64_t written, random_state;
static uint32_t memo_n;

static uint64_t draw(void)                /* splitmix64 */
{
	uint64_t z = random_state += 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

static void put(const void *p, size_t n)
{
	fwrite(p, 1, n, out);
	written += n;
}

static void op(uint8_t byte)
{
	put(&byte, 1);
}

static uint32_t memoize(void)
{
	op(0x94);
	return memo_n++;
}

static void get(uint32_t index)
{
	uint8_t s[5] = { 'h', (uint8_t)index };

	if (index > 255) {
		s[0] = 'j';
		memcpy(s + 1, &index, 4);
	}
	put(s, index > 255 ? 5 : 2);
}

static uint32_t text(const char *s)
{
	uint8_t head[2] = { 0x8c, (uint8_t)strlen(s) };

	put(head, 2);
	put(s, head[1]);
	return memoize();
}

static void number(uint64_t v)
{
	uint8_t s[11] = { 'K' };
	size_t n = 0;

	memcpy(s + 1, &v, 8);
	if (v < 256) {
		put(s, 2);
	} else if (v < 65536) {
		s[0] = 'M';
		put(s, 3);
	} else if (v < 1ull << 31) {
		s[0] = 'J';
		put(s, 5);
	} else {
		while (v >> n * 8)
			n++;
		n += v >> (n * 8 - 1) & 1;
		s[0] = 0x8a;
		s[1] = (uint8_t)n;
		memcpy(s + 2, &v, 8);
		put(s, n + 2);
	}
}

enum { ACTION, ADDR, SIZE, STREAM, TIME, CONTEXT, METADATA, FRAMES, KEY_N };
static uint32_t key[KEY_N], action[4], none, empty, frame[STACK_N * 4];

static void item(uint32_t k, uint32_t text_value)
{
	get(k);
	get(text_value);
}

/* A list of frames, each of which is known already. */
static uint32_t stack(void)
{
	uint32_t list, first = (uint32_t)(draw() % STACK_N);

	op(']');
	list = memoize();
	op('(');
	for (uint32_t i = 0; i < STACK_FRAMES; i++)
		get(frame[(first * 3 + i * (first % 7 + 1)) % (STACK_N * 4)]);
	op('e');
	return list;
}

/* shared: an older list; 0: a new one, which is returned. */
static uint32_t event(int kind, uint64_t slot, uint64_t size, uint64_t time, uint32_t shared)
{
	op('}');
	memoize();
	op('(');
	item(key[ACTION], action[kind]);
	get(key[ADDR]);
	number(BASE + slot * SLOT_BYTES);
	get(key[SIZE]);
	number(size);
	get(key[STREAM]);
	number(0);
	get(key[TIME]);
	number(time);
	item(key[CONTEXT], none);
	item(key[METADATA], empty);
	get(key[FRAMES]);
	if (shared)
		get(shared);
	else
		shared = stack();
	op('u');
	return shared;
}

/* Texts that CPython writes at their first use are written, and dropped, in front. */
static void texts(void)
{
	static const char *const names[KEY_N] = { "action", "addr", "size", "stream", "time_us", "compile_context", "user_metadata", "frames" };
	static const char *const actions[4] = { "alloc", "free_requested", "free_completed", "segment_alloc" };
	uint32_t filename, line, name;
	char s[64];

	for (int i = 0; i < KEY_N; i++)
		key[i] = (text(names[i]), op('0'), memo_n - 1);
	for (int i = 0; i < 4; i++)
		action[i] = (text(actions[i]), op('0'), memo_n - 1);
	none = (text("N/A"), op('0'), memo_n - 1);
	empty = (text(""), op('0'), memo_n - 1);
	filename = (text("filename"), op('0'), memo_n - 1);
	line = (text("line"), op('0'), memo_n - 1);
	name = (text("name"), op('0'), memo_n - 1);
	for (uint32_t i = 0; i < STACK_N * 4; i++) {
		op('}');
		frame[i] = memoize();
		op('(');
		get(name);
		snprintf(s, sizeof s, "layer_%u.forward", i);
		text(s);
		get(filename);
		snprintf(s, sizeof s, "/home/user/model/part_%u.py", i / 8);
		text(s);
		get(line);
		number(i * 7 % 900);
		op('u');
		op('0');
	}
}

static void segments(const uint64_t *live)
{
	static const char *const state[2] = { "inactive", "active_allocated" };
	uint64_t allocated = 0;

	for (uint32_t i = 0; i < SLOTS; i++)
		allocated += live[i] ? SLOT_BYTES : 0;
	text("segments");
	op(']');
	memoize();
	op('}');
	memoize();
	op('(');
	text("device"), number(0);
	text("address"), number(BASE);
	text("total_size"), number(SLOTS * SLOT_BYTES);
	text("allocated_size"), number(allocated);
	text("stream"), number(0);
	text("segment_type"), text("large");
	text("blocks");
	op(']');
	memoize();
	for (uint32_t i = 0; i < SLOTS; i++) {
		op('}');
		memoize();
		op('(');
		text("address"), number(BASE + i * SLOT_BYTES);
		text("size"), number(SLOT_BYTES);
		text("requested_size"), number(live[i] ? live[i] : 1);
		text("state"), text(state[live[i] != 0]);
		op('u');
		op('a');
	}
	op('u');
	op('a');
}

static int make(const char *path, uint64_t bytes, uint64_t seed)
{
	static uint64_t live[SLOTS];
	uint64_t time = 1772552894612373ull;
	uint8_t head[] = { 0x80, 4 };

	out = fopen(path, "wb");
	if (!out)
		return perror(path), 1;
	random_state = seed;
	put(head, 2);
	texts();
	op('}');
	memoize();
	op('(');
	text("device_traces");
	op(']');
	memoize();
	op(']');
	memoize();
	while (written < bytes) {
		op('(');
		for (int i = 0; i < 1000;) {
			uint64_t slot = draw() % SLOTS;

			time += draw() % 40;
			if (!live[slot]) {
				live[slot] = 1 + draw() % SLOT_BYTES;
				event(0, slot, live[slot], time, 0);
				i++;
			} else {
				uint32_t frames = event(1, slot, live[slot], time, 0);

				event(2, slot, live[slot], time, frames);
				live[slot] = 0;
				i += 2;
			}
		}
		op('e');
	}
	op('a');
	segments(live);
	op('u');
	op('.');
	printf("%s: %llu bytes\n", path, (unsigned long long)written);
	return fclose(out) != 0;
}

static int read_it(const char *path)
{
	struct recording *r;
	struct tm_err err = { 0 };
	struct rusage before, after;
	double wall, cpu, file;
	int64_t begin;

	getrusage(RUSAGE_SELF, &before);
	begin = tm_mono_us();
	if (recording_read(path, -1, NULL, &r, &err)) {
		fprintf(stderr, "%s: %s\n", err.file, err.text);
		return 1;
	}
	wall = (double)(tm_mono_us() - begin) / 1e6;
	getrusage(RUSAGE_SELF, &after);
	cpu = (double)(after.ru_utime.tv_sec - before.ru_utime.tv_sec + after.ru_stime.tv_sec - before.ru_stime.tv_sec) +
	      (double)(after.ru_utime.tv_usec - before.ru_utime.tv_usec + after.ru_stime.tv_usec - before.ru_stime.tv_usec) / 1e6;
	out = fopen(path, "rb");
	fseek(out, 0, SEEK_END);
	file = (double)ftell(out);
	fclose(out);
	printf("%zu events: %.2f s wall, %.2f s processor: %.0f MB/s; peak %.0f MB, %.2f times 40 bytes an event\n",
	       r->event_n, wall, cpu, file / 1e6 / cpu, (double)after.ru_maxrss * 1024 / 1e6,
	       (double)after.ru_maxrss * 1024 / (40.0 * (double)r->event_n));
	recording_free(r);
	return 0;
}

int main(int argc, char **argv)
{
	int64_t bytes, seed;

	if (argc == 5 && !strcmp(argv[1], "make") && !tm_parse_i64(argv[3], &bytes) && !tm_parse_i64(argv[4], &seed))
		return make(argv[2], (uint64_t)bytes, (uint64_t)seed);
	if (argc == 3 && !strcmp(argv[1], "read"))
		return read_it(argv[2]);
	fprintf(stderr, "usage: snapshot make FILE BYTES SEED | snapshot read FILE\n");
	return 64;
}

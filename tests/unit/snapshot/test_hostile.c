/*
 * Files that were made to hurt, and files that are something else: refused
 * with the reason, quickly, in bounded memory, without a leak (the sanitizer
 * build looks).
 */
#include "snapshot/kit.h"

#include "base/clock.h"

#include <sys/stat.h>
#include <zlib.h>
#include <zstd.h>

#define REFUSED(literal, words) assert_refused(literal, sizeof(literal) - 1, words)

/* Also with bytes behind it: near the end of a file opcodes are read another way. */
#define BEHIND "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
#define REFUSED_FAR(literal, words) do { \
	REFUSED(literal, words); \
	REFUSED(literal BEHIND, words); \
} while (0)

static void test_refused_opcodes(void **state)
{
	(void)state;
	REFUSED_FAR("\x80\x04" "cposix\nsystem\n.", "GLOBAL would import posix.system");
	REFUSED_FAR("\x80\x04\x8c\x0ctorch._utils\x8c\x12_rebuild_tensor_v2\x93.", "STACK_GLOBAL would import torch._utils._rebuild_tensor_v2: a memory snapshot has nothing to import, it looks like a model checkpoint");
	REFUSED("\x80\x02" "ccollections\nOrderedDict\n.", "model checkpoint");
	REFUSED("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.", "model checkpoint of an old PyTorch");
	REFUSED_FAR("\x80\x04NR.", "REDUCE");
	REFUSED_FAR("\x80\x04Nb.", "BUILD");
	REFUSED_FAR("\x80\x04(iposix\nsystem\n.", "INST would import posix.system");
	REFUSED_FAR("\x80\x04(o.", "OBJ");
	REFUSED_FAR("\x80\x04N\x81.", "NEWOBJ");
	REFUSED_FAR("\x80\x04N\x92.", "NEWOBJ_EX");
	REFUSED_FAR("\x80\x04Pid\n.", "PERSID");
	REFUSED_FAR("\x80\x04NQ.", "BINPERSID");
	REFUSED_FAR("\x80\x04\x82\x01.", "EXT1");
	REFUSED_FAR("\x80\x04\x83\x01\x02.", "EXT2");
	REFUSED_FAR("\x80\x04\x84\x01\x02\x03\x04.", "EXT4");
	REFUSED("\x80\x05\x97.", "NEXT_BUFFER");
	REFUSED_FAR("\x80\x04I1\n.", "protocol 0");
	REFUSED_FAR("\x80\x04\xff.", "0xff is no opcode");
	REFUSED("\x80\x06}.", "pickle protocol 6, expected 2 to 5");
	REFUSED("}q\x01.", "protocol 0 or 1");
	REFUSED("(lp0\n.", "protocol 0 or 1");
}

static void test_other_files(void **state)
{
	(void)state;
	REFUSED("PK\x03\x04zip", "a zip archive, as torch.save writes model checkpoints");
	REFUSED("\x93NUMPY\x01", "NumPy");
	REFUSED("BZh91AY", "bzip2");
	REFUSED("version https://git-lfs.github.com/spec/v1\n", "git lfs pull");
	REFUSED("<!DOCTYPE html>", "web page");
	REFUSED("just a text\n", "no memory snapshot: expected a pickle");
	REFUSED("\x18\0\0\0\0\0\0\0{\"weight\":1}", "safetensors");
	REFUSED("", "the file is empty");
	REFUSED("\x80\x04N.", "it holds None");
	REFUSED("\x80\x04}.", "it holds a dict");
	REFUSED("\x80\x04].", "it holds an empty list");
	REFUSED("\x80\x04](K\x01K\x02" "e.", "it holds a list of numbers");
	REFUSED("{\"segments\":[],\"device_traces\":[]}", "neither segments nor events");
	REFUSED("{\"segments\":[],\"device_traces\":[[{\"action\":\"snapshot\",\"size\":0}]]}", "neither segments nor events");
	REFUSED("{\"segments\":7,\"device_traces\":[]}", "`segments` is a whole number");
	REFUSED("{\"traceEvents\":[]}", "it holds a dict");
	REFUSED("{\"format\":\"tidemark memory trace\",\"version\":2}\n", "another version");
}

static void test_a_folder(void **state)
{
	struct recording *r;
	struct tm_err err = { 0 };

	(void)state;
	assert_int_equal(recording_read("/tmp", -1, NULL, &r, &err), TM_EINPUT);
	assert_non_null(strstr(err.text, "a folder"));
	assert_int_equal(recording_read("/nonexistent/x.pickle", -1, NULL, &r, &err), TM_EINPUT);
	assert_non_null(strstr(err.text, "No such file"));
	assert_int_equal(recording_read("/dev/null", -1, NULL, &r, &err), TM_EINPUT);
}

static void test_lengths(void **state)
{
	(void)state;
	REFUSED("\x80\x04X\xff\xff\xff\xff" "abc.", "a text of 4294967295 bytes is announced");
	REFUSED("\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\xff" "abc.", "is announced, more than the file has left");
	REFUSED("\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\x7f" "abc.", "is announced, more than the file has left");
	REFUSED("\x80\x04\x8e\0\0\0\0\x01\0\0\0" "abc.", "bytes of 4294967296 bytes is announced");
	REFUSED("\x80\x04" "B\xff\xff\xff\xff" "abc.", "is announced");
	REFUSED("\x80\x04\x95\0\0\0\0\x01\0\0\0}.", "a frame of 4294967296 bytes is announced");
	REFUSED("\x80\x04\x8b\xff\xff\xff\xff" "ab.", "negative length");
	REFUSED("\x80\x04\x8b\xff\xff\xff\x7f" "ab.", "a number of 2147483647 bytes");
	REFUSED("\x80\x04\x8a\x14" "01234567890123456789.", "a number of 20 bytes, expected 9 at most");
	REFUSED("\x80\x04\x8a\x09" "012345678.", "more than 64 bits");
	REFUSED("\x80\x04T\xff\xff\xff\xff" "a.", "negative length");
	REFUSED("\x80\x04\x8c\x05" "ab", "more than the file has left");
}

static void test_memo(void **state)
{
	(void)state;
	REFUSED_FAR("\x80\x04}h\x05.", "entry 5 of the memo is used but was never stored");
	REFUSED_FAR("\x80\x04}j\xff\xff\xff\xff.", "entry 4294967295 of the memo");
	REFUSED_FAR("\x80\x04}r\xff\xff\xff\xff.", "index 4294967295 of the memo is out of range");
	REFUSED_FAR("\x80\x04}r\xff\xff\xff\x7f.", "out of range");
	REFUSED_FAR("\x80\x04\x94.", "wants more values than are there");
	/* a list that is put into itself */
	REFUSED_FAR("\x80\x04]\x94h\0h\0a.", "changed after it was taken out of the memo");
	REFUSED_FAR("\x80\x04]2h\0.", "never stored");
	REFUSED_FAR("\x80\x04}\x94h\0(\x8c\x04" "addrK\x01u.", "a dict is changed after it was taken out of the memo");
	REFUSED_FAR("\x80\x04]2Na.", "changed after it was taken out of the memo");
}

static void test_structure(void **state)
{
	(void)state;
	REFUSED_FAR("\x80\x04.", "wants more values");
	REFUSED_FAR("\x80\x04}K\x01s.", "wants more values");
	REFUSED_FAR("\x80\x04" "a.", "wants more values");
	REFUSED_FAR("\x80\x04" "e.", "a group that was not begun");
	REFUSED("\x80\x04(K", "cut short");
	REFUSED_FAR("\x80\x04(K\x01" "e.", "wants more values");
	REFUSED_FAR("\x80\x04](}K\x01K\x02s(Ne.", "entries for a list, but there is a dict of numbers");
	REFUSED_FAR("\x80\x04](K\x01" "e(K\x01K\x02u.", "items for a dict, but there is a list of numbers");
	REFUSED_FAR("\x80\x04N(K\x01" "e.", "entries for a list, but there is None");
	REFUSED_FAR("\x80\x04N(K\x01K\x02u.", "items for a dict, but there is None");
	REFUSED_FAR("\x80\x04}(K\x01u.", "a key without a value");
	REFUSED_FAR("\x80\x04}(\x8c\x04" "addrK\x01K\x02u.", "a key without a value");
	REFUSED_FAR("\x80\x04}(\x8c\x04" "addrK\x01\x8c\x04" "sizeu.", "a key without a value");
	REFUSED_FAR("\x80\x04" "0.", "wants more values");
}

static void test_nesting(void **state)
{
	struct tm_str s = TM_STR_INIT;

	(void)state;
	OP(&s, "\x80\x04");
	for (int i = 0; i < 1000000; i++)
		tm_str_addc(&s, '(');
	assert_refused(s.s, s.n, "nested more than 100 deep");
	s.n = 2 + 100;
	OP(&s, "N.");
	assert_refused(s.s, s.n, "it holds None");
	s.n = 2;
	for (int i = 0; i < 1000000; i++)
		OP(&s, "]");
	for (int i = 0; i < 999999; i++)
		OP(&s, "a");
	OP(&s, ".");
	assert_refused(s.s, s.n, "it holds");
	tm_str_reset(&s);
	for (int i = 0; i < 1000000; i++)
		tm_str_addc(&s, '[');
	assert_refused(s.s, s.n, "nested at most 100 deep");
	tm_str_free(&s);
}

/* Sizes and addresses of events, segments and blocks. */
static void test_numbers(void **state)
{
	static const struct { int64_t addr, size; const char *words; } event[] = {
		{ 512, -5, "size is negative: -5" }, { -512, 5, "addr is negative" },
		{ 512, 1ll << 51, "more than any device has" }, { 512, INT64_MAX, "more than any device has" },
	};
	struct tm_str s;

	(void)state;
	for (size_t i = 0; i < TM_ARRAY_N(event); i++) {
		s = trace_begin();
		put_event(&s, "alloc", event[i].addr, event[i].size);
		trace_end(&s);
		assert_refused(s.s, s.n, event[i].words);
		tm_str_free(&s);
	}
#define SEGMENT(body) "{\"segments\":[" body "],\"device_traces\":[]}"
	REFUSED(SEGMENT("{\"address\":0,\"total_size\":-1,\"blocks\":[]}"), "total_size is negative");
	REFUSED(SEGMENT("{\"address\":0,\"total_size\":1024,\"device\":-1,\"blocks\":[]}"), "on device -1");
	REFUSED(SEGMENT("{\"address\":0,\"total_size\":1024,\"device\":1000000,\"blocks\":[]}"), "on device 1000000");
	REFUSED(SEGMENT("{\"address\":0,\"total_size\":1024,\"stream\":1.5,\"blocks\":[]}"), "stream is a real number");
	REFUSED(SEGMENT("{\"address\":\"a\",\"total_size\":1024,\"blocks\":[]}"), "address is a text");
	REFUSED(SEGMENT("{\"total_size\":1024,\"blocks\":[]}"), "has no address");
	REFUSED(SEGMENT("{\"address\":512,\"blocks\":[]}"), "has no total_size");
	REFUSED(SEGMENT("{\"address\":0,\"total_size\":1024,\"blocks\":[{\"size\":512,\"state\":\"inactive\"}]}"), "make 512 bytes, its total_size is 1024");
	REFUSED(SEGMENT("{\"address\":0,\"total_size\":512,\"blocks\":[{\"size\":512,\"address\":7,\"state\":\"inactive\"}]}"), "begins at 7, expected 0");
	REFUSED(SEGMENT("{\"address\":0,\"total_size\":512,\"blocks\":[{\"size\":512,\"state\":\"asleep\"}]}"), "state is `asleep`");
	REFUSED(SEGMENT("{\"address\":0,\"total_size\":512,\"blocks\":[{\"size\":512,\"requested_size\":513,\"state\":\"active_allocated\"}]}"), "holds 513 bytes, but has only 512");
	REFUSED(SEGMENT("{\"address\":0,\"total_size\":512,\"blocks\":[{\"state\":\"inactive\"}]}"), "has no size");
	REFUSED(SEGMENT("{\"address\":0,\"total_size\":1024},{\"address\":512,\"total_size\":1024}"), "overlap");
	REFUSED(SEGMENT("{\"address\":0,\"total_size\":512,\"segment_pool_id\":[1]}"), "segment_pool_id is a list of numbers, expected a pair");
	REFUSED(SEGMENT("{\"address\":0,\"total_size\":512},7"), "a list of segments holds a whole number");
#define TRACE(body) "{\"segments\":[],\"device_traces\":[[" body "]]}"
	REFUSED(TRACE("{\"action\":\"alloc\",\"addr\":512}"), "event 0 of device 0 (alloc) has no `size`");
	REFUSED(TRACE("{\"action\":\"alloc\",\"size\":512}"), "has no `addr`");
	REFUSED(TRACE("{\"action\":5,\"size\":512}"), "action is a whole number");
	REFUSED(TRACE("{\"action\":\"alloc\",\"addr\":1,\"size\":1},[]"), "a list of events holds");
}

static void test_json(void **state)
{
	struct recording *r;
	struct tm_err err;
	static const char text[] = "{\"segments\": [],\n \"device_traces\": [[\n  {\"action\" \"alloc\"}]]}";

	(void)state;
	assert_int_equal(read_bytes(text, sizeof text - 1, 0, &r, &err), TM_EINPUT);
	assert_non_null(strstr(err.text, "expected a colon behind a key"));
	assert_int_equal(err.line, 3);
	assert_int_equal(err.column, 13);
	REFUSED("{\"a\":1,}", "expected a key in quotes");
	REFUSED("[1 2]", "expected a comma or ]");
	REFUSED("[1,", "cut short");
	REFUSED("[\"abc", "cut short");
	REFUSED("[\"\\x\"]", "behind a backslash");
	REFUSED("[\"\\u12g4\"]", "four hex digits");
	REFUSED("[tru]", "expected a value");
	REFUSED("[-]", "expected a number");
	REFUSED("[99999999999999999999]", "a number of 64 bits");
	REFUSED("[\"a\nb\"]", "control characters");
	/* escapes, halves of pairs, both ends of 64 bits; unknown keys of every kind */
#define GOOD "{\"x\":[\"\\ud83d\\ude00\\ud83d\\\"\\u0000\",18446744073709551615,-9223372036854775808,1e3,null,true,NaN,{}]," \
	"\"segments\":[{\"address\":512,\"total_size\":1024,\"segment_pool_id\":[0,3],\"device\":0,\"frames\":[{\"name\":\"f\\u00e9\\ud83d\\ude00\",\"filename\":\"a\",\"line\":3}]}]}\n"
	assert_ok(read_bytes(GOOD, sizeof GOOD - 1, 0, &r, &err), &err);
	assert_int_equal(r->segment_n, 1);
	assert_int_equal(r->pools[r->segments[0].pool].id[1], 3);
	assert_string_equal(recording_frame_at(r, r->segments[0].frames, 0)->name, "f\u00e9\U0001f600");
	recording_free(r);
}

/* A file that ends early is never taken for a whole one, wherever it ends. */
static void test_cut_anywhere(void **state)
{
	static const char *const names[] = { "step_from_nothing.pickle", "one_event.pickle", "protocol2.pickle", "plain.pickle.xz", "plain.pickle.gz" };

	(void)state;
	for (size_t i = 0; i < TM_ARRAY_N(names); i++) {
		struct tm_str s = data_bytes(names[i]);
		size_t step = s.n > 8000 ? 37 : s.n > 3000 ? 7 : 1;

		for (size_t n = 0; n < s.n; n += step) {
			struct snap_input in;
			struct recording *r = NULL;
			struct tm_err err = { 0 };

			if (snap_input_memory(&in, s.s, n, &err))
				continue;
			assert_int_equal(snap_read(&in, -1, 0, &r, &err), TM_EINPUT);
			assert_true(err.text[0]);
			snap_input_close(&in);
		}
		tm_str_free(&s);
	}
}

/* Every byte of small files changed: read or refused, nothing else. */
static void test_changed_bytes(void **state)
{
	static const char *const names[] = { "step_from_nothing.pickle", "one_event.pickle", "empty_traces.pickle", "annotated.pickle" };
	static const uint8_t change[] = { 0x01, 0x80, 0xff, 0x24 };
	size_t refused = 0, taken = 0;

	(void)state;
	for (size_t i = 0; i < TM_ARRAY_N(names); i++) {
		struct tm_str s = data_bytes(names[i]);

		for (size_t at = 0; at < s.n; at++) {
			for (size_t k = 0; k < TM_ARRAY_N(change); k++) {
				struct snap_input in;
				struct recording *r = NULL;
				struct tm_err err = { 0 };

				s.s[at] = (char)(s.s[at] ^ change[k]);
				if (!snap_input_memory(&in, s.s, s.n, &err)) {
					int rc = snap_read(&in, -1, 0, &r, &err);

					assert_true(rc == 0 || (rc == TM_EINPUT && err.text[0]));
					*(rc ? &refused : &taken) += 1;
					recording_free(r);
					snap_input_close(&in);
				}
				s.s[at] = (char)(s.s[at] ^ change[k]);
			}
		}
		tm_str_free(&s);
	}
	assert_true(refused > 1000 && taken > 1000);
}

static void test_bombs(void **state)
{
	size_t n = 300 * MIB, room = ZSTD_compressBound(n);
	char *plain = tm_xcalloc(n, 1), *packed = tm_xmalloc(room);
	int64_t begin = tm_mono_us();

	(void)state;
	/* 300 MiB of PROTO, which alone makes no values, in a few KiB */
	for (size_t i = 0; i < n; i += 2)
		memcpy(plain + i, "\x80\x04", 2);
	room = ZSTD_compress(packed, room, plain, n, 1);
	assert_true(room < 200000);
	assert_refused(packed, room, "unpacks to more than 1000 times its size");
	free(plain);
	free(packed);
	/* seconds would be minutes for the 10 GB such a file may hold */
	assert_true(tm_mono_us() - begin < 60 * 1000000ll);
	REFUSED("\xfd" "7zXZ\0garbage and more garbage", "xz data are damaged");
	REFUSED("\x1f\x8bgarbage and more garbage", "gzip data are damaged");
	REFUSED("\x28\xb5\x2f\xfdgarbage and more", "zstd data are damaged");
	REFUSED("\x1f\x8b", "cut short within the gzip data");
}

/* Events that are not in the file: one object, many times in one list. */
static void test_memory_is_bounded(void **state)
{
	struct tm_str s = trace_begin();
	struct recording *r;
	struct tm_err err;

	(void)state;
	put_event(&s, "alloc", 512, 1);
	OP(&s, "\x94");
	for (int i = 0; i < 2000000; i++)
		OP(&s, "h\0");
	trace_end(&s);
	assert_refused(s.s, s.n, "needs more than the 64 MiB of memory");
	assert_ok(read_bytes(s.s, s.n, 400 * MIB, &r, &err), &err);
	assert_int_equal(r->event_n, 2000001);
	recording_free(r);
	assert_int_equal(read_bytes(s.s, s.n, 1, &r, &err), TM_EINPUT);
	tm_str_free(&s);
	/* texts, each once */
	s = (struct tm_str)TM_STR_INIT;
	OP(&s, "\x80\x04](");
	for (uint32_t i = 0; i < 400000; i++) {
		OP(&s, "\x8c\x04");
		tm_str_addn(&s, &i, 4);
	}
	OP(&s, "e.");
	assert_int_equal(read_bytes(s.s, s.n, 8 * MIB, NULL, &err), TM_EINPUT);
	assert_non_null(strstr(err.text, "needs more than the 8 MiB"));
	tm_str_free(&s);
}

/* A list of frames that is written one by one is not gone through again and again. */
static void test_no_quadratic_work(void **state)
{
	struct tm_str s = TM_STR_INIT;
	int64_t begin = tm_mono_us();

	(void)state;
	OP(&s, "\x80\x04}");
	put_text(&s, "filename");
	put_text(&s, "x");
	OP(&s, "s\x94");
	for (int list = 0; list < 400; list++) {
		OP(&s, "]");
		for (int i = 0; i < 1000; i++)
			OP(&s, "h\0a");
		OP(&s, "0");
	}
	OP(&s, ".");
	assert_refused(s.s, s.n, "written one by one");
	assert_true(tm_mono_us() - begin < 20 * 1000000ll);
	tm_str_free(&s);
}

/* Somebody writes to the file while it is read. */
static void test_file_that_changes(void **state)
{
	struct tm_str s = data_bytes("plain.pickle");
	char path[] = "/tmp/tidemark-snapshot-XXXXXX";
	struct recording *r = NULL;
	struct snap_input in;
	struct tm_err err = { 0 };
	int fd = mkstemp(path);

	(void)state;
	assert_ok(tm_write_fd(fd, s.s, s.n, &err), &err);
	assert_ok(snap_input_open(&in, path, &err), &err);
	assert_ok(tm_write_fd(fd, "more", 4, &err), &err);
	assert_int_equal(snap_read(&in, -1, 0, &r, &err), TM_EINPUT);
	assert_non_null(strstr(err.text, "changed while it was read"));
	snap_input_close(&in);

	/* another byte in place of one, the length as before */
	assert_ok(snap_input_open(&in, path, &err), &err);
	assert_int_equal(pwrite(fd, "x", 1, 100), 1);
	assert_int_equal(futimens(fd, (struct timespec[2]){ { 1, 0 }, { 2, 0 } }), 0);
	assert_int_equal(snap_read(&in, -1, 0, &r, &err), TM_EINPUT);
	assert_non_null(strstr(err.text, "changed while it was read"));
	snap_input_close(&in);

	/* cut under the reader, who has seen only a part */
	tm_str_reserve(&s, 1 << 20);
	while (s.n < 1 << 20)
		tm_str_addc(&s, '\0');
	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	memmove(s.s + (1 << 19), s.s + 2, 1000);
	memcpy(s.s, "\x80\x04\x8e\0\0\x08\0\0\0\0\0", 11);
	assert_ok(tm_write_fd(fd, s.s, s.n, &err), &err);
	assert_ok(snap_input_open(&in, path, &err), &err);
	assert_int_equal(ftruncate(fd, 100000), 0);
	assert_int_equal(snap_read(&in, -1, 0, &r, &err), TM_EINPUT);
	assert_non_null(strstr(err.text, "changed while it was read"));
	snap_input_close(&in);
	close(fd);
	unlink(path);
	tm_str_free(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_refused_opcodes), cmocka_unit_test(test_other_files), cmocka_unit_test(test_a_folder),
		cmocka_unit_test(test_lengths), cmocka_unit_test(test_memo), cmocka_unit_test(test_structure),
		cmocka_unit_test(test_nesting), cmocka_unit_test(test_numbers), cmocka_unit_test(test_json),
		cmocka_unit_test(test_cut_anywhere), cmocka_unit_test(test_changed_bytes), cmocka_unit_test(test_bombs),
		cmocka_unit_test(test_memory_is_bounded), cmocka_unit_test(test_no_quadratic_work),
		cmocka_unit_test(test_file_that_changes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The order of runs, the fingerprint of the machine, and who owns a sweep. */
#include "test.h"

#include "run/owner.h"
#include "run/run.h"
#include "run/schedule.h"

#include "base/mem.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static void random_numbers_are_splitmix64(void **state)
{
	/* first outputs for seed 1234567 of the reference implementation, prng.di.unimi.it/splitmix64.c */
	static const uint64_t want[] = {
		6457827717110365317u, 3203168211198807973u, 9817491932198370423u, 4593380528125082431u, 16408922859458223821u,
	};
	uint64_t s = 1234567;

	(void)state;
	for (size_t i = 0; i < TM_ARRAY_N(want); i++)
		assert_true(schedule_random(&s) == want[i]);
}

static struct spec *make_spec(struct spec *s, struct spec_point *points, size_t n, int64_t reps, enum spec_order order, int64_t seed)
{
	memset(s, 0, sizeof *s);
	memset(points, 0, n * sizeof *points);
	for (size_t i = 0; i < n; i++)
		points[i].measure.reps = reps;
	s->points = points;
	s->n = n;
	s->order = order;
	s->seed = seed;
	return s;
}

static void rounds_hold_every_point_once(void **state)
{
	struct spec_point points[20];
	struct store_planned *a, *b;
	struct spec s;
	size_t n, moved = 0, same = 0;

	(void)state;
	make_spec(&s, points, 20, 5, SPEC_INTERLEAVED, 7);
	points[3].measure.reps = 2;
	a = schedule_make(&s, &n);
	assert_int_equal(n, 19 * 5 + 2);
	for (size_t round = 0, i = 0; round < 5; round++) {
		unsigned seen = 0;

		for (; i < n && a[i].rep == (int64_t)round; i++) {
			assert_false(seen >> a[i].config & 1);
			seen |= 1u << a[i].config;
			assert_int_equal(a[i].ord, i);
			moved += a[i].config != i % 20;
		}
		assert_int_equal(seen, round < 2 ? 0xfffff : 0xfffff & ~8u);
	}
	assert_true(moved > 50);
	/* the same seed, the same order; another seed, another; more repetitions, the same beginning */
	b = schedule_make(&s, &n);
	assert_memory_equal(a, b, n * sizeof *a);
	free(b);
	s.seed = 8;
	b = schedule_make(&s, &n);
	for (size_t i = 0; i < n; i++)
		same += a[i].config == b[i].config;
	assert_true(same < 30);
	free(b);
	s.seed = 7;
	for (size_t i = 0; i < 20; i++)
		points[i].measure.reps += i == 3 ? 0 : 4;
	b = schedule_make(&s, &n);
	assert_memory_equal(a, b, (19 * 5 + 2) * sizeof *a);
	free(b);
	free(a);
}

/* Every permutation of three points about equally often over seeds. */
static void orders_are_uniform(void **state)
{
	unsigned count[27] = { 0 }, kinds = 0;
	struct spec_point points[3];
	struct spec s;

	(void)state;
	for (int64_t seed = 0; seed < 6000; seed++) {
		size_t n;
		struct store_planned *v = schedule_make(make_spec(&s, points, 3, 1, SPEC_INTERLEAVED, seed), &n);

		count[v[0].config * 9 + v[1].config * 3 + v[2].config]++;
		free(v);
	}
	for (size_t i = 0; i < 27; i++) {
		kinds += count[i] > 0;
		/* 1000 expected, standard deviation 29: five of them */
		assert_true(!count[i] || (count[i] > 855 && count[i] < 1145));
	}
	assert_int_equal(kinds, 6);
}

static void listed_is_as_listed(void **state)
{
	struct spec_point points[3];
	struct store_planned *v;
	struct spec s;
	size_t n;

	(void)state;
	v = schedule_make(make_spec(&s, points, 3, 2, SPEC_LISTED, 7), &n);
	assert_int_equal(n, 6);
	for (size_t i = 0; i < n; i++)
		assert_true(v[i].config == i / 2 && v[i].rep == (int64_t)(i % 2));
	free(v);
}

static void a_recycled_pid_is_not_its_owner(void **state)
{
	char self[320], text[400], boot[40], host[80], space[80];
	unsigned long long start;
	long pid;

	(void)state;
	owner_text(self);
	assert_true(owner_alive(self, 1000000000000));
	assert_int_equal(sscanf(self, "%79s %39s %79s %ld %llu", host, boot, space, &pid, &start), 5);
	assert_int_equal(pid, getpid());
	snprintf(text, sizeof text, "%s %s %s %ld %llu", host, boot, space, pid, start - 1);
	assert_false(owner_alive(text, 0));
	/* the same machine after a reboot: dead, whoever has that pid now */
	snprintf(text, sizeof text, "%s %s %s %ld %llu", host, "00000000-0000-0000-0000-000000000000", space, pid, start);
	assert_false(owner_alive(text, 0));
	/* another machine, or another container of this one: by its last sign of life */
	snprintf(text, sizeof text, "%s %s %s %ld %llu", "elsewhere", "00000000-0000-0000-0000-000000000000", space, pid, start);
	assert_true(owner_alive(text, 1000000));
	assert_false(owner_alive(text, OWNER_LOST_US + 1));
	snprintf(text, sizeof text, "%s %s %s %ld %llu", "other", boot, "pid:[1]", 1L, 1ull);
	assert_true(owner_alive(text, 1000000));
	assert_false(owner_alive("", 0));
	assert_false(owner_alive("a b c", 0));
}

static void a_dead_owner_is_dead(void **state)
{
	char text[320] = "";
	int fd[2];
	pid_t pid;

	(void)state;
	assert_int_equal(pipe(fd), 0);
	pid = fork();
	if (!pid) {
		owner_text(text);
		_exit(write(fd[1], text, sizeof text) != sizeof text);
	}
	assert_int_equal(read(fd[0], text, sizeof text), sizeof text);
	/* a zombie runs nothing */
	siginfo_t info;
	assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
	assert_false(owner_alive(text, 0));
	waitpid(pid, NULL, 0);
	assert_false(owner_alive(text, 0));
	close(fd[0]);
	close(fd[1]);
}

static void the_machine_has_a_fingerprint(void **state)
{
	struct run_env a, b;
	struct store_env s;

	(void)state;
	run_env_read(&a);
	run_env_read(&b);
	assert_true(a.host[0] && a.cpu[0] && a.kernel[0]);
	assert_true(json_equal(a.json, b.json));
	assert_string_equal(a.class_key, b.class_key);
	/* what an upgrade or a rename changes decides nothing */
	assert_null(strstr(a.class_key, a.kernel));
	assert_null(strstr(a.class_key, a.host));
	assert_non_null(strstr(a.class_key, a.cpu));
	assert_true(json_integer_value(json_object_get(a.json, "memory_bytes")) > 1 << 20);
	run_env_to_store(&a, &s);
	assert_string_equal(s.class_key, a.class_key);
	run_env_free(&a);
	run_env_free(&b);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_numbers_are_splitmix64),
		cmocka_unit_test(rounds_hold_every_point_once),
		cmocka_unit_test(orders_are_uniform),
		cmocka_unit_test(listed_is_as_listed),
		cmocka_unit_test(a_recycled_pid_is_not_its_owner),
		cmocka_unit_test(a_dead_owner_is_dead),
		cmocka_unit_test(the_machine_has_a_fingerprint),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * The fingerprint of a machine. `json` holds everything that was found and
 * is what people compare; `class_key` holds the few fields that decide
 * whether two results may be compared at all. Kernel, distribution and host
 * name are not in it: an upgrade must show as a change in one history, not
 * begin another. Of cards the class has kind, memory, power limit and MIG, and
 * not the driver.
 */
#include "run/run.h"

#include "card/cards.h"
#include "card/visible.h"

#include "base/file.h"
#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

/* A small file without its last newline; "" if there is none. To be freed. */
static char *read_small(const char *path)
{
	struct tm_str s = TM_STR_INIT;
	FILE *f = fopen(path, "re");
	char buf[4096];
	size_t n;

	/* files of /proc have size 0 and are read to their end, with a limit */
	while (f && s.n < (1u << 20) && (n = fread(buf, 1, sizeof buf, f)))
		tm_str_addn(&s, buf, n);
	if (f)
		fclose(f);
	while (s.n && s.s[s.n - 1] == '\n')
		s.s[--s.n] = '\0';
	return s.n ? tm_str_detach(&s) : tm_xstrdup("");
}

/* The value of the first line "KEY<blanks>SEP VALUE"; false if there is none. */
static bool field(const char *text, const char *key, char sep, char *out, size_t size)
{
	for (const char *line = text; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
		const char *p = line + strlen(key);
		size_t n;

		if (strncmp(line, key, strlen(key)))
			continue;
		while (*p == ' ' || *p == '\t')
			p++;
		if (*p++ != sep)
			continue;
		while (*p == ' ' || *p == '"')
			p++;
		n = strcspn(p, "\n\"");
		while (n && p[n - 1] == ' ')
			n--;
		snprintf(out, size, "%.*s", (int)n, p);
		return true;
	}
	return false;
}

/* json_string refuses what is no UTF-8; then the field is left out. */
static void set(json_t *json, const char *key, const char *value)
{
	json_t *v = value && *value ? json_string(value) : NULL;

	if (v)
		json_object_set_new(json, key, v);
}

static void set_file(json_t *json, const char *key, const char *path)
{
	char *text = read_small(path);

	set(json, key, text);
	free(text);
}

static void read_cpu(struct run_env *env)
{
	char *text = read_small("/proc/cpuinfo"), value[256];
	long online = sysconf(_SC_NPROCESSORS_ONLN);

	if (field(text, "model name", ':', value, sizeof value) || field(text, "Model", ':', value, sizeof value) ||
	    field(text, "CPU implementer", ':', value, sizeof value))
		snprintf(env->cpu, sizeof env->cpu, "%.*s", (int)sizeof env->cpu - 1, value);
	else
		snprintf(env->cpu, sizeof env->cpu, "unknown");
	set(env->json, "cpu", env->cpu);
	json_object_set_new(env->json, "cores", json_integer(online));
	set_file(env->json, "governor", "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
	set_file(env->json, "smt", "/sys/devices/system/cpu/smt/control");
	set_file(env->json, "turbo_off", "/sys/devices/system/cpu/intel_pstate/no_turbo");
	free(text);
}

static int64_t memory_bytes(void)
{
	char *text = read_small("/proc/meminfo"), value[64] = "0";
	int64_t kb;

	field(text, "MemTotal", ':', value, sizeof value);
	kb = strtoll(value, NULL, 10);
	free(text);
	return kb * 1024;
}

/* Limits a container or a service sets: they bind like the hardware does, but may differ from night to night. */
static void read_limits(json_t *json)
{
	static const char *const names[][2] = {
		{ "cgroup_memory_max", "memory.max" }, { "cgroup_cpu_max", "cpu.max" }, { "cgroup_cpus", "cpuset.cpus.effective" },
	};
	char *text = read_small("/proc/self/cgroup"), *own = strstr(text, "0::/");

	set(json, "container", tm_path_exists("/.dockerenv") ? "docker" :
	    tm_path_exists("/run/.containerenv") ? "podman" : NULL);
	if (own) {
		own += 3;
		own[strcspn(own, "\n")] = '\0';
		for (size_t i = 0; i < TM_ARRAY_N(names); i++) {
			struct tm_str path = TM_STR_INIT;

			tm_str_addf(&path, "/sys/fs/cgroup%s%s%s", own, own[1] ? "/" : "", names[i][1]);
			set_file(json, names[i][0], path.s);
			tm_str_free(&path);
		}
	}
	free(text);
}

static void read_system(struct run_env *env)
{
	char *release = read_small("/etc/os-release"), value[256];
	struct utsname u;

	if (!uname(&u)) {
		snprintf(env->host, sizeof env->host, "%.*s", (int)sizeof env->host - 1, u.nodename);
		snprintf(env->kernel, sizeof env->kernel, "%.40s %.80s", u.sysname, u.release);
		set(env->json, "architecture", u.machine);
	}
	set(env->json, "host", env->host);
	set(env->json, "kernel", env->kernel);
	if (field(release, "PRETTY_NAME", '=', value, sizeof value))
		set(env->json, "distribution", value);
	set_file(env->json, "clocksource", "/sys/devices/system/clocksource/clocksource0/current_clocksource");
	set_file(env->json, "transparent_hugepage", "/sys/kernel/mm/transparent_hugepage/enabled");
	set_file(env->json, "swappiness", "/proc/sys/vm/swappiness");
	free(release);
}

/* As CUDA programs number them: the index of each in `gpus`, or what an instance is called. */
static json_t *visible_json(const struct cards *c)
{
	json_t *list = json_array();
	struct card_visible v;

	card_visible_here(c, &v);
	for (size_t i = 0; i < v.n; i++)
		json_array_append_new(list, v.v[i].instance < 0 ? json_integer(c->v[v.v[i].card].index) :
				      json_string(card_place_uuid(c, v.v[i])));
	return list;
}

static void read_cards_now(const struct cards *c, json_t *now)
{
	char name[32];

	set(now, "nvml", c->nvml ? NULL : c->why);
	set(now, "cuda_visible_devices", getenv("CUDA_VISIBLE_DEVICES"));
	if (getenv("CUDA_VISIBLE_DEVICES") && !*getenv("CUDA_VISIBLE_DEVICES"))
		json_object_set_new(now, "cuda_visible_devices", json_string("empty: every card is hidden"));
	if (c->n)
		json_object_set_new(now, "cuda", visible_json(c));
	for (size_t i = 0; i < c->n; i++) {
		snprintf(name, sizeof name, "gpu%zu", i);
		if (!*c->v[i].broken)
			json_object_set_new(now, name, card_now_json(c, &c->v[i]));
	}
}

static void read_cards(struct run_env *env, struct tm_str *class)
{
	struct cards c;

	cards_read(&c);
	json_object_set_new(env->json, "gpus", cards_json(&c));
	set(env->json, "driver", c.driver);
	if (c.cuda)
		snprintf(env->cuda, sizeof env->cuda, "%d.%d", c.cuda / 1000, c.cuda % 1000 / 10);
	set(env->json, "cuda", env->cuda);
	snprintf(env->driver, sizeof env->driver, "%s", c.driver);
	if (c.n) {
		snprintf(env->gpu, sizeof env->gpu, "%s", c.v[0].name);
		env->gpu_n = (int64_t)c.n;
		env->gpu_mem = (int64_t)c.v[0].memory_bytes;
	}
	read_cards_now(&c, env->now);
	cards_class(&c, class);
	cards_free(&c);
}

void run_env_read(struct run_env *env)
{
	struct tm_str class = TM_STR_INIT;
	int64_t memory;

	memset(env, 0, sizeof *env);
	env->json = json_object();
	env->now = json_object();
	read_system(env);
	read_cpu(env);
	memory = memory_bytes();
	json_object_set_new(env->json, "memory_bytes", json_integer(memory));
	read_cards(env, &class);
	read_limits(env->json);
	/* MemTotal differs by some megabytes between kernels of one machine: whole GiB */
	snprintf(env->class_key, sizeof env->class_key, "cpu=%s;cores=%ld;memory=%lldGiB;gpus=%.500s",
		 env->cpu, sysconf(_SC_NPROCESSORS_ONLN), (long long)((memory + (1 << 29)) >> 30), class.s);
	tm_str_free(&class);
}

void run_env_free(struct run_env *env)
{
	json_decref(env->json);
	json_decref(env->now);
	env->json = env->now = NULL;
}

void run_env_to_store(const struct run_env *env, struct store_env *out)
{
	*out = (struct store_env){
		.host = env->host, .cpu = env->cpu, .kernel = env->kernel,
		.gpu = *env->gpu ? env->gpu : NULL, .driver = *env->driver ? env->driver : NULL,
		.cuda = *env->cuda ? env->cuda : NULL, .gpu_n = env->gpu_n, .gpu_mem = env->gpu_mem,
		.class_key = env->class_key, .json = env->json,
	};
}

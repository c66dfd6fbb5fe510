/*
 * A library in place of NVML, for tests: the cards are those of a script, the
 * file that FAKE_NVML names, which is read again whenever it has changed.
 * TIDEMARK_NVML makes tidemark load this one.
 *
 *     driver 580.1           version of the driver
 *     cuda 13000             the newest CUDA it serves
 *     init 9                 nvmlInit fails with this code
 *     fail FUNCTION 3        this function does
 *     card UUID PCI MIB NAME a card; what follows is of the last one
 *     lost                   it has fallen off the bus
 *     capability 9 0, max 1980, clock 1980 1200 … (one a reading, the last one stays), memclock 3201
 *     power 312.5, limit 700, energy 500 (watts, by the clock), temperature 41, reasons 0x4
 *     ecc 1, mig 1, persistence 1, mode 0
 *     instance UUID MIB      of a card in MIG mode
 *     used 4                 MiB in use without the processes
 *     process 4711 526       a process with so many MiB; @FILE: the number in that file, while such a process lives
 *     process 4711 526 late  the same, once one from a file is there
 *     leaves 100             MiB that stay in use once such a process has gone
 *     gpm 0.5 0.25 0.125     activity; without this line there is none
 *     slow 5000              each reading of a clock takes so many ms
 */
#include "card/nvml_types.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

/* As in NVIDIA's header: what the real library writes must fit what we hand it. */
_Static_assert(sizeof(struct nvml_pci) == 68, "nvmlPciInfo_t");
_Static_assert(sizeof(struct nvml_memory_v1) == 24, "nvmlMemory_t");
_Static_assert(sizeof(struct nvml_memory_v2) == 40, "nvmlMemory_v2_t");
_Static_assert(sizeof(struct nvml_process) == 24, "nvmlProcessInfo_v2_t");
_Static_assert(sizeof(struct nvml_process_v1) == 16, "nvmlProcessInfo_v1_t");
_Static_assert(sizeof(struct nvml_gpm_value) == 40, "nvmlGpmMetric_t");
_Static_assert(__builtin_offsetof(struct nvml_gpm_get, value) == 24, "nvmlGpmMetricsGet_t");

#define CARDS 8
#define LIST 64

struct process { char pid[200]; unsigned long long mib; bool late; };

struct nvml_device {
	struct nvml_device *parent;       /* of an instance */
	char uuid[96], pci[32], name[96];
	unsigned long long mib, used, leaves;
	bool lost, mig, ecc, persistence, gpm, seen;
	unsigned mode, major, minor, max, clock[LIST], clock_n, clock_at, memclock, temperature;
	double power, limit, energy, activity[3];
	unsigned long long reasons;
	struct process process[LIST];
	unsigned process_n, instance_n, slow;
};

struct nvml_gpm_sample { struct nvml_device *card; };

static struct {
	char driver[64];
	int cuda, init;
	struct { char name[64]; int code; } fail[LIST];
	unsigned fail_n, card_n;
	struct stat read;
} now;
static struct nvml_device card[CARDS], instance[CARDS][CARDS];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

/* ---- the script ---------------------------------------------------------------- */

static void card_line(struct nvml_device *c, const char *key, char *rest)
{
	char word[200] = "", third[16] = "";
	unsigned long long mib = 0;

	if (!strcmp(key, "lost"))
		c->lost = true;
	else if (!strcmp(key, "capability"))
		sscanf(rest, "%u %u", &c->major, &c->minor);
	else if (!strcmp(key, "max"))
		c->max = (unsigned)strtoul(rest, NULL, 10);
	else if (!strcmp(key, "memclock"))
		c->memclock = (unsigned)strtoul(rest, NULL, 10);
	else if (!strcmp(key, "temperature"))
		c->temperature = (unsigned)strtoul(rest, NULL, 10);
	else if (!strcmp(key, "mode"))
		c->mode = (unsigned)strtoul(rest, NULL, 10);
	else if (!strcmp(key, "slow"))
		c->slow = (unsigned)strtoul(rest, NULL, 10);
	else if (!strcmp(key, "ecc"))
		c->ecc = *rest == '1';
	else if (!strcmp(key, "mig"))
		c->mig = *rest == '1';
	else if (!strcmp(key, "persistence"))
		c->persistence = *rest == '1';
	else if (!strcmp(key, "power"))
		c->power = strtod(rest, NULL);
	else if (!strcmp(key, "limit"))
		c->limit = strtod(rest, NULL);
	else if (!strcmp(key, "energy"))
		c->energy = strtod(rest, NULL);
	else if (!strcmp(key, "reasons"))
		c->reasons = strtoull(rest, NULL, 0);
	else if (!strcmp(key, "used"))
		c->used = strtoull(rest, NULL, 10);
	else if (!strcmp(key, "leaves"))
		c->leaves = strtoull(rest, NULL, 10);
	else if (!strcmp(key, "gpm"))
		c->gpm = sscanf(rest, "%lf %lf %lf", &c->activity[0], &c->activity[1], &c->activity[2]) == 3;
	else if (!strcmp(key, "clock"))
		for (char *save, *w = strtok_r(rest, " ", &save); w && c->clock_n < LIST; w = strtok_r(NULL, " ", &save))
			c->clock[c->clock_n++] = (unsigned)strtoul(w, NULL, 10);
	else if (!strcmp(key, "process") && sscanf(rest, "%199s %llu %15s", word, &mib, third) >= 2 && c->process_n < LIST) {
		struct process *p = &c->process[c->process_n++];

		memcpy(p->pid, word, sizeof word);
		p->mib = mib;
		p->late = !strcmp(third, "late");
	} else if (!strcmp(key, "instance") && sscanf(rest, "%95s %llu", word, &mib) == 2 && c->instance_n < CARDS) {
		struct nvml_device *i = &instance[c - card][c->instance_n++];

		*i = (struct nvml_device){ .parent = c, .mib = mib };
		memcpy(i->uuid, word, sizeof i->uuid);
	} else {
		fprintf(stderr, "fake nvml: what is '%s %s'?\n", key, rest);
		abort();
	}
}

static void line(char *text)
{
	char *rest = strchr(text, ' ');
	struct nvml_device *c = now.card_n ? &card[now.card_n - 1] : NULL;

	if (rest)
		*rest++ = '\0';
	else
		rest = text + strlen(text);
	if (!*text)
		return;
	if (!strcmp(text, "driver"))
		snprintf(now.driver, sizeof now.driver, "%s", rest);
	else if (!strcmp(text, "cuda"))
		now.cuda = (int)strtol(rest, NULL, 10);
	else if (!strcmp(text, "init"))
		now.init = (int)strtol(rest, NULL, 10);
	else if (!strcmp(text, "fail")) {
		if (sscanf(rest, "%63s %d", now.fail[now.fail_n].name, &now.fail[now.fail_n].code) == 2)
			now.fail_n++;
	} else if (!strcmp(text, "card")) {
		int at = 0;

		c = &card[now.card_n++];
		sscanf(rest, "%95s %31s %llu %n", c->uuid, c->pci, &c->mib, &at);
		snprintf(c->name, sizeof c->name, "%s", rest + at);
	} else {
		card_line(c, text, rest);
	}
}

/* A new script is a new machine: nothing of the one before stays. */
static void read_script(void)
{
	const char *path = getenv("FAKE_NVML");
	struct stat st;
	char text[1024];
	FILE *f;

	if (!path || stat(path, &st) || (!memcmp(&st.st_mtim, &now.read.st_mtim, sizeof st.st_mtim) &&
					 st.st_ino == now.read.st_ino && st.st_size == now.read.st_size))
		return;
	memset(&now, 0, sizeof now);
	memset(card, 0, sizeof card);
	now.read = st;
	f = fopen(path, "re");
	while (f && fgets(text, sizeof text, f)) {
		text[strcspn(text, "\n")] = '\0';
		line(text);
	}
	if (f)
		fclose(f);
}

/* Every function begins so, with the lock taken. */
static int begin(const char *function)
{
	int code = 0;

	pthread_mutex_lock(&mutex);
	read_script();
	for (unsigned i = 0; i < now.fail_n; i++)
		if (!strcmp(now.fail[i].name, function))
			code = now.fail[i].code;
	return code;
}

static int end(int code)
{
	pthread_mutex_unlock(&mutex);
	return code;
}

/* One function: `body` is what it does where the script lets it succeed. */
#define CALL(name, args, body) \
	int name args; \
	int name args \
	{ \
		int code = begin(#name); \
		if (!code) \
			code = body; \
		return end(code); \
	}

static struct nvml_device *whole(struct nvml_device *d)
{
	return d->parent ? d->parent : d;
}

static int put(char *out, unsigned size, const char *text)
{
	if (!*text)
		return NVML_NOT_SUPPORTED;
	if (strlen(text) >= size)
		return NVML_INSUFFICIENT_SIZE;
	memcpy(out, text, strlen(text) + 1);
	return 0;
}

/* 0: the script says nothing of it. */
static int put_number(unsigned *out, unsigned v)
{
	*out = v;
	return v ? 0 : NVML_NOT_SUPPORTED;
}

/* ---- the machine ------------------------------------------------------------------ */

CALL(nvmlInit_v2, (void), now.init)
CALL(nvmlShutdown, (void), 0)
CALL(nvmlSystemGetDriverVersion, (char *out, unsigned size), put(out, size, now.driver))
CALL(nvmlSystemGetCudaDriverVersion_v2, (int *out), (*out = now.cuda, 0))
CALL(nvmlDeviceGetCount_v2, (unsigned *out), (*out = now.card_n, 0))
CALL(nvmlDeviceGetHandleByIndex_v2, (unsigned i, nvml_handle *out),
     i >= now.card_n ? NVML_INVALID_ARGUMENT : card[i].lost ? NVML_GPU_IS_LOST : (*out = &card[i], 0))
CALL(nvmlDeviceGetMaxMigDeviceCount, (nvml_handle d, unsigned *out), (*out = d->mig ? 7 : 0, 0))
CALL(nvmlDeviceGetMigDeviceHandleByIndex, (nvml_handle d, unsigned i, nvml_handle *out),
     i >= d->instance_n ? NVML_NOT_FOUND : (*out = &instance[d - card][i], 0))

/* ---- a card ------------------------------------------------------------------------- */

static int pci_of(const struct nvml_device *d, struct nvml_pci *out)
{
	memset(out, 0, sizeof *out);
	return put(out->bus_id, sizeof out->bus_id, d->pci);
}

CALL(nvmlDeviceGetName, (nvml_handle d, char *out, unsigned size), put(out, size, d->name))
CALL(nvmlDeviceGetUUID, (nvml_handle d, char *out, unsigned size), put(out, size, d->uuid))
CALL(nvmlDeviceGetPciInfo_v3, (nvml_handle d, struct nvml_pci *out), pci_of(d, out))
CALL(nvmlDeviceGetCudaComputeCapability, (nvml_handle d, int *major, int *minor),
     (*major = (int)d->major, *minor = (int)d->minor, d->major ? 0 : NVML_NOT_SUPPORTED))
CALL(nvmlDeviceGetMaxClockInfo, (nvml_handle d, int kind, unsigned *out),
     put_number(out, kind == NVML_CLOCK_SM ? d->max : d->memclock))
CALL(nvmlDeviceGetEnforcedPowerLimit, (nvml_handle d, unsigned *out), put_number(out, (unsigned)(d->limit * 1000)))
CALL(nvmlDeviceGetEccMode, (nvml_handle d, unsigned *out, unsigned *pending), (*out = d->ecc, *pending = d->ecc, 0))
CALL(nvmlDeviceGetMigMode, (nvml_handle d, unsigned *out, unsigned *pending), (*out = d->mig, *pending = d->mig, 0))
CALL(nvmlDeviceGetPersistenceMode, (nvml_handle d, unsigned *out), (*out = d->persistence, 0))
CALL(nvmlDeviceGetComputeMode, (nvml_handle d, unsigned *out), (*out = d->mode, 0))

/* ---- processes and memory --------------------------------------------------------------- */

/* 0: there is none (any more). */
static unsigned pid_of(const struct process *p)
{
	char text[32] = "";
	FILE *f;

	if (*p->pid != '@')
		return (unsigned)strtoul(p->pid, NULL, 10);
	f = fopen(p->pid + 1, "re");
	if (!f || !fgets(text, sizeof text, f))
		*text = '\0';
	if (f)
		fclose(f);
	return *text && !kill((pid_t)strtol(text, NULL, 10), 0) ? (unsigned)strtoul(text, NULL, 10) : 0;
}

static unsigned list_users(struct nvml_device *d, struct nvml_process out[LIST])
{
	struct nvml_device *c = whole(d);
	bool any = false;
	unsigned n = 0;

	for (unsigned i = 0; i < c->process_n; i++)
		any |= *c->process[i].pid == '@' && pid_of(&c->process[i]);
	c->seen |= any;
	for (unsigned i = 0; i < c->process_n; i++) {
		unsigned pid = pid_of(&c->process[i]);

		if (pid && (any || !c->process[i].late))
			out[n++] = (struct nvml_process){ .pid = pid, .used = c->process[i].mib << 20 };
	}
	return n;
}

static unsigned long long used_by(struct nvml_device *d)
{
	struct nvml_process v[LIST];
	unsigned n = list_users(d, v);
	unsigned long long used = whole(d)->used << 20;
	bool any = false;

	for (unsigned i = 0; i < n; i++)
		used += v[i].used;
	for (unsigned i = 0; i < whole(d)->process_n; i++)
		any |= *whole(d)->process[i].pid == '@' && pid_of(&whole(d)->process[i]);
	return whole(d)->seen && !any ? used + (whole(d)->leaves << 20) : used;
}

static int memory_v2(struct nvml_device *d, struct nvml_memory_v2 *out)
{
	unsigned version = out->version;

	if (version != NVML_STRUCT_VERSION(*out, 2))
		return NVML_ARGUMENT_VERSION_MISMATCH;
	*out = (struct nvml_memory_v2){ version, d->mib << 20, 600 << 20, 0, used_by(d) };
	return 0;
}

static int give_users(struct nvml_device *d, unsigned *n, struct nvml_process *out)
{
	struct nvml_process v[LIST];
	unsigned room = *n;

	*n = list_users(d, v);
	if (*n > room)
		return NVML_INSUFFICIENT_SIZE;
	memcpy(out, v, *n * sizeof *v);
	return 0;
}

static int give_users_v1(struct nvml_device *d, unsigned *n, struct nvml_process_v1 *out)
{
	struct nvml_process v[LIST];

	*n = list_users(d, v);
	for (unsigned i = 0; i < *n; i++)
		out[i] = (struct nvml_process_v1){ v[i].pid, v[i].used };
	return 0;
}

CALL(nvmlDeviceGetMemoryInfo_v2, (nvml_handle d, struct nvml_memory_v2 *out), memory_v2(d, out))
CALL(nvmlDeviceGetMemoryInfo, (nvml_handle d, struct nvml_memory_v1 *out),
     (*out = (struct nvml_memory_v1){ d->mib << 20, 0, used_by(d) + (600 << 20) }, 0))
CALL(nvmlDeviceGetComputeRunningProcesses_v3, (nvml_handle d, unsigned *n, struct nvml_process *out), give_users(d, n, out))
CALL(nvmlDeviceGetComputeRunningProcesses, (nvml_handle d, unsigned *n, struct nvml_process_v1 *out), give_users_v1(d, n, out))

/* ---- readings ------------------------------------------------------------------------------ */

static int clock_of(struct nvml_device *d, int kind, unsigned *out)
{
	unsigned at = d->clock_at, ms = d->slow;

	if (d->parent)
		return NVML_NOT_SUPPORTED;
	if (ms) {
		struct timespec t = { ms / 1000, ms % 1000 * 1000000 };

		pthread_mutex_unlock(&mutex);
		nanosleep(&t, NULL);
		pthread_mutex_lock(&mutex);
	}
	if (kind != NVML_CLOCK_SM)
		return put_number(out, d->memclock);
	if (!d->clock_n)
		return NVML_NOT_SUPPORTED;
	d->clock_at += at + 1 < d->clock_n;
	return put_number(out, d->clock[at < d->clock_n ? at : d->clock_n - 1]);
}

static int energy_of(const struct nvml_device *d, unsigned long long *out)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	*out = (unsigned long long)(d->energy * 1e3 * ((double)t.tv_sec + (double)t.tv_nsec * 1e-9));
	return d->energy > 0 ? 0 : NVML_NOT_SUPPORTED;
}

CALL(nvmlDeviceGetClockInfo, (nvml_handle d, int kind, unsigned *out), clock_of(d, kind, out))
CALL(nvmlDeviceGetPowerUsage, (nvml_handle d, unsigned *out), put_number(out, (unsigned)(d->power * 1000)))
CALL(nvmlDeviceGetTemperature, (nvml_handle d, int sensor, unsigned *out),
     sensor == NVML_TEMPERATURE_GPU ? put_number(out, d->temperature) : NVML_INVALID_ARGUMENT)
CALL(nvmlDeviceGetCurrentClocksEventReasons, (nvml_handle d, unsigned long long *out), (*out = d->reasons, 0))
CALL(nvmlDeviceGetTotalEnergyConsumption, (nvml_handle d, unsigned long long *out), energy_of(d, out))

/* ---- activity ---------------------------------------------------------------------------------- */

static int gpm_values(struct nvml_gpm_get *get)
{
	static const unsigned known[] = { NVML_GPM_SM, NVML_GPM_TENSOR, NVML_GPM_DRAM };

	if (get->version != 1 || !get->from->card || !get->to->card)
		return NVML_INVALID_ARGUMENT;
	for (unsigned i = 0; i < get->n; i++) {
		get->value[i].code = NVML_NOT_SUPPORTED;
		for (int k = 0; k < 3; k++) {
			if (get->value[i].metric != known[k])
				continue;
			get->value[i].code = 0;
			get->value[i].value = 100 * whole(get->to->card)->activity[k];
		}
	}
	return 0;
}

CALL(nvmlGpmQueryDeviceSupport, (nvml_handle d, struct nvml_gpm_support *out), (out->supported = whole(d)->gpm, 0))
CALL(nvmlGpmSampleAlloc, (nvml_gpm_handle *out), (*out = calloc(1, sizeof **out), 0))
CALL(nvmlGpmSampleFree, (nvml_gpm_handle sample), (free(sample), 0))
CALL(nvmlGpmSampleGet, (nvml_handle d, nvml_gpm_handle sample), (sample->card = d, 0))
CALL(nvmlGpmMetricsGet, (struct nvml_gpm_get *get), gpm_values(get))

#include "card/nvml.h"

#include "card/nvml_calls.h"

#include "base/mem.h"
#include "base/str.h"

#include <ctype.h>
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIBRARY "libnvidia-ml.so.1"
#define VARIABLE "TIDEMARK_NVML"

struct nvml {
	void *library;
	struct nvml_calls call;
	unsigned card_n;
};

/* ---- opening ---------------------------------------------------------------- */

const char *nvml_text(int code)
{
	switch (code) {
	case NVML_OK: return "success";
	case NVML_NOT_SUPPORTED: return "the card does not support it";
	case NVML_NO_PERMISSION: return "no permission";
	case NVML_DRIVER_NOT_LOADED: return "the NVIDIA driver is not loaded";
	case NVML_TIMEOUT: return "the driver did not answer in time";
	case NVML_LIBRARY_NOT_FOUND: return "a library of the driver is missing";
	case NVML_FUNCTION_NOT_FOUND: return "the driver is too old for it";
	case NVML_GPU_IS_LOST: return "the card has fallen off the bus; the machine must be restarted";
	case NVML_RESET_REQUIRED: return "the card must be reset";
	case NVML_OPERATING_SYSTEM: return "the operating system keeps the card away from this process";
	case NVML_VERSION_MISMATCH: return "the library and the kernel's driver are of different versions; restart the machine after an update of the driver";
	case NVML_MEMORY: return "not enough memory";
	case NVML_UNKNOWN: return "an error the driver has no name for";
	default: return "an error of the driver";
	}
}

/* dlsym gives an object pointer; this is POSIX's way of making a function of it. */
static void look_up(void *library, void *place, const char *symbol, const char *older)
{
	void *found = dlsym(library, symbol);

	if (!found && older)
		found = dlsym(library, older);
	memcpy(place, &found, sizeof found);
}

static int load(struct nvml *n, struct tm_err *err)
{
	const char *other = getenv(VARIABLE);
	const char *file = other && *other ? other : LIBRARY;

	if (!strcmp(file, "none"))
		return tm_fail(err, TM_ENOTFOUND, "NVML is switched off by " VARIABLE "=none");
	n->library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
	if (!n->library && other && *other)
		return tm_fail(err, TM_EENV, VARIABLE ": %s", dlerror());
	if (!n->library)
		return tm_fail(err, TM_ENOTFOUND, "there is no NVIDIA driver here (" LIBRARY " was not found)");
#define X(name, symbol, older, args) look_up(n->library, &n->call.name, symbol, older);
	NVML_CALLS(X)
#undef X
	if (!n->call.init || !n->call.count || !n->call.by_index)
		return tm_fail(err, TM_EENV, "%s is no NVML: it has no nvmlInit_v2", file);
	return 0;
}

int nvml_open(struct nvml **out, struct tm_err *err)
{
	struct nvml *n = tm_xcalloc(1, sizeof *n);
	int rc = load(n, err), code;

	*out = NULL;
	if (!rc) {
		code = n->call.init();
		if (code)
			rc = tm_fail(err, TM_EENV, "NVML does not start: %s (code %d)", nvml_text(code), code);
	}
	if (rc) {
		if (n->library)
			dlclose(n->library);
		free(n);
		return rc;
	}
	if (n->call.count(&n->card_n))
		n->card_n = 0;
	*out = n;
	return 0;
}

/* The library stays loaded: some drivers leave threads behind that unloading would crash. */
void nvml_close(struct nvml *n)
{
	if (!n)
		return;
	if (n->call.shutdown)
		n->call.shutdown();
	free(n);
}

/* ---- the machine --------------------------------------------------------------- */

/* A text that is one, whatever the library left in the buffer. */
static bool text_ok(int code, char *out, size_t size)
{
	out[size - 1] = '\0';
	if (code)
		out[0] = '\0';
	return !code && *out && tm_utf8_valid(out, strlen(out));
}

bool nvml_driver_version(const struct nvml *n, char *out, size_t size)
{
	return n->call.driver && text_ok(n->call.driver(out, (unsigned)size), out, size);
}

bool nvml_cuda_version(const struct nvml *n, int *out)
{
	return n->call.cuda && !n->call.cuda(out) && *out > 0;
}

unsigned nvml_card_n(const struct nvml *n)
{
	return n->card_n;
}

int nvml_card_at(const struct nvml *n, unsigned i, nvml_handle *out, struct tm_err *err)
{
	int code = n->call.by_index(i, out);

	return code ? tm_fail(err, TM_EENV, "card %u: %s", i, nvml_text(code)) : 0;
}

unsigned nvml_mig_max(const struct nvml *n, nvml_handle card)
{
	unsigned max = 0;

	return n->call.mig_max && n->call.mig_at && !n->call.mig_max(card, &max) ? max : 0;
}

bool nvml_mig_at(const struct nvml *n, nvml_handle card, unsigned i, nvml_handle *out)
{
	return n->call.mig_at && !n->call.mig_at(card, i, out);
}

/* ---- what does not change ---------------------------------------------------------- */

bool nvml_name(const struct nvml *n, nvml_handle card, char *out, size_t size)
{
	return n->call.name && text_ok(n->call.name(card, out, (unsigned)size), out, size);
}

bool nvml_uuid(const struct nvml *n, nvml_handle card, char *out, size_t size)
{
	return n->call.uuid && text_ok(n->call.uuid(card, out, (unsigned)size), out, size);
}

bool nvml_pci_id(const struct nvml *n, nvml_handle card, char *out, size_t size)
{
	struct nvml_pci pci = { .bus_id = "" };

	if (!n->call.pci || n->call.pci(card, &pci) || !text_ok(0, pci.bus_id, sizeof pci.bus_id))
		return false;
	for (char *p = pci.bus_id; *p; p++)
		*p = (char)tolower((unsigned char)*p);
	snprintf(out, size, "%s", pci.bus_id);
	return true;
}

bool nvml_capability(const struct nvml *n, nvml_handle card, int *major, int *minor)
{
	return n->call.capability && !n->call.capability(card, major, minor);
}

bool nvml_max_clock(const struct nvml *n, nvml_handle card, enum nvml_clock clock, unsigned *mhz)
{
	return n->call.max_clock && !n->call.max_clock(card, clock, mhz);
}

bool nvml_power_limit(const struct nvml *n, nvml_handle card, unsigned *mw)
{
	return n->call.power_limit && !n->call.power_limit(card, mw);
}

bool nvml_ecc(const struct nvml *n, nvml_handle card, bool *on)
{
	unsigned now, pending;

	if (!n->call.ecc || n->call.ecc(card, &now, &pending))
		return false;
	*on = now == 1;
	return true;
}

bool nvml_mig(const struct nvml *n, nvml_handle card, bool *on)
{
	unsigned now, pending;

	if (!n->call.mig || n->call.mig(card, &now, &pending))
		return false;
	*on = now == 1;
	return true;
}

bool nvml_persistence(const struct nvml *n, nvml_handle card, bool *on)
{
	unsigned now;

	if (!n->call.persistence || n->call.persistence(card, &now))
		return false;
	*on = now == 1;
	return true;
}

bool nvml_compute_mode(const struct nvml *n, nvml_handle card, const char **out)
{
	static const char *const names[] = { "default", "exclusive thread", "prohibited", "exclusive process" };
	unsigned mode;

	if (!n->call.compute_mode || n->call.compute_mode(card, &mode) || mode >= TM_ARRAY_N(names))
		return false;
	*out = names[mode];
	return true;
}

/* ---- what does ------------------------------------------------------------------------- */

bool nvml_memory(const struct nvml *n, nvml_handle card, struct nvml_memory *out)
{
	struct nvml_memory_v2 v2 = { .version = NVML_STRUCT_VERSION(v2, 2) };
	struct nvml_memory_v1 v1;

	if (n->call.memory_v2 && !n->call.memory_v2(card, &v2)) {
		*out = (struct nvml_memory){ v2.total, v2.used, true };
		return true;
	}
	if (!n->call.memory_v1 || n->call.memory_v1(card, &v1))
		return false;
	*out = (struct nvml_memory){ v1.total, v1.used, false };
	return true;
}

bool nvml_clock(const struct nvml *n, nvml_handle card, enum nvml_clock clock, unsigned *mhz)
{
	return n->call.clock && !n->call.clock(card, clock, mhz);
}

bool nvml_power(const struct nvml *n, nvml_handle card, unsigned *mw)
{
	return n->call.power && !n->call.power(card, mw);
}

bool nvml_temperature(const struct nvml *n, nvml_handle card, unsigned *celsius)
{
	return n->call.temperature && !n->call.temperature(card, NVML_TEMPERATURE_GPU, celsius);
}

bool nvml_reasons(const struct nvml *n, nvml_handle card, uint64_t *out)
{
	unsigned long long v;

	if (!n->call.reasons || n->call.reasons(card, &v))
		return false;
	*out = v;
	return true;
}

bool nvml_energy(const struct nvml *n, nvml_handle card, uint64_t *mj)
{
	unsigned long long v;

	if (!n->call.energy || n->call.energy(card, &v))
		return false;
	*mj = v;
	return true;
}

#define USERS_MAX 256

static void take_user(struct nvml_user *out, size_t max, size_t *n, unsigned pid, unsigned long long used)
{
	if (*n < max)
		out[*n] = (struct nvml_user){ pid, used == NVML_NO_VALUE ? 0 : used };
	(*n)++;
}

/* A list that is longer than the buffer fails whole; 256 contexts on one card are more than its memory takes. */
bool nvml_users(const struct nvml *n, nvml_handle card, struct nvml_user *out, size_t max, size_t *used)
{
	struct nvml_process v[USERS_MAX];
	struct nvml_process_v1 old[USERS_MAX];
	unsigned got = USERS_MAX;
	int code = n->call.users ? n->call.users(card, &got, v) : NVML_FUNCTION_NOT_FOUND;

	*used = 0;
	if (!code) {
		for (unsigned i = 0; i < got; i++)
			take_user(out, max, used, v[i].pid, v[i].used);
	} else {
		got = USERS_MAX;
		if (code != NVML_FUNCTION_NOT_FOUND || !n->call.users_v1 || n->call.users_v1(card, &got, old))
			return false;
		for (unsigned i = 0; i < got; i++)
			take_user(out, max, used, old[i].pid, old[i].used);
	}
	*used = *used < max ? *used : max;
	return true;
}

/* ---- activity --------------------------------------------------------------------------- */

struct nvml_gpm {
	const struct nvml *n;
	nvml_handle card;
	nvml_gpm_handle at[2];
	bool taken[2];
	struct nvml_gpm_get get;
};

struct nvml_gpm *nvml_gpm_new(const struct nvml *n, nvml_handle card)
{
	const struct nvml_calls *call = &n->call;
	struct nvml_gpm_support support = { .version = 1 };
	struct nvml_gpm *g;

	if (!call->gpm_support || !call->gpm_alloc || !call->gpm_free || !call->gpm_take || !call->gpm_get ||
	    call->gpm_support(card, &support) || !support.supported)
		return NULL;
	g = tm_xcalloc(1, sizeof *g);
	g->n = n;
	g->card = card;
	if (!call->gpm_alloc(&g->at[0]) && !call->gpm_alloc(&g->at[1]))
		return g;
	nvml_gpm_free(g);
	return NULL;
}

void nvml_gpm_free(struct nvml_gpm *g)
{
	if (!g)
		return;
	for (int i = 0; i < 2; i++)
		if (g->at[i])
			g->n->call.gpm_free(g->at[i]);
	free(g);
}

bool nvml_gpm_take(struct nvml_gpm *g, bool end)
{
	g->taken[end] = !g->n->call.gpm_take(g->card, g->at[end]);
	return g->taken[end];
}

/* Shares can come out a little above 1 where the two samples are close together. */
static double share(const struct nvml_gpm_value *v)
{
	if (v->code || !isfinite(v->value) || v->value < 0)
		return NAN;
	return v->value > 100 ? 1 : v->value / 100;
}

bool nvml_gpm_read(struct nvml_gpm *g, struct nvml_activity *out)
{
	static const unsigned metrics[] = { NVML_GPM_SM, NVML_GPM_TENSOR, NVML_GPM_DRAM };

	if (!g->taken[0] || !g->taken[1])
		return false;
	memset(&g->get, 0, sizeof g->get);
	g->get.version = 1;
	g->get.n = TM_ARRAY_N(metrics);
	g->get.from = g->at[0];
	g->get.to = g->at[1];
	for (size_t i = 0; i < TM_ARRAY_N(metrics); i++)
		g->get.value[i].metric = metrics[i];
	if (g->n->call.gpm_get(&g->get))
		return false;
	*out = (struct nvml_activity){ share(&g->get.value[0]), share(&g->get.value[1]), share(&g->get.value[2]) };
	return true;
}

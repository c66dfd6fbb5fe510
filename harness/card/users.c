#include "card/users.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/utf8.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* The program's name as the kernel has it; a process of another pid namespace has none here. */
static void name_of(struct card_user *u)
{
	struct tm_str shown = TM_STR_INIT;
	char dir[40], comm[64];

	snprintf(dir, sizeof dir, "/proc/%" PRId64, u->pid);
	if (tm_value_get(dir, "comm", comm, sizeof comm)) {
		comm[strcspn(comm, "\n")] = '\0';
		tm_utf8_show_line(&shown, comm, strlen(comm));
		snprintf(u->program, sizeof u->program, "%.60s", shown.s);
	}
	tm_str_free(&shown);
}

bool card_users_read(const struct nvml *n, nvml_handle card, struct card_user out[CARD_USERS_MAX], size_t *used)
{
	struct nvml_user v[CARD_USERS_MAX];

	*used = 0;
	if (!nvml_users(n, card, v, CARD_USERS_MAX, used))
		return false;
	for (size_t i = 0; i < *used; i++) {
		out[i] = (struct card_user){ .pid = v[i].pid, .bytes = v[i].bytes };
		name_of(&out[i]);
	}
	return true;
}

void card_users_text(const struct card_user *v, size_t n, struct tm_str *out)
{
	char size[32];

	for (size_t i = 0; i < n && i < 4; i++) {
		if (*v[i].program)
			tm_str_addf(out, "%s%s (process %" PRId64 ")", i ? ", " : "", v[i].program, v[i].pid);
		else
			tm_str_addf(out, "%sprocess %" PRId64 " (which cannot be seen from here)", i ? ", " : "", v[i].pid);
		if (v[i].bytes)
			tm_str_addf(out, " with %s", tm_size_text((double)v[i].bytes, size));
	}
	if (n > 4)
		tm_str_addf(out, " and %zu more", n - 4);
}

void card_reasons_text(uint64_t reasons, struct tm_str *out)
{
	static const struct { uint64_t bit; const char *text; } names[] = {
		{ NVML_REASON_SETTING, "application clocks" }, { NVML_REASON_POWER_CAP, "power cap" },
		{ NVML_REASON_HW_SLOWDOWN, "hardware slowdown" }, { NVML_REASON_SYNC_BOOST, "sync boost" },
		{ NVML_REASON_SW_THERMAL, "heat" }, { NVML_REASON_HW_THERMAL, "heat (hardware)" },
		{ NVML_REASON_POWER_BRAKE, "power brake" }, { NVML_REASON_DISPLAY, "display clocks" },
		{ NVML_REASON_IDLE, "idle" },
	};
	size_t before = out->n;

	for (size_t i = 0; i < TM_ARRAY_N(names); i++)
		if (reasons & names[i].bit)
			tm_str_addf(out, "%s%s", out->n > before ? ", " : "", names[i].text);
}

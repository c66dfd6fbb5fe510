#include "base/clock.h"

#include <errno.h>
#include <time.h>

static int64_t read_ns(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

int64_t tm_mono_ns(void)
{
	return read_ns(CLOCK_MONOTONIC);
}

int64_t tm_mono_us(void)
{
	return read_ns(CLOCK_MONOTONIC) / 1000;
}

int64_t tm_wall_us(void)
{
	return read_ns(CLOCK_REALTIME) / 1000;
}

void tm_sleep_us(int64_t us)
{
	struct timespec ts = { us / 1000000, us % 1000000 * 1000 };

	if (us <= 0)
		return;
	while (nanosleep(&ts, &ts) < 0 && errno == EINTR)
		;
}

char *tm_iso_time(int64_t wall_us, char out[32])
{
	time_t s = (time_t)(wall_us / 1000000);
	struct tm tm;

	gmtime_r(&s, &tm);
	strftime(out, 32, "%Y-%m-%dT%H:%M:%SZ", &tm);
	return out;
}

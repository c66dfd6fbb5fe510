/*
 * Host memory for the CPU device. One large range of addresses is reserved
 * without access rights, which costs nothing; an allocation makes its part
 * readable and writable, a free takes the pages and the rights away again, so
 * that a use after free faults instead of reading old numbers.
 *
 * Why not one mmap a segment: where the kernel places it depends on what else
 * the process has mapped, and PyTorch's allocator breaks ties by address. With
 * places chosen by space.h the order of segments is the same in every run, and
 * the same as on a planning device.
 */
#include "memory/driver.h"

#include "base/file.h"
#include "base/mem.h"
#include "memory/space.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Enough for every gap that fragmentation can leave; halved where a limit forbids it. */
#define RESERVE_MOST_BYTES  (16ull << 40)
#define RESERVE_LEAST_BYTES (1ull << 30)

struct driver_host {
	struct mem_driver driver;
	struct space space;
	void *reserved;
	uint64_t reserved_bytes, capacity;
};

static void *at(uint64_t addr)
{
	return (void *)(uintptr_t)addr;
}

static int host_alloc(struct mem_driver *drv, uint64_t bytes, uint64_t *addr, struct tm_err *err)
{
	struct driver_host *d = (struct driver_host *)drv;

	if (bytes > d->capacity - drv->held || space_round(&d->space, bytes) > d->capacity - drv->held)
		return tm_fail(err, TM_EOOM, "%llu bytes are beyond the %llu bytes of host memory, %llu of them in use",
			       (unsigned long long)bytes, (unsigned long long)d->capacity, (unsigned long long)drv->held);
	if (!space_take(&d->space, bytes, addr))
		return tm_fail(err, TM_EOOM, "no range of %llu addresses is left", (unsigned long long)bytes);
	bytes = space_round(&d->space, bytes);
	if (mprotect(at(*addr), bytes, PROT_READ | PROT_WRITE)) {
		int sys = errno;

		space_give(&d->space, *addr, bytes);
		errno = sys;
		return tm_fail(err, sys == ENOMEM ? TM_EOOM : TM_EIO, "the kernel refused %llu bytes: %s",
			       (unsigned long long)bytes, strerror(sys));
	}
	drv->held += bytes;
	return 0;
}

static void host_free(struct mem_driver *drv, uint64_t addr, uint64_t bytes)
{
	struct driver_host *d = (struct driver_host *)drv;

	bytes = space_round(&d->space, bytes);
	/* A fresh mapping in place: pages, swap and commit charge go back at once. */
	if (mmap(at(addr), bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED)
		BUG("cannot give back %llu bytes: %s", (unsigned long long)bytes, strerror(errno));
	space_give(&d->space, addr, bytes);
	drv->held -= bytes;
}

/* What the kernel thinks can be had without swapping; 0 where it does not say. */
static uint64_t available_bytes(void)
{
	static const char key[] = "MemAvailable:";
	struct tm_str text = TM_STR_INIT;
	uint64_t bytes = 0;
	const char *p;

	/* /proc files claim to be empty, so by descriptor and not by tm_read_file. */
	FILE *f = fopen("/proc/meminfo", "re");

	if (!f)
		return 0;
	if (!tm_read_fd(fileno(f), 1 << 16, &text, NULL) && (p = strstr(text.s, key)))
		bytes = strtoull(p + sizeof key - 1, NULL, 10) * 1024;
	fclose(f);
	tm_str_free(&text);
	return bytes;
}

static uint64_t physical_bytes(void)
{
	long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);

	return pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : 0;
}

static void host_info(struct mem_driver *drv, uint64_t *total, uint64_t *unused)
{
	const struct driver_host *d = (const struct driver_host *)drv;
	uint64_t left = d->capacity - drv->held, available = available_bytes();

	*total = d->capacity;
	*unused = available && available < left ? available : left;
}

static void host_close(struct mem_driver *drv)
{
	struct driver_host *d = (struct driver_host *)drv;

	munmap(d->reserved, d->reserved_bytes);
	space_fini(&d->space);
	free(d);
}

struct mem_driver *driver_host_new(uint64_t capacity_bytes, struct tm_err *err)
{
	struct driver_host *d = tm_xcalloc(1, sizeof *d);
	uint64_t bytes = RESERVE_MOST_BYTES, page = (uint64_t)sysconf(_SC_PAGESIZE);

	d->driver = (struct mem_driver){ .alloc = host_alloc, .free = host_free, .info = host_info, .close = host_close };
	d->capacity = capacity_bytes ? capacity_bytes : physical_bytes();
	for (d->reserved = MAP_FAILED; bytes >= RESERVE_LEAST_BYTES; bytes /= 2) {
		d->reserved = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (d->reserved != MAP_FAILED)
			break;
	}
	if (d->reserved == MAP_FAILED || !d->capacity) {
		tm_fail(err, TM_EENV, "no range of addresses for host memory: %s; is there a limit on address space (ulimit -v)?",
			strerror(errno));
		if (d->reserved != MAP_FAILED)
			munmap(d->reserved, bytes);
		free(d);
		return NULL;
	}
	d->reserved_bytes = bytes;
	space_init(&d->space, (uint64_t)(uintptr_t)d->reserved, (uint64_t)(uintptr_t)d->reserved + bytes,
		   page < 4096 ? 4096 : page);
	return &d->driver;
}

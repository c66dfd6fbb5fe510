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
 *
 * The lower half of the range is for policies that reserve addresses
 * themselves and map memory to them bit by bit; rights then change for what is
 * mapped only.
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
	struct space space, ranges;       /* of segments; of reserved addresses */
	void *reserved;
	uint64_t reserved_bytes, capacity;
};

static void *at(uint64_t addr)
{
	return (void *)(uintptr_t)addr;
}

static int room_for(const struct driver_host *d, uint64_t bytes, struct tm_err *err)
{
	uint64_t left = d->capacity - d->driver.held;

	if (bytes <= left && space_round(&d->space, bytes) <= left)
		return 0;
	return tm_fail(err, TM_EOOM, "%llu bytes are beyond the %llu bytes of host memory, %llu of them in use",
		       (unsigned long long)bytes, (unsigned long long)d->capacity, (unsigned long long)d->driver.held);
}

static int place(struct space *space, uint64_t bytes, uint64_t *addr, struct tm_err *err)
{
	if (space_take(space, bytes, addr))
		return 0;
	return tm_fail(err, TM_EOOM, "no range of %llu addresses is left", (unsigned long long)bytes);
}

static int open_pages(uint64_t addr, uint64_t bytes, struct tm_err *err)
{
	int sys;

	if (!mprotect(at(addr), bytes, PROT_READ | PROT_WRITE))
		return 0;
	sys = errno;
	return tm_fail(err, sys == ENOMEM ? TM_EOOM : TM_EIO, "the kernel refused %llu bytes: %s",
		       (unsigned long long)bytes, strerror(sys));
}

/* A fresh mapping in place: pages, swap and commit charge go back at once. */
static void close_pages(uint64_t addr, uint64_t bytes)
{
	if (mmap(at(addr), bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED)
		BUG("cannot give back %llu bytes: %s", (unsigned long long)bytes, strerror(errno));
}

static int host_alloc(struct mem_driver *drv, uint64_t bytes, uint64_t *addr, struct tm_err *err)
{
	struct driver_host *d = (struct driver_host *)drv;
	int rc = room_for(d, bytes, err);

	if (!rc)
		rc = place(&d->space, bytes, addr, err);
	if (rc)
		return rc;
	bytes = space_round(&d->space, bytes);
	rc = open_pages(*addr, bytes, err);
	if (rc)
		space_give(&d->space, *addr, bytes);
	else
		drv->held += bytes;
	return rc;
}

static void host_free(struct mem_driver *drv, uint64_t addr, uint64_t bytes)
{
	struct driver_host *d = (struct driver_host *)drv;

	bytes = space_round(&d->space, bytes);
	close_pages(addr, bytes);
	space_give(&d->space, addr, bytes);
	drv->held -= bytes;
}

static int host_reserve(struct mem_driver *drv, uint64_t bytes, uint64_t page, uint64_t *addr, struct tm_err *err)
{
	(void)page;                       /* the kernel gives any page back alone */
	return place(&((struct driver_host *)drv)->ranges, bytes, addr, err);
}

static int host_map(struct mem_driver *drv, uint64_t addr, uint64_t bytes, struct tm_err *err)
{
	int rc = room_for((struct driver_host *)drv, bytes, err);

	if (!rc)
		rc = open_pages(addr, bytes, err);
	if (!rc)
		drv->held += bytes;
	return rc;
}

static void host_unmap(struct mem_driver *drv, uint64_t addr, uint64_t bytes)
{
	close_pages(addr, bytes);
	drv->held -= bytes;
}

static void host_release(struct mem_driver *drv, uint64_t addr, uint64_t bytes)
{
	space_give(&((struct driver_host *)drv)->ranges, addr, bytes);
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
	space_fini(&d->ranges);
	free(d);
}

struct mem_driver *driver_host_new(uint64_t capacity_bytes, struct tm_err *err)
{
	struct driver_host *d = tm_xcalloc(1, sizeof *d);
	uint64_t bytes = RESERVE_MOST_BYTES, page = (uint64_t)sysconf(_SC_PAGESIZE), low;

	d->driver = (struct mem_driver){
		.alloc = host_alloc, .free = host_free, .info = host_info, .close = host_close,
		.reserve = host_reserve, .map = host_map, .unmap = host_unmap, .release = host_release,
	};
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
	page = page < 4096 ? 4096 : page;
	low = (uint64_t)(uintptr_t)d->reserved;
	space_init(&d->ranges, low, low + bytes / 2, page);
	space_init(&d->space, low + bytes / 2, low + bytes, page);
	return &d->driver;
}

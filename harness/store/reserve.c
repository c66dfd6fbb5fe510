/*
 * Room for the last result. When the disk is full the run that has just
 * ended would be lost; so a small file is kept beside the database whose only use
 * is to be deleted in that moment.
 */
#include "store/db.h"

#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static char *reserve_path(const struct store *st)
{
	struct tm_str s = TM_STR_INIT;

	tm_str_addf(&s, "%s-reserve", st->path);
	return tm_str_detach(&s);
}

/*
 * Made when a database is opened for writing. Not being able to is no
 * error: the disk may be full already, and the database itself still good.
 * A file of that name is lengthened if it is short, never cut or overwritten.
 */
void store_reserve_ensure(struct store *st)
{
	char *path = reserve_path(st);
	struct stat sb;
	bool fresh;
	int fd;

	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0644);
	if (fd < 0)
		goto out;
	if (fstat(fd, &sb) < 0 || !S_ISREG(sb.st_mode))
		goto close;
	fresh = sb.st_size == 0;
	st->reserve = sb.st_size == STORE_RESERVE_BYTES ||
		      (fresh && posix_fallocate(fd, 0, STORE_RESERVE_BYTES) == 0);
	if (fresh && !st->reserve)
		unlink(path);           /* what could not be had in full would only eat room */
close:
	close(fd);
out:
	free(path);
}

bool store_release_reserve(struct store *st)
{
	char *path = reserve_path(st);
	int log_n = 0, folded_n = 0;
	struct stat sb;
	bool freed = false;

	/*
	 * First the log: its pages often replace each other, so folding it back
	 * may free more than the reserve. Before the reserve is gone, since growing the
	 * database could eat it up and still leave the log.
	 */
	if (sqlite3_wal_checkpoint_v2(st->db, "main", SQLITE_CHECKPOINT_TRUNCATE, &log_n, &folded_n) == SQLITE_OK)
		freed = log_n >= 0 && folded_n > 0;
	if (lstat(path, &sb) == 0 && S_ISREG(sb.st_mode) && sb.st_size == STORE_RESERVE_BYTES && unlink(path) == 0)
		freed = true;
	st->reserve = false;
	free(path);
	return freed;
}

bool store_is_full(const struct store *st)
{
	return st->full;
}

int64_t store_need_bytes(const struct store *st)
{
	return st->need_bytes;
}

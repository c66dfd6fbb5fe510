/*
 * Opening a database: ours is told from others before SQLite may change a
 * byte of it, a first start races cleanly, and a reader changes nothing.
 *
 * The schema and the application id are committed with a rollback journal
 * and only then the database goes over to WAL: so the header in the file
 * itself says whose it is from the first moment, also after a crash.
 */
#include "store/db.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define HEADER_N 100                    /* sqlite.org/fileformat.html 1.3 */
#define HEADER_VERSION 60
#define HEADER_APPLICATION 68

#define WAL_PAGES 256                   /* fold the log back at 1 MiB; SQLite's 4 MiB do not fit small disks */

enum found { FOUND_NOTHING, FOUND_EMPTY, FOUND_FILE };

static int look(struct store *st, enum found *found, struct tm_err *err)
{
	struct stat sb;

	if (stat(st->path, &sb) < 0) {
		*found = FOUND_NOTHING;
		if (errno == ENOENT)
			return 0;
		return tm_fail_at(err, TM_ESTORE, st->path, 0, 0, "%s; name another database with --db", strerror(errno));
	}
	if (!S_ISREG(sb.st_mode))
		return tm_fail_at(err, TM_ESTORE, st->path, 0, 0, "%s, not a file; name another database with --db",
				  S_ISDIR(sb.st_mode) ? "a folder" : "a device or pipe");
	*found = sb.st_size ? FOUND_FILE : FOUND_EMPTY;
	return 0;
}

static uint32_t be32(const unsigned char *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static int check_identity(struct store *st, uint32_t application, uint32_t version, struct tm_err *err)
{
	if (application != STORE_APPLICATION_ID)
		return tm_fail_at(err, TM_ESTORE, st->path, 0, 0, "a database of another program (application id 0x%08x); "
				  "left untouched; name another database with --db", application);
	if (version > STORE_SCHEMA_VERSION)
		return tm_fail_at(err, TM_ESTORE, st->path, 0, 0, "written by a newer tidemark (schema %u, this one knows %d); "
				  "left untouched; use the newer program or another database", version, STORE_SCHEMA_VERSION);
	if (version < STORE_SCHEMA_VERSION)
		return tm_fail_at(err, TM_ESTORE, st->path, 0, 0, "has schema %u, this tidemark needs %d; left untouched; "
				  "export with the program that wrote it, then import", version, STORE_SCHEMA_VERSION);
	return 0;
}

/*
 * Reads the header through SQLite's own descriptor: closing one of ours on
 * the same file would drop the POSIX locks of every connection in this process.
 */
static int check_header(struct store *st, struct tm_err *err)
{
	unsigned char header[HEADER_N];
	sqlite3_file *file = NULL;
	int code;

	code = sqlite3_file_control(st->db, "main", SQLITE_FCNTL_FILE_POINTER, &file);
	if (code != SQLITE_OK || !file || !file->pMethods)
		return tm_fail_at(err, TM_ESTORE, st->path, 0, 0, "cannot open; check the path and its permissions");
	code = file->pMethods->xRead(file, header, HEADER_N, 0);
	if (code != SQLITE_OK && code != SQLITE_IOERR_SHORT_READ)
		return db_fail(st, code, err);
	if (code != SQLITE_OK || memcmp(header, "SQLite format 3", 16))
		return tm_fail_at(err, TM_ESTORE, st->path, 0, 0, "not a SQLite database; left untouched; "
				  "name another database with --db");
	return check_identity(st, be32(header + HEADER_APPLICATION), be32(header + HEADER_VERSION), err);
}

/* SQLite takes ":memory:" and "" for something else than files. */
static char *sqlite_path(const char *path)
{
	return *path == '/' ? tm_xstrdup(path) : tm_path_join(".", path);
}

static int open_file(struct store *st, const char *name, int flags, struct tm_err *err)
{
	int code = sqlite3_open_v2(name, &st->db, flags | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, NULL);

	if (code == SQLITE_OK)
		return 0;
	if (st->db)
		code = db_fail(st, code, err);
	else
		code = tm_fail_at(err, TM_ENOMEM, st->path, 0, 0, "SQLite is out of memory");
	sqlite3_close(st->db);
	st->db = NULL;
	return code;
}

static int configure(struct store *st, struct tm_err *err)
{
	sqlite3_busy_timeout(st->db, STORE_BUSY_MS);
	/* "x" in a query is never a text. TRUSTED_SCHEMA stays on: without it 3.40 refuses json_valid() in a CHECK. */
	sqlite3_db_config(st->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
	sqlite3_db_config(st->db, SQLITE_DBCONFIG_DQS_DML, 0, NULL);
	sqlite3_db_config(st->db, SQLITE_DBCONFIG_DQS_DDL, 0, NULL);
	sqlite3_db_config(st->db, SQLITE_DBCONFIG_ENABLE_FKEY, 1, NULL);
	sqlite3_wal_autocheckpoint(st->db, WAL_PAGES);
	return db_exec(st, err, "PRAGMA temp_store = MEMORY");
}

static int identity(struct store *st, int64_t *application, int64_t *version, struct tm_err *err)
{
	int rc = db_int(st, err, application, "PRAGMA application_id");

	if (!rc)
		rc = db_int(st, err, version, "PRAGMA user_version");
	return rc;
}

static int create_in_transaction(struct store *st, struct tm_err *err)
{
	int64_t application, version, tables;
	int rc = identity(st, &application, &version, err);

	if (!rc)
		rc = db_int(st, err, &tables, "SELECT count(*) FROM sqlite_schema");
	if (rc)
		return rc;
	if (application || tables)      /* somebody was first; ours? */
		return check_identity(st, (uint32_t)application, (uint32_t)version, err);
	if (sqlite3_exec(st->db, store_schema_sql, NULL, NULL, NULL) != SQLITE_OK)
		return db_fail(st, sqlite3_extended_errcode(st->db), err);
	rc = db_exec(st, err, "INSERT INTO migration(version, applied_us, tool) VALUES (?,?,?)",
		     DB_INT(STORE_SCHEMA_VERSION), DB_INT(tm_wall_us()), DB_TEXT("tidemark"));
	if (!rc)
		rc = store_metrics_builtin(st, err);
	/* Both are pages of this transaction like any other. They take no bound values. */
	if (!rc)
		rc = db_exec(st, err, "PRAGMA application_id = 0x54444d4b");
	if (!rc)
		rc = db_exec(st, err, "PRAGMA user_version = 1");
	return rc;
}

static int create(struct store *st, struct tm_err *err)
{
	int rc = db_begin(st, err);

	if (rc)
		return rc;
	return db_end(st, create_in_transaction(st, err), err);
}

/* Needs the database for itself for a moment, and SQLite does not wait for that: another may be doing the same. */
static int go_over_to_wal(struct store *st, struct tm_err *err)
{
	int64_t until = tm_mono_us() + STORE_BUSY_MS * 1000;

	for (;;) {
		struct tm_err now = { 0 };      /* a refusal that was waited out is none: *err stays as it was */
		int rc = db_exec(st, &now, "PRAGMA journal_mode = WAL");

		if (!rc || (sqlite3_errcode(st->db) & 0xff) != SQLITE_BUSY || tm_mono_us() > until) {
			if (rc && err)
				*err = now;
			return rc;
		}
		tm_sleep_us(2000);
	}
}

/* SQLite's WAL needs shared memory, which a network file system does not offer between machines. */
static bool on_network(const char *path)
{
	static const long types[] = { 0x6969 /* NFS */, 0x517B /* SMB */, 0xFE534D42 /* SMB2 */, 0xFF534D42 /* CIFS */,
				      0x5346414F /* AFS */, 0x00C36400 /* Ceph */, 0x01021997 /* 9p */ };
	struct statfs fs;

	if (statfs(path, &fs) < 0)
		return false;
	for (size_t i = 0; i < TM_ARRAY_N(types); i++)
		if ((uint32_t)fs.f_type == (uint32_t)types[i])
			return true;
	return false;
}

static int set_journal(struct store *st, struct tm_err *err)
{
	int rc;

	if (on_network(st->path)) {
		snprintf(st->warning, sizeof st->warning, "%s lies on a network file system: no write-ahead log, "
			 "so one machine at a time; a local database and an export are safer", st->path);
		return db_exec(st, err, "PRAGMA journal_mode = DELETE");
	}
	rc = go_over_to_wal(st, err);
	if (!rc)
		rc = db_exec(st, err, "PRAGMA journal_size_limit = 1048576");
	/* The log is synced when it is folded back: a power cut loses the last runs at most, never the database. */
	if (!rc)
		rc = db_exec(st, err, "PRAGMA synchronous = NORMAL");
	return rc;
}

static int open_write(struct store *st, struct tm_err *err)
{
	char *name = sqlite_path(st->path), *dir = tm_path_dir(st->path);
	int64_t application = 0, version = 0;
	enum found found;
	int rc = look(st, &found, err);

	if (!rc && found == FOUND_NOTHING) {
		rc = tm_mkdirs(dir, err);
		if (rc && err)
			err->code = TM_ESTORE;
		rc = rc ? TM_ESTORE : 0;
	}
	if (!rc)
		rc = open_file(st, name, SQLITE_OPEN_READWRITE | (found == FOUND_NOTHING ? SQLITE_OPEN_CREATE : 0), err);
	if (!rc && sqlite3_db_readonly(st->db, "main"))
		rc = db_fail(st, SQLITE_READONLY, err);
	if (!rc && found == FOUND_FILE)
		rc = check_header(st, err);
	if (!rc)
		rc = configure(st, err);
	if (!rc)
		rc = identity(st, &application, &version, err);
	/* 0 also where a creator was killed in its commit and SQLite has just undone it */
	if (!rc && !application)
		rc = create(st, err);
	if (!rc)
		rc = identity(st, &application, &version, err);
	if (!rc)
		rc = check_identity(st, (uint32_t)application, (uint32_t)version, err);
	if (!rc)
		rc = set_journal(st, err);
	if (!rc)
		store_reserve_ensure(st);
	free(name);
	free(dir);
	return rc;
}

/* A file: URI with everything but plain characters encoded, for a folder in which SQLite cannot put its log. */
static char *immutable_uri(const char *name)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~/";
	struct tm_str uri = TM_STR_INIT;

	tm_str_add(&uri, "file:");
	for (const char *p = name; *p; p++) {
		if (strchr(plain, *p))
			tm_str_addc(&uri, *p);
		else
			tm_str_addf(&uri, "%%%02x", (unsigned char)*p);
	}
	tm_str_add(&uri, "?immutable=1");
	return tm_str_detach(&uri);
}

static off_t size_beside(const struct store *st, const char *suffix)
{
	struct tm_str name = TM_STR_INIT;
	struct stat sb;
	off_t size;

	tm_str_addf(&name, "%s%s", st->path, suffix);
	size = stat(name.s, &sb) < 0 ? -1 : sb.st_size;
	tm_str_free(&name);
	return size;
}

/* True if nobody can be writing: nothing in a log, nobody who shares memory, no right to make either. */
static bool cannot_change(const struct store *st)
{
	char *dir = tm_path_dir(st->path);
	bool yes = size_beside(st, "-wal") <= 0 && size_beside(st, "-shm") < 0 && access(dir, W_OK) < 0;

	free(dir);
	return yes;
}

static int check_open(struct store *st, struct tm_err *err)
{
	int64_t application, version;
	int rc = check_header(st, err);

	if (!rc)
		rc = configure(st, err);
	if (!rc)
		rc = db_exec(st, err, "PRAGMA query_only = ON");
	if (!rc)
		rc = identity(st, &application, &version, err);
	if (!rc)
		rc = check_identity(st, (uint32_t)application, (uint32_t)version, err);
	return rc;
}

static int open_read(struct store *st, struct tm_err *err)
{
	char *name = NULL, *uri = NULL;
	enum found found;
	int rc = look(st, &found, err);

	if (rc)
		return rc;
	if (found != FOUND_FILE)
		return tm_fail(err, TM_ENONE, "no database at %s yet; run something first, or name one with --db", st->path);
	name = sqlite_path(st->path);
	if (cannot_change(st)) {
		uri = immutable_uri(name);
		rc = open_file(st, uri, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, err);
	} else {
		rc = open_file(st, name, SQLITE_OPEN_READONLY, err);
	}
	if (!rc)
		rc = check_open(st, err);
	free(name);
	free(uri);
	return rc;
}

int store_open(const char *path, enum store_mode mode, struct store **out, struct tm_err *err)
{
	struct store *st = tm_xcalloc(1, sizeof *st);
	int rc;

	*out = NULL;
	st->path = tm_xstrdup(path);
	st->mode = mode;
	st->need_bytes = 1 << 20;       /* an empty database with its log */
	rc = mode == STORE_WRITE ? open_write(st, err) : open_read(st, err);
	if (rc) {
		store_close(st);
		return rc;
	}
	*out = st;
	return 0;
}

void store_close(struct store *st)
{
	if (!st)
		return;
	for (size_t i = 0; i < st->cache_n; i++)
		sqlite3_finalize(st->cache[i].stmt);
	sqlite3_close(st->db);
	free(st->path);
	free(st->seen_owner);
	json_decref(st->spec);
	free(st);
}

const char *store_path(const struct store *st)
{
	return st->path;
}

const char *store_warning(const struct store *st)
{
	return *st->warning ? st->warning : NULL;
}

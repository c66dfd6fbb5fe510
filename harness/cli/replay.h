/*
 * tidemark replay: files and settings in, the worker asked once, and its
 * answer as a table, for programs, as a page, and into the database.
 */
#ifndef TM_CLI_REPLAY_H
#define TM_CLI_REPLAY_H

#include "cli/table.h"
#include "judge/replay_case.h"
#include "run/replay.h"

#include <jansson.h>
#include <stdint.h>

struct replay_options {
	struct cli_list conf, cap;
	const char *total, *outside, *device, *mode, *start, *against, *timeline, *out;
	bool sweep, min_cap, no_store;
};

/* A setting to replay under; its text as asked is in `asked`, for the worker. */
struct replay_setting {
	const char *conf;                 /* NULL: as recorded */
	uint64_t cap_bytes;               /* 0: none */
	bool hidden;                      /* only to be compared with: no row of its own */
};

struct replay_view {
	const struct replay_options *options;
	uint64_t total_bytes, outside_bytes;
	int device;
	bool exact, cold, detail, min_cap;
	struct replay_setting *settings; size_t setting_n;
	json_t *asked;                    /* the same, in the words of the protocol */
	char **files; size_t file_n;      /* as found, each once */
	size_t other;                     /* with --against: the file to compare with, maybe the same */
	struct replayed *replayed;        /* one a file */
	size_t *order;                    /* of the files that are shown, the worst first */
	size_t shown_n;
};

/* ---- replay_settings.c ------------------------------------------------------- */

/* From the options: what to replay under. TM_EUSAGE for a size, a mode, …. */
int replay_settings(struct cli *cli, struct replay_view *v);
/* As people call it: "its own", "defaults", the option string; appended. */
void replay_setting_name(const struct replay_setting *s, struct tm_str *out);

/* ---- replay_files.c -------------------------------------------------------------- */

/* Files as they are, folders as the recordings in them, by name; each once. TM_EINPUT: a folder without any, no such file. */
int replay_find_files(struct cli *cli, int argc, char **argv, struct replay_view *v);

/* ---- replay_table.c, replay_page.c, replay_json.c, replay_against.c, replay_state.c, replay_timeline.c ---------------- */

/* The results of one file with one cap to judge by. Points into v. */
struct replay_case replay_case_of(const struct replay_view *v, size_t file, double cap_bytes);
/* The caps that were given, ascending, or one 0. Returns how many; *out is to be freed. */
size_t replay_caps(const struct replay_view *v, double **out);

/* True where a setting of a file has a row: replayed, and not only to be compared with. */
bool replay_is_row(const struct replay_view *v, size_t file, size_t i);

/* For people: what matters most, the table, what follows from it. */
void replay_page(struct cli *cli, const struct replay_view *v, struct tm_str *out);
/* The table alone, for CSV and Markdown. */
void replay_table(struct cli *cli, const struct replay_view *v, struct tm_str *out);
void replay_json(struct cli *cli, const struct replay_view *v, struct tm_str *out);
/* The first file against the other. */
void replay_against(struct cli *cli, const struct replay_view *v, struct tm_str *out);
/* What a file without history shows: its state, and what to record next time. */
void replay_state(struct cli *cli, const struct replay_view *v, size_t file, struct tm_str *out);
/* The course of each setting as tab-separated text. */
void replay_timeline(const struct replay_view *v, struct tm_str *out);

/* ---- replay_refuse.c ------------------------------------------------------------------ */

/* Option strings and caps that make no sense: said on stderr. TM_EINPUT; there is no answer then. */
int replay_refuse_settings(struct cli *cli, const struct replay_view *v);
/* Files that could not be read or have no history: each said on stderr. TM_EINPUT, TM_ENONE, or 0; the others have gone on. */
int replay_refuse_files(struct cli *cli, const struct replay_view *v);

/* ---- replay_keep.c ---------------------------------------------------------------------- */

/* Into the database, and from there the page of --out. What cannot be stored is a note on stderr; TM_ESTORE: the page. */
int replay_keep(struct cli *cli, const struct replay_view *v);

#endif

/* The reader behind conf.h: words and where they stand (conf.c), keys and their values (conf_keys.c). */
#ifndef TM_CONF_PRIV_H
#define TM_CONF_PRIV_H

#include "memory/conf.h"

struct conf_word {
	size_t at;                        /* of its first byte in the text */
	char *s;
	bool gap;                         /* white space inside, which PyTorch drops */
};

struct conf_reader {
	const char *text;
	const struct conf_context *ctx;
	struct conf_word *word;
	size_t n, i;                      /* i: the one being read */
	char *letters;                    /* what the words point into */
	struct conf conf;                 /* so far */
	enum conf_verdict verdict;
	struct conf_notes *notes;         /* NULL: nobody asks */
	struct tm_err *err;
};

struct conf_key {
	const char *name, *alias;
	/* i is the word behind the key's separator; afterwards the last word of the value. */
	int (*read)(struct conf_reader *r, const struct conf_key *key);
	size_t offset;                    /* of the value in struct conf, for readers that serve several keys */
	int since_minor;                  /* the first PyTorch 2.x that knows it; 0: all */
	bool native_only;
	const char *inert;                /* why it changes nothing here; NULL: it does */
};

extern const struct conf_key conf_key[];
extern const size_t conf_key_n;

int conf_minor(const struct conf_reader *r);      /* of the PyTorch that is asked about */
/* Records the refusal; returns TM_EINVALID. */
int conf_refuse(struct conf_reader *r, enum conf_verdict verdict, size_t at, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
void conf_note(struct conf_reader *r, enum conf_note_kind kind, size_t at, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
/* The next word, which must be there. What it should be is `want`; another one is only remarked. */
int conf_separator(struct conf_reader *r, const char *want);
bool conf_is(const struct conf_reader *r, size_t i, const char *s);

#endif

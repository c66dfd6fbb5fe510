/*
 * The rules behind advice.h, as a table: what a rule looks at in a point's
 * plan, and which other values of which parameters it finds worth planning.
 * None of them knows what a change gains. A new rule is one entry.
 */
#ifndef TM_JUDGE_RULES_H
#define TM_JUDGE_RULES_H

#include "judge/advice.h"

/* What a rule sees of a point. */
struct sight {
	const char *workload;
	const json_t *params, *answer;
	const json_t *peak;               /* the one of the answer called "run" */
	struct advice_figures now;
};

/* What a change does to the results. */
enum numbers {
	NUMBERS_SAME,                     /* to the last bit */
	NUMBERS_ROUNDED,                  /* the same sums in another order */
	NUMBERS_CHANGED,                  /* another precision */
};

#define TRIALS_MAX 24

struct trial {
	const char *key;
	json_t *value;                    /* owned by the list */
	enum numbers numbers;
};

struct trials { struct trial v[TRIALS_MAX]; size_t n; };

/* Which of the trials of a rule becomes its advice, if any gains enough. */
enum pick {
	PICK_FIRST,                       /* the first that does: trials come in the order of preference */
	PICK_KNEE,                        /* of ever stronger ones the first behind which the peak falls no further */
	PICK_CHEAPEST,                    /* that which adds the fewest FLOPs; where memory is short, of those with which it fits */
	PICK_DROP,                        /* trial 0, if it costs no memory and saves FLOPs; the others are what to do instead */
};

struct rule {
	const char *name;
	enum pick pick;
	double gain;                      /* least share of the peak that it must save (PICK_DROP: of the FLOPs) */
	bool last;                        /* only where nothing else is left to say */
	/* True if it concerns this point; then why is "logits hold 41 % of the peak" or the like. */
	bool (*sees)(const struct sight *s, struct tm_str *why);
	/* Values the point does not have already. Impossible ones are fine, the worker refuses them. */
	void (*tries)(const struct sight *s, struct trials *t);
};

#define RULES_MAX 32
extern const struct rule rules[];
extern const size_t rules_n;              /* at most RULES_MAX */

/* The share of the blocks at the allocated peak that these categories hold; NULL ends the list. */
double sight_share(const struct sight *s, const char *const *categories);

#endif

/* The health of a loss scale. The rules are in scale.h. */
#include "judge/scale.h"

#include "base/num.h"

#include <math.h>

static int check_scale(const struct judge_scale *s, double scale, bool skipped, struct tm_err *err)
{
	if (!isfinite(scale))
		return tm_fail(err, TM_EINVALID, "the loss scale of step %zu is not a finite number", s->n);
	if (scale < JUDGE_SCALE_FLOOR)
		return tm_fail(err, TM_EINVALID, "the loss scale of step %zu is %.6g, below its floor of %g: "
			       "every step overflows and none is taken", s->n, scale, JUDGE_SCALE_FLOOR);
	if (s->row && s->scaled && scale > s->last)
		return tm_fail(err, TM_EINVALID, "the loss scale grew from %.9g to %.9g in step %zu, right behind a step that overflowed",
			       s->last, scale, s->n);
	if (skipped && scale == JUDGE_SCALE_FLOOR)
		return tm_fail(err, TM_EINVALID, "step %zu overflows at the floor of the loss scale (%g, from %.9g; %zu steps skipped): "
			       "training has diverged", s->n, JUDGE_SCALE_FLOOR, s->scaled ? s->first : scale, s->skipped + 1);
	return 0;
}

int judge_scale_step(struct judge_scale *s, double scale, bool skipped, struct tm_err *err)
{
	bool told = !(scale == JUDGE_SCALE_NONE);
	int rc = told ? check_scale(s, scale, skipped, err) : 0;

	if (rc)
		return rc;
	if (told) {
		s->first = s->scaled ? s->first : scale;
		s->lowest = s->scaled ? fmin(s->lowest, scale) : scale;
		s->last = scale;
		s->scaled++;
	}
	s->n++;
	s->skipped += skipped;
	s->row = skipped ? s->row + 1 : 0;
	if (s->row == JUDGE_SCALE_ROW)
		return tm_fail(err, TM_EINVALID, "%d steps in a row were skipped, up to step %zu: nothing is learnt",
			       JUDGE_SCALE_ROW, s->n - 1);
	return 0;
}

void judge_scale_text(const struct judge_scale *s, struct tm_str *out)
{
	if (!s->skipped)
		return;
	tm_str_addf(out, "%zu of %zu steps skipped after overflows", s->skipped, s->n);
	if (!s->scaled)
		return;
	tm_str_add(out, "; loss scale ");
	tm_add_double(out, s->first);
	tm_str_add(out, " at first, ");
	if (s->lowest < s->first && s->lowest < s->last) {
		tm_add_double(out, s->lowest);
		tm_str_add(out, " at the lowest, ");
	}
	tm_add_double(out, s->last);
	tm_str_add(out, " at the end");
}

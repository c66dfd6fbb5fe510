/*
 * Evaluation. Ints stay ints (overflow is an error, not a wrap); `/` gives a
 * real; `//` and `%` round towards minus infinity, so that
 * a == (a // b) * b + a % b and a % b has the sign of b.
 */
#include "spec/expr_node.h"

#include "base/err.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

const char *val_kind_name(enum val_kind kind)
{
	static const char *const names[] = { "nothing", "an int", "a real", "a bool", "a text", "a list" };

	return names[kind];
}

static bool is_number(const struct val *v)
{
	return v->kind == VAL_INT || v->kind == VAL_REAL;
}

static double real_of(const struct val *v)
{
	return v->kind == VAL_INT ? (double)v->i : v->d;
}

/* An int beside a real, without the rounding of (double)i: 2^53 + 1 is not 2^53. */
static int compare_int_real(int64_t i, double d)
{
	if (d >= 9223372036854775808.0)
		return -1;
	if (d < -9223372036854775808.0)
		return 1;
	if (i != (int64_t)d)
		return i < (int64_t)d ? -1 : 1;
	return d == trunc(d) ? 0 : d > trunc(d) ? -1 : 1;
}

static int compare_numbers(const struct val *a, const struct val *b)
{
	if (a->kind == VAL_INT && b->kind == VAL_INT)
		return a->i < b->i ? -1 : a->i > b->i;
	if (a->kind == VAL_INT)
		return compare_int_real(a->i, b->d);
	if (b->kind == VAL_INT)
		return -compare_int_real(b->i, a->d);
	return a->d < b->d ? -1 : a->d > b->d;
}

static bool equal(const struct val *a, const struct val *b)
{
	if (is_number(a) && is_number(b))
		return !compare_numbers(a, b);
	if (a->kind != b->kind)
		return false;
	switch (a->kind) {
	case VAL_BOOL:
		return a->b == b->b;
	case VAL_TEXT:
		return !strcmp(a->s, b->s);
	case VAL_LIST:
		if (a->list.n != b->list.n)
			return false;
		for (size_t i = 0; i < a->list.n; i++)
			if (!equal(&a->list.v[i], &b->list.v[i]))
				return false;
		return true;
	default:
		return false;    /* nothing equals nothing */
	}
}

static bool comparable(const struct val *a, const struct val *b)
{
	return a->kind == b->kind || (is_number(a) && is_number(b)) || a->kind == VAL_NONE || b->kind == VAL_NONE;
}

static int mismatch(const struct expr *e, const char *what, const struct val *a, const struct val *b,
		    struct expr_fault *fault)
{
	return expr_fault_set(fault, e->at, "%s: %s and %s do not go together", what,
			      val_kind_name(a->kind), val_kind_name(b->kind));
}

static int real_result(const struct expr *e, double d, struct val *out, struct expr_fault *fault)
{
	if (!isfinite(d))
		return expr_fault_set(fault, e->at, "the result is no finite number");
	*out = (struct val){ .kind = VAL_REAL, .d = d };
	return 0;
}

static int overflow(const struct expr *e, struct expr_fault *fault)
{
	return expr_fault_set(fault, e->at, "the result does not fit 64 bits");
}

static int int_arith(const struct expr *e, int64_t a, int64_t b, struct val *out, struct expr_fault *fault)
{
	int64_t r = 0;
	bool bad = false;

	switch (e->op) {
	case EXPR_ADD:
		bad = __builtin_add_overflow(a, b, &r);
		break;
	case EXPR_SUB:
		bad = __builtin_sub_overflow(a, b, &r);
		break;
	case EXPR_MUL:
		bad = __builtin_mul_overflow(a, b, &r);
		break;
	case EXPR_FLOORDIV:
		bad = a == INT64_MIN && b == -1;
		if (!bad)
			r = a / b - (a % b && (a % b < 0) != (b < 0));
		break;
	case EXPR_MOD:
		if (b != -1)     /* INT64_MIN % -1 traps */
			r = a % b;
		if (r && (r < 0) != (b < 0))
			r += b;
		break;
	default:
		BUG("operator %d", e->op);
	}
	if (bad)
		return overflow(e, fault);
	*out = (struct val){ .kind = VAL_INT, .i = r };
	return 0;
}

static int arith(const struct expr *e, const struct val *a, const struct val *b, struct val *out, struct expr_fault *fault)
{
	static const char *const names[] = { "+", "-", "*", "/", "//", "%" };
	double x, y;

	if (!is_number(a) || !is_number(b))
		return mismatch(e, names[e->op - EXPR_ADD], a, b, fault);
	x = real_of(a);
	y = real_of(b);
	if (y == 0 && e->op >= EXPR_DIV)
		return expr_fault_set(fault, e->at, "division by zero");
	if (e->op == EXPR_DIV)
		return real_result(e, x / y, out, fault);
	if (a->kind == VAL_INT && b->kind == VAL_INT)
		return int_arith(e, a->i, b->i, out, fault);
	switch (e->op) {
	case EXPR_ADD:
		return real_result(e, x + y, out, fault);
	case EXPR_SUB:
		return real_result(e, x - y, out, fault);
	case EXPR_MUL:
		return real_result(e, x * y, out, fault);
	case EXPR_FLOORDIV:
		return real_result(e, floor(x / y), out, fault);
	default:
		x = fmod(x, y);
		return real_result(e, x && (x < 0) != (y < 0) ? x + y : x, out, fault);
	}
}

static int compare(const struct expr *e, const struct val *a, const struct val *b, struct val *out, struct expr_fault *fault)
{
	bool r;
	int c;

	out->kind = VAL_BOOL;
	if (e->op == EXPR_EQ || e->op == EXPR_NE) {
		if (!comparable(a, b))
			return mismatch(e, e->op == EXPR_EQ ? "==" : "!=", a, b, fault);
		out->b = equal(a, b) == (e->op == EXPR_EQ);
		return 0;
	}
	if (a->kind == VAL_NONE || b->kind == VAL_NONE) {
		out->b = false;
		return 0;
	}
	if (is_number(a) && is_number(b))
		c = compare_numbers(a, b);
	else if (a->kind == VAL_TEXT && b->kind == VAL_TEXT)
		c = strcmp(a->s, b->s);
	else
		return mismatch(e, "comparison", a, b, fault);
	switch (e->op) {
	case EXPR_LT:
		r = c < 0;
		break;
	case EXPR_LE:
		r = c <= 0;
		break;
	case EXPR_GT:
		r = c > 0;
		break;
	default:
		r = c >= 0;
	}
	out->b = r;
	return 0;
}

static int logic(const struct expr *e, const struct expr_env *env, struct val *out, struct expr_fault *fault)
{
	/* the right side is not evaluated where the left decides */
	for (size_t i = 0; i < e->arg_n; i++) {
		int rc = expr_eval(e->arg[i], env, out, fault);

		if (rc)
			return rc;
		if (out->kind != VAL_BOOL)
			return expr_fault_set(fault, e->arg[i]->at, "%s needs a condition, not %s",
					      e->op == EXPR_NOT ? "!" : e->op == EXPR_AND ? "&&" : "||",
					      val_kind_name(out->kind));
		if (e->op != EXPR_NOT && out->b == (e->op == EXPR_OR))
			return 0;
	}
	if (e->op == EXPR_NOT)
		out->b = !out->b;
	return 0;
}

static int negate(const struct expr *e, struct val *v, struct expr_fault *fault)
{
	if (!is_number(v))
		return expr_fault_set(fault, e->at, "%s needs a number, not %s", e->op == EXPR_ABS ? "abs" : "-",
				      val_kind_name(v->kind));
	if (v->kind == VAL_INT && v->i == INT64_MIN)
		return overflow(e, fault);
	if (v->kind == VAL_INT)
		v->i = -v->i;
	else
		v->d = -v->d;
	return 0;
}

static int min_max(const struct expr *e, const struct expr_env *env, struct val *out, struct expr_fault *fault)
{
	struct val v;

	for (size_t i = 0; i < e->arg_n; i++) {
		int rc = expr_eval(e->arg[i], env, &v, fault);

		if (rc)
			return rc;
		if (!is_number(&v))
			return expr_fault_set(fault, e->arg[i]->at, "%s needs numbers, not %s", e->name, val_kind_name(v.kind));
		if (!i || (e->op == EXPR_MIN ? compare_numbers(&v, out) < 0 : compare_numbers(&v, out) > 0))
			*out = v;
	}
	return 0;
}

/* x in [a, b, …] and x in NAME, where NAME is a list; the literal is walked without building it. */
static int in(const struct expr *e, const struct expr_env *env, struct val *out, struct expr_fault *fault)
{
	const struct expr *right = e->arg[1];
	struct val needle, v;
	bool found = false;
	int rc = expr_eval(e->arg[0], env, &needle, fault);

	if (rc)
		return rc;
	if (right->op == EXPR_LIST) {
		for (size_t i = 0; i < right->arg_n; i++) {
			rc = expr_eval(right->arg[i], env, &v, fault);
			if (rc)
				return rc;
			if (!comparable(&needle, &v))
				return mismatch(right->arg[i], "in", &needle, &v, fault);
			found |= equal(&needle, &v);
		}
	} else {
		rc = expr_eval(right, env, &v, fault);
		if (rc)
			return rc;
		if (v.kind != VAL_LIST && v.kind != VAL_NONE)
			return expr_fault_set(fault, right->at, "in needs a list such as ['a', 'b'], not %s", val_kind_name(v.kind));
		for (size_t i = 0; v.kind == VAL_LIST && i < v.list.n; i++)
			found |= equal(&needle, &v.list.v[i]);
	}
	*out = (struct val){ .kind = VAL_BOOL, .b = found };
	return 0;
}

int expr_eval(const struct expr *e, const struct expr_env *env, struct val *out, struct expr_fault *fault)
{
	struct val a, b;
	char why[200] = "";
	int rc;

	switch (e->op) {
	case EXPR_LITERAL:
		*out = e->literal;
		return 0;
	case EXPR_NAME:
		if (env->get(env->arg, e->name, out, why, sizeof why))
			return expr_fault_set(fault, e->at, "%s", why);
		return 0;
	case EXPR_LIST:
		return expr_fault_set(fault, e->at, "a list can only stand behind 'in'");
	case EXPR_AND:
	case EXPR_OR:
	case EXPR_NOT:
		return logic(e, env, out, fault);
	case EXPR_IN:
		return in(e, env, out, fault);
	case EXPR_MIN:
	case EXPR_MAX:
		return min_max(e, env, out, fault);
	case EXPR_NEG:
	case EXPR_ABS:
		rc = expr_eval(e->arg[0], env, out, fault);
		if (rc)
			return rc;
		if (e->op == EXPR_ABS && is_number(out) && real_of(out) >= 0)
			return 0;
		return negate(e, out, fault);
	default:
		break;
	}
	rc = expr_eval(e->arg[0], env, &a, fault);
	if (!rc)
		rc = expr_eval(e->arg[1], env, &b, fault);
	if (rc)
		return rc;
	return e->op <= EXPR_MOD ? arith(e, &a, &b, out, fault) : compare(e, &a, &b, out, fault);
}

static int check_literal(struct expr *e, const char *name, const struct expr_checker *c, struct expr_fault *fault)
{
	char why[200] = "";

	if (e->op != EXPR_LITERAL || e->literal.kind != VAL_TEXT || !c->literal)
		return 0;
	if (c->literal(c->arg, name, &e->literal.s, why, sizeof why))
		return expr_fault_set(fault, e->at, "%s", why);
	return 0;
}

int expr_check(struct expr *e, const struct expr_checker *c, struct expr_fault *fault)
{
	char why[200] = "";
	int rc = 0;

	if (e->op == EXPR_NAME && c->name(c->arg, e->name, why, sizeof why))
		return expr_fault_set(fault, e->at, "%s", why);
	for (size_t i = 0; i < e->arg_n && !rc; i++)
		rc = expr_check(e->arg[i], c, fault);
	if (rc || (e->op != EXPR_EQ && e->op != EXPR_NE && e->op != EXPR_IN))
		return rc;
	for (size_t i = 0; i < 2 && !rc; i++) {
		struct expr *other = e->arg[1 - i];

		if (e->arg[i]->op != EXPR_NAME)
			continue;
		rc = check_literal(other, e->arg[i]->name, c, fault);
		for (size_t k = 0; other->op == EXPR_LIST && k < other->arg_n && !rc; k++)
			rc = check_literal(other->arg[k], e->arg[i]->name, c, fault);
	}
	return rc;
}

void expr_names(const struct expr *e, void (*fn)(void *arg, const char *name), void *arg)
{
	if (e->op == EXPR_NAME)
		fn(arg, e->name);
	for (size_t i = 0; i < e->arg_n; i++)
		expr_names(e->arg[i], fn, arg);
}

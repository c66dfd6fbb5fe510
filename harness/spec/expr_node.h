/* The syntax tree of an expression; seen only by its parser and its evaluator. */
#ifndef TM_SPEC_EXPR_NODE_H
#define TM_SPEC_EXPR_NODE_H

#include "spec/expr.h"

enum expr_op {
	EXPR_LITERAL, EXPR_NAME, EXPR_LIST,
	EXPR_NEG, EXPR_NOT,
	EXPR_ADD, EXPR_SUB, EXPR_MUL, EXPR_DIV, EXPR_FLOORDIV, EXPR_MOD,
	EXPR_LT, EXPR_LE, EXPR_GT, EXPR_GE, EXPR_EQ, EXPR_NE, EXPR_IN,
	EXPR_AND, EXPR_OR,
	EXPR_MIN, EXPR_MAX, EXPR_ABS,
};

struct expr {
	enum expr_op op;
	unsigned at;             /* character of the operator or operand, from 1 */
	struct val literal;
	const char *name;
	struct expr **arg;
	size_t arg_n, arg_cap;
};

int expr_fault_set(struct expr_fault *fault, unsigned at, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

#endif

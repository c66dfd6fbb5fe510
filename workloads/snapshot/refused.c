#include "snapshot/refused.h"

#include "base/mem.h"
#include "base/str.h"
#include "base/utf8.h"

#include <string.h>

static const struct { uint8_t op; const char *name; } refused[] = {
	{ 'c', "GLOBAL" }, { 0x93, "STACK_GLOBAL" }, { 'R', "REDUCE" }, { 'b', "BUILD" }, { 'i', "INST" },
	{ 'o', "OBJ" }, { 0x81, "NEWOBJ" }, { 0x92, "NEWOBJ_EX" }, { 'P', "PERSID" }, { 'Q', "BINPERSID" },
	{ 0x82, "EXT1" }, { 0x83, "EXT2" }, { 0x84, "EXT4" },
};

#define FAIL(b, ...) snap_fail((b)->in, (b)->err, snap_input_offset((b)->in), __VA_ARGS__)

/* What a file that names this module and object probably is. */
static const char *likely(const char *name)
{
	static const struct { const char *module, *is; } kind[] = {
		{ "torch", "it looks like a model checkpoint (torch.save)" },
		{ "collections", "it looks like a model checkpoint (torch.save)" },
		{ "numpy", "it looks like saved NumPy arrays" }, { "pandas", "it looks like a saved table" },
		{ "sklearn", "it looks like a saved scikit-learn model" },
	};

	for (size_t i = 0; i < TM_ARRAY_N(kind); i++)
		if (tm_starts_with(name, kind[i].module))
			return kind[i].is;
	return "it is some other pickle";
}

static int refuse(struct snap_build *b, size_t base, uint8_t op, const char *opcode)
{
	const struct snap_value *top = b->stack.n ? snap_top(b) : NULL;
	struct tm_str name = TM_STR_INIT;
	char raw[160];
	size_t n = 0, lines = 0;
	int rc;

	/* GLOBAL has module and name behind it, one a line; STACK_GLOBAL on the stack */
	if (op == 'c' || op == 'i') {
		snap_input_more(b->in, sizeof raw);
		for (const uint8_t *p = b->in->p + 1; p < b->in->end && n < sizeof raw - 1 && lines < 2; p++) {
			lines += *p == '\n';
			raw[n++] = *p == '\n' ? '.' : (char)*p;
		}
		n -= lines == 2;
		tm_utf8_show_line(&name, raw, n);
	} else if (op == 0x93 && b->stack.n - base >= 2 && top[0].tag == V_TEXT && top[-1].tag == V_TEXT) {
		tm_utf8_show_line(&name, snap_text_of(&b->t, top[-1].v), strlen(snap_text_of(&b->t, top[-1].v)));
		tm_str_addc(&name, '.');
		tm_utf8_show_line(&name, snap_text_of(&b->t, top[0].v), strlen(snap_text_of(&b->t, top[0].v)));
	}
	if (name.n)
		rc = FAIL(b, "the opcode %s would import %.120s: a memory snapshot has nothing to import, %s", opcode, name.s, likely(name.s));
	else
		rc = FAIL(b, "the opcode %s would run code: a memory snapshot has none, it is some other pickle", opcode);
	tm_str_free(&name);
	return rc;
}

int snap_refuse_opcode(struct snap_build *b, size_t base, uint8_t op)
{
	for (size_t i = 0; i < TM_ARRAY_N(refused); i++)
		if (refused[i].op == op)
			return refuse(b, base, op, refused[i].name);
	if (op && strchr("FILSVgp", op))
		return FAIL(b, "the opcode `%c` belongs to protocol 0; save the snapshot with protocol 2 to 5", op);
	if (op == 0x97 || op == 0x98)
		return FAIL(b, "the opcode %s wants data from outside the file", op == 0x97 ? "NEXT_BUFFER" : "READONLY_BUFFER");
	return FAIL(b, "0x%02x is no opcode of a pickle: the file is damaged or something else", op);
}

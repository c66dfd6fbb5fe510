#include "snapshot/pickle.h"

#include "snapshot/frame_lists.h"
#include "snapshot/refused.h"

#include <string.h>

enum op {
	OP_MARK = '(', OP_STOP = '.', OP_POP = '0', OP_POP_MARK = '1', OP_DUP = '2',
	OP_BINBYTES = 'B', OP_SHORT_BINBYTES = 'C', OP_BINFLOAT = 'G', OP_BININT = 'J', OP_BININT1 = 'K',
	OP_BININT2 = 'M', OP_NONE = 'N', OP_BINSTRING = 'T', OP_SHORT_BINSTRING = 'U', OP_BINUNICODE = 'X',
	OP_EMPTY_LIST = ']', OP_APPEND = 'a', OP_DICT = 'd', OP_APPENDS = 'e', OP_BINGET = 'h',
	OP_LONG_BINGET = 'j', OP_LIST = 'l', OP_BINPUT = 'q', OP_LONG_BINPUT = 'r', OP_SETITEM = 's',
	OP_TUPLE = 't', OP_SETITEMS = 'u', OP_EMPTY_TUPLE = ')', OP_EMPTY_DICT = '}',
	OP_PROTO = 0x80, OP_TUPLE1 = 0x85, OP_TUPLE2, OP_TUPLE3, OP_NEWTRUE, OP_NEWFALSE, OP_LONG1, OP_LONG4,
	OP_SHORT_BINUNICODE = 0x8c, OP_BINUNICODE8, OP_BINBYTES8, OP_MEMOIZE = 0x94, OP_FRAME, OP_BYTEARRAY8,
};

/* Bytes of the fixed argument behind an opcode. */
static const uint8_t argument_bytes[256] = {
	[OP_PROTO] = 1, [OP_FRAME] = 8, [OP_BININT] = 4, [OP_BININT1] = 1, [OP_BININT2] = 2, [OP_LONG1] = 1,
	[OP_LONG4] = 4, [OP_BINFLOAT] = 8, [OP_SHORT_BINUNICODE] = 1, [OP_BINUNICODE] = 4, [OP_BINUNICODE8] = 8,
	[OP_BINPUT] = 1, [OP_LONG_BINPUT] = 4, [OP_BINGET] = 1, [OP_LONG_BINGET] = 4, [OP_BINBYTES] = 4,
	[OP_SHORT_BINBYTES] = 1, [OP_BINBYTES8] = 8, [OP_BINSTRING] = 4, [OP_SHORT_BINSTRING] = 1,
	[OP_BYTEARRAY8] = 8,
};
#define OP_BYTES_MAX 16                   /* of an opcode with a fixed argument or a number of LONG1 */

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "numbers are taken as they lie in the file");

#define MARK_MAX 100                      /* a snapshot nests lists and dicts 6 deep */

struct machine {
	struct snap_build *b;
	struct snap_input *in;
	struct frame_lists lists;
	size_t mark[MARK_MAX], mark_n;
	size_t base;                      /* values below the last mark (or 0) are out of reach */
	size_t memoized;                  /* entries that MEMOIZE has counted */
	int protocol;
};

/* Little-endian, as the hosts of this program are; 0 to 8 bytes. */
static inline uint64_t number(const uint8_t *p, unsigned n)
{
	uint64_t v = 0;

	memcpy(&v, p, n);
	return v;
}

/* The same where n is not known to the compiler, which must not copy byte by byte. */
static uint64_t number_of(const uint8_t *p, unsigned n)
{
	return n ? number(p, 8) & UINT64_MAX >> (64 - 8 * n) : 0;
}

#define FAIL(m, ...) snap_fail((m)->in, (m)->b->err, snap_input_offset((m)->in), __VA_ARGS__)

/* ---- arguments of any length --------------------------------------------- */

static bool may_have(const struct machine *m, size_t head, uint64_t n)
{
	return n <= UINT64_MAX - head && snap_input_may_have(m->in, head + n);
}

/* m->in->p is at the opcode; its n bytes of argument begin `head` bytes behind that. */
static int long_argument(struct machine *m, size_t head, uint64_t n, const char *what)
{
	struct snap_input *in = m->in;

	if (n <= SNAP_TEXT_MAX && snap_input_more(in, head + (size_t)n))
		return 0;
	if (!may_have(m, head, n))
		return FAIL(m, "%s of %llu bytes is announced, more than the file has left: it was cut short or is damaged",
			    what, (unsigned long long)n);
	return n > SNAP_TEXT_MAX ? 0 : snap_fail_end(in, m->b->err, what);
}

static int skip(struct machine *m, uint64_t n, const char *what)
{
	struct snap_input *in = m->in;

	while (n) {
		uint64_t part;

		if (!snap_input_more(in, 1))
			return snap_fail_end(in, m->b->err, what);
		part = (uint64_t)(in->end - in->p);
		part = part < n ? part : n;
		in->p += part;
		n -= part;
		snap_budget_read(&m->b->t.budget, snap_input_offset(in));
	}
	return 0;
}

static int text(struct machine *m, size_t head, uint64_t n)
{
	int rc = long_argument(m, head, n, "a text");

	if (rc)
		return rc;
	if (n > SNAP_TEXT_MAX) {
		m->in->p += head;
		rc = skip(m, n, "a text");
		return rc ? rc : snap_push(m->b, V_JUNK, 0);
	}
	rc = snap_push_text(m->b, (const char *)m->in->p + head, (size_t)n);
	m->in->p += head + n;
	return rc;
}

static int bytes(struct machine *m, size_t head, uint64_t n)
{
	int rc = long_argument(m, head, n, "bytes");

	if (rc)
		return rc;
	m->in->p += head;
	rc = skip(m, n, "bytes");
	return rc ? rc : snap_push(m->b, V_JUNK, 0);
}

/* Two's complement of n bytes, n up to 9. */
static int push_long(struct machine *m, const uint8_t *p, uint64_t n)
{
	static const uint8_t checkpoint[10] = { 0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19 };
	uint64_t v;

	if (n == sizeof checkpoint && !memcmp(p, checkpoint, n))
		return FAIL(m, "this is a model checkpoint of an old PyTorch (torch.save), not a memory snapshot");
	if (n > 9)
		return FAIL(m, "a number of %llu bytes, expected 9 at most", (unsigned long long)n);
	if (!n)
		return snap_push(m->b, V_INT, 0);
	v = number_of(p, n > 8 ? 8 : (unsigned)n);
	if (n < 8 && p[n - 1] >> 7)
		v |= UINT64_MAX << 8 * n;
	if (n == 9 && p[8] && !(p[8] == 0xff && v >> 63))
		return FAIL(m, "a number of more than 64 bits");
	return snap_push(m->b, n == 9 && !p[8] && v >> 63 ? V_UINT : V_INT, v);
}

static int push_float(struct machine *m, const uint8_t *p)
{
	uint64_t v = 0;

	for (int i = 0; i < 8; i++)
		v = v << 8 | p[i];
	return snap_push(m->b, V_FLOAT, v);
}

/* ---- marks and containers ------------------------------------------------ */

static int mark(struct machine *m)
{
	if (m->mark_n == MARK_MAX)
		return FAIL(m, "nested more than %d deep", MARK_MAX);
	m->mark[m->mark_n++] = m->base = m->b->stack.n;
	return 0;
}

/* The index of the first value behind the last mark, which is taken away. */
static int to_mark(struct machine *m, size_t *first)
{
	if (!m->mark_n)
		return FAIL(m, "an opcode ends a group that was not begun");
	*first = m->mark[--m->mark_n];
	m->base = m->mark_n ? m->mark[m->mark_n - 1] : 0;
	return 0;
}

static int short_stack(struct machine *m)
{
	return FAIL(m, "an opcode wants more values than are there");
}

static int add_to_container(struct machine *m, uint8_t op)
{
	size_t first = 0, n = op == OP_APPEND ? 1 : 2;
	bool list = op == OP_APPEND || op == OP_APPENDS;
	int rc;

	if (op == OP_APPEND || op == OP_SETITEM) {
		if (m->b->stack.n - m->base < n + 1)
			return short_stack(m);
		first = m->b->stack.n - n;
	} else {
		rc = to_mark(m, &first);
		if (rc)
			return rc;
		if (first <= m->base)
			return short_stack(m);
	}
	return list ? snap_append(m->b, first) : snap_set(m->b, first);
}

/* LIST and DICT make the container when its items are there already. */
static int container_of_group(struct machine *m, uint8_t op)
{
	struct snap_value *v;
	size_t first = 0;
	int rc = to_mark(m, &first);

	if (!rc)
		rc = snap_push(m->b, V_NONE, 0);
	if (rc)
		return rc;
	v = (struct snap_value *)m->b->stack.v + first;
	memmove(v + 1, v, (m->b->stack.n - 1 - first) * sizeof *v);
	*v = (struct snap_value){ .tag = op == OP_LIST ? V_LIST : V_DICT };
	return op == OP_LIST ? snap_append(m->b, first + 1) : snap_set(m->b, first + 1);
}

static int tuple(struct machine *m, uint8_t op)
{
	size_t first = 0, n = (size_t)(op - OP_TUPLE1) + 1;
	int rc;

	if (op == OP_TUPLE) {
		rc = to_mark(m, &first);
		if (rc)
			return rc;
	} else {
		if (m->b->stack.n - m->base < n)
			return short_stack(m);
		first = m->b->stack.n - n;
	}
	return snap_tuple(m->b, first);
}

static int pop_or_dup(struct machine *m, uint8_t op)
{
	size_t first = 0;
	int rc;

	if (op == OP_POP_MARK || (op == OP_POP && m->mark_n && m->b->stack.n == m->base)) {
		rc = to_mark(m, &first);
		if (!rc)
			m->b->stack.n = first;
		return rc;
	}
	if (m->b->stack.n <= m->base)
		return short_stack(m);
	if (op == OP_POP) {
		m->b->stack.n--;
		return 0;
	}
	rc = snap_push(m->b, snap_top(m->b)->tag, snap_top(m->b)->v);
	if (!rc)
		snap_top(m->b)[0].shared = snap_top(m->b)[-1].shared = true;
	return rc;
}

static int put(struct machine *m, uint64_t index)
{
	if (m->b->stack.n <= m->base)
		return short_stack(m);
	m->memoized++;
	return snap_memo_put(m->b, index);
}

static int proto(struct machine *m, uint8_t version)
{
	if (version < 2 || version > 5)
		return FAIL(m, "pickle protocol %u, expected 2 to 5", version);
	m->protocol = version;
	return 0;
}

/* Any opcode but STOP; its fixed argument is there. Moves in->p. */
static int step(struct machine *m, uint8_t op)
{
	const uint8_t *arg = m->in->p + 1;
	size_t head = 1u + argument_bytes[op];
	uint64_t n = number_of(arg, argument_bytes[op]);
	int rc;

	switch (op) {
	case OP_MEMOIZE: rc = put(m, m->memoized); break;
	case OP_SETITEMS: case OP_SETITEM: case OP_APPENDS: case OP_APPEND:
		rc = add_to_container(m, op);
		break;
	case OP_MARK: rc = mark(m); break;
	case OP_BINGET: case OP_LONG_BINGET: rc = snap_memo_get(m->b, n); break;
	case OP_BINPUT: case OP_LONG_BINPUT: rc = put(m, n); break;
	case OP_BININT1: case OP_BININT2: rc = snap_push(m->b, V_INT, n); break;
	case OP_BININT: rc = snap_push(m->b, V_INT, (uint64_t)(int64_t)(int32_t)n); break;
	case OP_EMPTY_DICT: rc = snap_push(m->b, V_DICT, 0); break;
	case OP_EMPTY_LIST: case OP_EMPTY_TUPLE: rc = snap_push(m->b, V_LIST, 0); break;
	case OP_TUPLE: case OP_TUPLE1: case OP_TUPLE2: case OP_TUPLE3:
		rc = tuple(m, op);
		break;
	case OP_NONE: rc = snap_push(m->b, V_NONE, 0); break;
	case OP_NEWTRUE: case OP_NEWFALSE: rc = snap_push(m->b, V_BOOL, op == OP_NEWTRUE); break;
	case OP_BINFLOAT: rc = push_float(m, arg); break;
	case OP_SHORT_BINUNICODE: case OP_BINUNICODE: case OP_BINUNICODE8: case OP_SHORT_BINSTRING:
		return text(m, head, n);
	case OP_SHORT_BINBYTES: case OP_BINBYTES: case OP_BINBYTES8: case OP_BYTEARRAY8:
		return bytes(m, head, n);
	case OP_BINSTRING:
		return n > INT32_MAX ? FAIL(m, "a text of negative length") : text(m, head, n);
	case OP_LONG4:
		if (n > INT32_MAX)
			return FAIL(m, "a number of negative length");
		rc = n > 10 ? 0 : long_argument(m, head, n, "a number");
		rc = rc ? rc : push_long(m, m->in->p + head, n);
		m->in->p += head + (rc ? 0 : n);
		return rc;
	case OP_LONG1:
		rc = long_argument(m, head, n, "a number");
		rc = rc ? rc : push_long(m, m->in->p + head, n);
		m->in->p += rc ? 0 : head + n;
		return rc;
	case OP_PROTO:
		rc = proto(m, (uint8_t)n);
		break;
	case OP_FRAME:
		rc = may_have(m, head, n) ? 0 :
			FAIL(m, "a frame of %llu bytes is announced, more than the file has left: it was cut short or is damaged",
			     (unsigned long long)n);
		break;
	case OP_LIST: case OP_DICT: rc = container_of_group(m, op); break;
	case OP_POP: case OP_POP_MARK: case OP_DUP: rc = pop_or_dup(m, op); break;
	default: return snap_refuse_opcode(m->b, m->base, op);
	}
	m->in->p += head;
	return rc;
}

/* The value *to, which is pushed just now, is memoized by the opcode at p. False: that is another, or wants room first. */
static inline bool memoize_new(struct machine *m, const uint8_t *p, struct snap_value *to)
{
	struct snap_array *memo = &m->b->memo;

	if (*p != OP_MEMOIZE || m->memoized != memo->n || memo->n == memo->cap || memo->n >= UINT32_MAX - 1)
		return false;
	((uint64_t *)memo->v)[memo->n++] = (uint64_t)to->tag << 56 | to->v;
	to->memo = (uint32_t)(m->memoized = memo->n);
	return true;
}

/* GET, into *to, the stack's next. Returns the bytes it took; 0: another opcode, an entry never stored or a wide one. */
static inline unsigned push_get(const struct machine *m, const uint8_t *p, struct snap_value *to)
{
	uint64_t index = *p == OP_BINGET ? p[1] : number(p + 1, 4), entry;

	if ((*p != OP_BINGET && *p != OP_LONG_BINGET) || index >= m->b->memo.n)
		return 0;
	entry = ((const uint64_t *)m->b->memo.v)[index];
	if ((int64_t)entry <= 0)
		return 0;
	snap_value_set(to, entry & UINT64_MAX >> 8, (unsigned)(entry >> 56), true);
	return *p == OP_BINGET ? 2 : 5;
}

/*
 * What files are made of, where it cannot go wrong: one value into *to, the
 * stack's next, and its MEMOIZE. Returns the bytes it took; 0: another opcode
 * or something unusual, which step() does.
 */
static inline unsigned push_usual(struct machine *m, const uint8_t *p, struct snap_value *to)
{
	unsigned shift, n;
	uint64_t v;

	switch (*p) {
	case OP_BININT1: v = p[1]; n = 2; break;
	case OP_BININT2: v = number(p + 1, 2); n = 3; break;
	case OP_BININT: v = (uint64_t)(int64_t)(int32_t)number(p + 1, 4); n = 5; break;
	case OP_LONG1:
		if (!p[1] || p[1] > 8)
			return 0;
		shift = 64 - 8 * p[1];
		v = (uint64_t)((int64_t)(number(p + 2, 8) << shift) >> shift);
		n = 2u + p[1];
		break;
	case OP_BINGET: case OP_LONG_BINGET: return push_get(m, p, to);
	case OP_SHORT_BINUNICODE:
		n = 2u + p[1];
		v = m->in->end - p < n ? SNAP_NO_ROOM : snap_text(&m->b->t, (const char *)p + 2, p[1]);
		if (v == SNAP_NO_ROOM)
			return 0;
		snap_value_set(to, v, V_TEXT, false);
		return n + memoize_new(m, p + n, to);
	case OP_EMPTY_DICT: case OP_EMPTY_LIST:
		snap_value_set(to, 0, *p == OP_EMPTY_DICT ? V_DICT : V_LIST, false);
		return 1u + memoize_new(m, p + 1, to);
	default: return 0;
	}
	snap_value_set(to, v, V_INT, false);
	return n;
}

/*
 * The items of a new dict, as far as they are usual: texts as keys, and for
 * values what push_usual knows, or lists of frames. They are pushed, as
 * always; b->fields tells of those that mean something, as snap_set would find
 * them, and *has too where the SETITEMS comes next, else it is 0. Moves *top;
 * returns what comes next.
 */
static const uint8_t *dict_items(struct machine *m, const uint8_t *p, const uint8_t *end, struct snap_value **top, uint64_t *has)
{
	const uint8_t *frames_end = m->in->end - OP_BYTES_MAX, *behind;
	const struct snap_value **of = m->b->fields.of;
	struct snap_value *to = *top;
	uint64_t seen = 0, key;
	unsigned n;

	for (*has = 0; p < end; to++) {
		if (*p == OP_SETITEMS) {
			*has = seen;
			break;
		}
		/* keys are nearly always in the memo */
		n = push_get(m, p, to);
		if (!n)
			n = push_usual(m, p, to);
		if (!n)
			break;
		p += n;
		if (to++->tag != V_TEXT || p >= end)
			break;
		n = push_usual(m, p, to);
		if (!n)
			break;
		p += n;
		key = to[-1].v;
		if (to->tag == V_LIST && p < end && *p == OP_MARK && m->mark_n < MARK_MAX) {
			behind = frame_lists_read(&m->lists, m->b, p + 1, frames_end, to);
			if (!behind) {
				to++;
				break;
			}
			p = behind;
		}
		if (key < K_N) {
			of[key] = to;
			seen |= 1ull << key;
		}
	}
	*top = to;
	return p;
}

/*
 * One pass over the opcodes. The usual ones work on copies of the input's and
 * the stack's ends (p, top); step() finds both as they are kept.
 */
static int run(struct machine *m)
{
	struct snap_build *b = m->b;
	struct snap_input *in = m->in;
	int rc = 0;

	while (!rc) {
		const uint8_t *p = in->p, *end = in->end - p < OP_BYTES_MAX ? p : in->end - OP_BYTES_MAX, *behind = NULL;
		struct snap_value *const stack = b->stack.v, *top = stack + b->stack.n;
		uint64_t has;

		/* a value takes a byte at least, so that there is room for those before `end` */
		if ((size_t)(end - p) > b->stack.cap - b->stack.n)
			end = p + (b->stack.cap - b->stack.n);
		while (p < end) {
			unsigned n = push_usual(m, p, top);

			if (n) {
				top++;
				p += n;
				continue;
			}
			if (*p != OP_MARK || m->mark_n == MARK_MAX || top <= stack + m->base)
				break;
			if (top[-1].tag == V_LIST) {
				behind = frame_lists_read(&m->lists, b, p + 1, in->end - OP_BYTES_MAX, top - 1);
				if (behind) {
					p = behind;
					continue;
				}
			}
			m->mark[m->mark_n++] = m->base = (size_t)(top - stack);
			p++;
			if (top[-1].tag != V_DICT || top[-1].shared)
				continue;
			p = dict_items(m, p, end, &top, &has);
			if (!has)
				continue;
			in->p = p++;
			to_mark(m, &b->stack.n);
			rc = snap_set_sorted(b, has);
			if (rc)
				return rc;
			top = stack + b->stack.n;
		}
		in->p = p;
		b->stack.n = (size_t)(top - stack);
		if (in->end - p < OP_BYTES_MAX) {
			snap_input_more(in, OP_BYTES_MAX);
			snap_budget_read(&b->t.budget, snap_input_offset(in));
			if (in->p == in->end || in->end - in->p < 1 + argument_bytes[*in->p])
				return snap_fail_end(in, b->err, "a pickle, before its STOP");
		}
		if (*in->p == OP_STOP)
			break;
		rc = step(m, *in->p);
	}
	if (!rc && b->stack.n <= m->base)
		return short_stack(m);
	in->p++;
	return rc;
}

int snap_pickle_read(struct snap_build *b, struct snap_value *result, int *protocol)
{
	struct machine m = { .b = b, .in = b->in, .lists.seed = b->t.seed };
	int rc = snap_stack_room(b);

	if (!rc)
		rc = run(&m);
	frame_lists_free(&m.lists);
	if (rc)
		return rc;
	*result = *snap_top(b);
	*protocol = m.protocol;
	return 0;
}

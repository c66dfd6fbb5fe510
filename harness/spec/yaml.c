#include "spec/yaml.h"

#include "base/str.h"

#include <string.h>
#include <yaml.h>

struct anchor { const char *name; struct node *node; bool open; };

/* A collection that has begun and not ended. */
struct level {
	struct node *node;
	struct node *key;        /* of a mapping: read, its value is awaited */
	bool skip;               /* the value of a duplicate key: read and dropped */
};

struct reader {
	struct arena *a;
	struct diag *d;
	uint32_t src;
	const char *text;
	size_t n;                /* bytes of text */
	size_t *nodes_left;
	yaml_parser_t parser;
	struct level level[YAML_MAX_DEPTH];
	size_t depth;
	struct anchor anchor[YAML_MAX_ANCHORS];
	size_t anchor_n;
	struct node *root;
	bool failed;
};

static struct place place_of(const struct reader *r, const yaml_mark_t *mark)
{
	return (struct place){ r->src, (uint32_t)mark->line + 1, (uint32_t)mark->column + 1 };
}

/* Place of byte `at` of the text; columns count characters. */
static struct place place_of_byte(uint32_t src, const char *text, size_t at)
{
	struct place p = { src, 1, 1 };

	for (size_t i = 0; i < at; i++) {
		if (text[i] == '\n') {
			p.line++;
			p.column = 1;
		} else if (((unsigned char)text[i] & 0xc0) != 0x80) {
			p.column++;
		}
	}
	return p;
}

static int take_node(struct reader *r, struct place at)
{
	if (!*r->nodes_left)
		return diag_at(r->d, at, "more than %s nodes, the limit of a spec (each alias counts as what it stands for)",
			       diag_number(r->d, YAML_MAX_NODES));
	--*r->nodes_left;
	return 0;
}

static int check_key(struct reader *r, struct level *l, struct node *key)
{
	struct pair *p;

	if (key->kind != NODE_SCALAR)
		return diag_at(r->d, key->at, "a key is expected to be one word, not %s", node_kind_name(key));
	if (!strcmp(key->text, "<<"))
		return diag_at(r->d, key->at, "'<<' is not supported: use extends, which merges mappings");
	p = node_pair(l->node, key->text);
	if (!p)
		return 0;
	diag_at(r->d, key->at, "key '%s' is given twice, first on line %u and again on line %u; remove one",
		diag_quote(r->d, key->text), p->key->at.line, key->at.line);
	/* go on, so that the errors behind it are seen too */
	r->failed = true;
	l->skip = true;
	return 0;
}

/* A finished node goes where it belongs; a collection is attached when it begins. */
static int attach(struct reader *r, struct node *node)
{
	struct level *l;
	int rc;

	if (!r->depth) {
		r->root = node;
		return 0;
	}
	l = &r->level[r->depth - 1];
	if (l->node->kind == NODE_SEQ) {
		node_push(r->a, l->node, node);
		return 0;
	}
	if (!l->key) {
		rc = check_key(r, l, node);
		if (!rc)
			l->key = node;
		return rc;
	}
	if (!l->skip)
		node_put(r->a, l->node, l->key, node);
	l->key = NULL;
	l->skip = false;
	return 0;
}

static int name_anchor(struct reader *r, const char *name, struct node *node, bool open)
{
	if (!name)
		return 0;
	if (r->anchor_n == YAML_MAX_ANCHORS)
		return diag_at(r->d, node->at, "more than %d anchors", YAML_MAX_ANCHORS);
	r->anchor[r->anchor_n++] = (struct anchor){ arena_str(r->a, name), node, open };
	return 0;
}

static int no_tag(struct reader *r, const char *tag, struct place at)
{
	if (!tag)
		return 0;
	return diag_at(r->d, at, "tag '%s' is not supported: types come from the parameters, not from tags",
		       diag_quote(r->d, tag));
}

static int copy(struct reader *r, const struct node *from, struct place at, size_t depth, struct node **out)
{
	struct node *to, *key, *value;
	int rc;

	if (from->kind != NODE_SCALAR && depth > YAML_MAX_DEPTH)
		return diag_at(r->d, at, "nested deeper than the limit of %d levels", YAML_MAX_DEPTH);
	rc = take_node(r, at);
	if (rc)
		return rc;
	to = arena_alloc(r->a, sizeof *to);
	*to = *from;
	to->n = to->cap = 0;
	to->item = NULL;
	to->pair = NULL;
	for (size_t i = 0; i < from->n; i++) {
		if (from->kind == NODE_SEQ) {
			rc = copy(r, from->item[i], at, depth + 1, &value);
			if (rc)
				return rc;
			node_push(r->a, to, value);
			continue;
		}
		rc = copy(r, from->pair[i].key, at, depth + 1, &key);
		if (!rc)
			rc = copy(r, from->pair[i].value, at, depth + 1, &value);
		if (rc)
			return rc;
		node_put(r->a, to, key, value);
	}
	*out = to;
	return 0;
}

static int on_alias(struct reader *r, const yaml_event_t *ev)
{
	const char *name = (const char *)ev->data.alias.anchor;
	struct place at = place_of(r, &ev->start_mark);
	struct node *node;
	int rc;

	for (size_t i = r->anchor_n; i-- > 0;) {
		if (strcmp(r->anchor[i].name, name))
			continue;
		if (r->anchor[i].open)
			return diag_at(r->d, at, "alias '*%s' stands inside what it refers to (line %u)",
				       diag_quote(r->d, name), r->anchor[i].node->at.line);
		rc = copy(r, r->anchor[i].node, at, r->depth + 1, &node);
		return rc ? rc : attach(r, node);
	}
	return diag_at(r->d, at, "alias '*%s' refers to no anchor before it", diag_quote(r->d, name));
}

static int on_scalar(struct reader *r, const yaml_event_t *ev)
{
	const char *text = (const char *)ev->data.scalar.value;
	size_t n = ev->data.scalar.length;
	struct place at = place_of(r, &ev->start_mark);
	bool quoted = ev->data.scalar.style == YAML_SINGLE_QUOTED_SCALAR_STYLE ||
		      ev->data.scalar.style == YAML_DOUBLE_QUOTED_SCALAR_STYLE;
	struct node *node;
	int rc = take_node(r, at);

	if (!rc && strlen(text) != n)
		rc = diag_at(r->d, at, "a NUL character in a text");
	if (!rc && ev->data.scalar.tag && strcmp((const char *)ev->data.scalar.tag, "!"))
		rc = no_tag(r, (const char *)ev->data.scalar.tag, at);
	else if (!rc && ev->data.scalar.tag)
		rc = no_tag(r, "!", at);
	if (rc)
		return rc;
	node = node_scalar(r->a, at, text, n);
	node->plain = ev->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
	node->text_at = quoted;
	node->inline_text = (node->plain || quoted) &&
			    ev->end_mark.index - ev->start_mark.index == n + 2u * quoted &&
			    !memchr(text, '\n', n);
	rc = name_anchor(r, (const char *)ev->data.scalar.anchor, node, false);
	return rc ? rc : attach(r, node);
}

static int on_start(struct reader *r, const yaml_event_t *ev, enum node_kind kind, const char *anchor, const char *tag)
{
	struct place at = place_of(r, &ev->start_mark);
	struct node *node;
	int rc = no_tag(r, tag, at);

	if (!rc && r->depth == YAML_MAX_DEPTH)
		rc = diag_at(r->d, at, "nested deeper than the limit of %d levels", YAML_MAX_DEPTH);
	if (!rc)
		rc = take_node(r, at);
	if (rc)
		return rc;
	node = node_new(r->a, kind, at);
	rc = name_anchor(r, anchor, node, true);
	if (!rc)
		rc = attach(r, node);
	if (!rc)
		r->level[r->depth++] = (struct level){ .node = node };
	return rc;
}

static void on_end(struct reader *r)
{
	struct node *node = r->level[--r->depth].node;

	for (size_t i = r->anchor_n; i-- > 0;)
		if (r->anchor[i].node == node)
			r->anchor[i].open = false;
}

static int on_event(struct reader *r, const yaml_event_t *ev)
{
	switch (ev->type) {
	case YAML_ALIAS_EVENT:
		return on_alias(r, ev);
	case YAML_SCALAR_EVENT:
		return on_scalar(r, ev);
	case YAML_SEQUENCE_START_EVENT:
		return on_start(r, ev, NODE_SEQ, (const char *)ev->data.sequence_start.anchor,
				(const char *)ev->data.sequence_start.tag);
	case YAML_MAPPING_START_EVENT:
		return on_start(r, ev, NODE_MAP, (const char *)ev->data.mapping_start.anchor,
				(const char *)ev->data.mapping_start.tag);
	case YAML_SEQUENCE_END_EVENT:
	case YAML_MAPPING_END_EVENT:
		on_end(r);
		return 0;
	case YAML_DOCUMENT_START_EVENT:
		if (r->root)
			return diag_at(r->d, place_of(r, &ev->start_mark), "a second document begins; a spec is one document");
		return 0;
	default:
		return 0;
	}
}

/* A tab among the blanks a line begins with: the commonest slip, which libyaml calls a character that cannot start a token. */
static bool at_tab(const struct reader *r, const yaml_mark_t *mark)
{
	const char *p = r->text, *end = r->text + r->n;

	for (size_t line = 0; line < mark->line; line++) {
		p = memchr(p, '\n', (size_t)(end - p));
		if (!p)
			return false;
		p++;
	}
	for (size_t i = 0; p + i < end && (p[i] == ' ' || p[i] == '\t'); i++)
		if (i == mark->column)
			return p[i] == '\t';
	return false;
}

static int syntax_error(struct reader *r)
{
	const yaml_parser_t *p = &r->parser;
	const char *problem = p->problem ? p->problem : "out of memory";

	if (p->error == YAML_READER_ERROR)
		return diag_at(r->d, place_of_byte(r->src, r->text, p->problem_offset), "not YAML: %s", problem);
	if (at_tab(r, &p->problem_mark))
		return diag_at(r->d, place_of(r, &p->problem_mark), "not YAML: a tab; lines are indented with spaces");
	return diag_at(r->d, place_of(r, &p->problem_mark), "not YAML: %s%s%s", problem,
		       p->context ? " " : "", p->context ? p->context : "");
}

static size_t first_bad_byte(const char *text, size_t n)
{
	size_t i = 0;

	while (i < n) {
		unsigned char c = (unsigned char)text[i];
		size_t len = c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;

		if (i + len > n || !tm_utf8_valid(text + i, len))
			break;
		i += len;
	}
	return i;
}

/* What libyaml would take or be slow at: NUL, bad UTF-8, directives (it compares each with all before it). */
static int check_bytes(struct diag *d, uint32_t src, const char *text, size_t n)
{
	const char *nul = n ? memchr(text, '\0', n) : NULL;

	if (n > YAML_MAX_BYTES)
		return diag_at(d, (struct place){ src, 0, 0 }, "%zu bytes, larger than the limit of %d", n, YAML_MAX_BYTES);
	if (nul)
		return diag_at(d, place_of_byte(src, text, (size_t)(nul - text)), "a NUL byte; a spec is UTF-8 text");
	if (!tm_utf8_valid(text, n)) {
		size_t bad = first_bad_byte(text, n);

		return diag_at(d, place_of_byte(src, text, bad), "not UTF-8: byte 0x%02x", (unsigned char)text[bad]);
	}
	for (size_t i = 0; i < n; i++) {
		const char *next;

		if (text[i] == '%')
			return diag_at(d, place_of_byte(src, text, i),
				       "directives ('%%' at the start of a line) are not supported");
		next = memchr(text + i, '\n', n - i);
		if (!next)
			break;
		i = (size_t)(next - text);
	}
	return 0;
}

int yaml_read(struct arena *a, struct diag *d, uint32_t src, const char *text, size_t n,
	      size_t *nodes_left, struct node **out)
{
	struct reader *r;
	yaml_event_t ev;
	bool end = false;
	int rc;

	if (n >= 3 && !memcmp(text, "\xef\xbb\xbf", 3)) {      /* the mark that some editors put before UTF-8 */
		text += 3;
		n -= 3;
	}
	rc = check_bytes(d, src, text, n);
	if (rc)
		return rc;
	r = arena_alloc(a, sizeof *r);
	r->a = a;
	r->d = d;
	r->src = src;
	r->text = text;
	r->n = n;
	r->nodes_left = nodes_left;
	if (!yaml_parser_initialize(&r->parser))
		return diag_at(d, (struct place){ src, 0, 0 }, "out of memory");
	yaml_parser_set_encoding(&r->parser, YAML_UTF8_ENCODING);
	yaml_parser_set_input_string(&r->parser, (const unsigned char *)text, n);
	while (!rc && !end) {
		if (!yaml_parser_parse(&r->parser, &ev)) {
			rc = syntax_error(r);
			break;
		}
		rc = on_event(r, &ev);
		end = ev.type == YAML_STREAM_END_EVENT;
		yaml_event_delete(&ev);
	}
	yaml_parser_delete(&r->parser);
	if (rc)
		return rc;
	/* an empty file, or one of comments only, is an empty mapping */
	if (!r->root || (r->root->kind == NODE_SCALAR && r->root->plain && !*r->root->text))
		r->root = node_new(a, NODE_MAP, (struct place){ src, 1, 1 });
	*out = r->root;
	return r->failed ? TM_ESPEC : 0;
}

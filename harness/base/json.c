#include "base/json.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/num.h"

#include <inttypes.h>
#include <sha2.h>
#include <stdlib.h>
#include <string.h>

static int by_bytes(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void add_string(struct tm_str *out, const char *s)
{
	tm_str_addc(out, '"');
	for (; *s; s++) {
		unsigned char c = (unsigned char)*s;

		if (c == '"' || c == '\\')
			tm_str_addf(out, "\\%c", c);
		else if (c < 0x20)
			tm_str_addf(out, "\\u%04x", c);
		else
			tm_str_addc(out, (char)c);
	}
	tm_str_addc(out, '"');
}

static void add_object(struct tm_str *out, const json_t *v)
{
	size_t n = json_object_size(v), i = 0;
	const char **keys = tm_xcalloc(n, sizeof *keys);
	const char *key;
	json_t *member;

	json_object_foreach((json_t *)v, key, member)
		keys[i++] = key;
	qsort(keys, n, sizeof *keys, by_bytes);
	tm_str_addc(out, '{');
	for (i = 0; i < n; i++) {
		if (i)
			tm_str_addc(out, ',');
		add_string(out, keys[i]);
		tm_str_addc(out, ':');
		tm_json_canonical(json_object_get(v, keys[i]), out);
	}
	tm_str_addc(out, '}');
	free(keys);
}

void tm_json_canonical(const json_t *v, struct tm_str *out)
{
	switch (v ? json_typeof(v) : JSON_NULL) {
	case JSON_OBJECT:
		add_object(out, v);
		break;
	case JSON_ARRAY:
		tm_str_addc(out, '[');
		for (size_t i = 0; i < json_array_size(v); i++) {
			if (i)
				tm_str_addc(out, ',');
			tm_json_canonical(json_array_get(v, i), out);
		}
		tm_str_addc(out, ']');
		break;
	case JSON_STRING:
		add_string(out, json_string_value(v));
		break;
	case JSON_INTEGER:
		tm_str_addf(out, "%" PRId64, (int64_t)json_integer_value(v));
		break;
	case JSON_REAL:
		tm_add_double(out, json_real_value(v));
		break;
	case JSON_TRUE:
		tm_str_add(out, "true");
		break;
	case JSON_FALSE:
		tm_str_add(out, "false");
		break;
	case JSON_NULL:
		tm_str_add(out, "null");
		break;
	}
}

int tm_json_write_line(int fd, json_t *v, struct tm_err *err)
{
	struct tm_str text = TM_STR_INIT;
	int rc;

	tm_json_canonical(v, &text);
	tm_str_addc(&text, '\n');
	rc = tm_write_fd(fd, text.s, text.n, err);
	tm_str_free(&text);
	json_decref(v);
	return rc;
}

int tm_json_parse(const char *s, size_t n, json_t **out, struct tm_err *err)
{
	json_error_t je;
	json_t *v = json_loadb(s, n, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &je);

	if (!v)
		return tm_fail_at(err, TM_EINPUT, NULL, je.line > 0 ? (unsigned)je.line : 0,
				  je.column > 0 ? (unsigned)je.column : 0, "not JSON: %s", je.text);
	*out = v;
	return 0;
}

void tm_sha256_hex(const void *p, size_t n, char out[65])
{
	SHA2_CTX ctx;

	SHA256Init(&ctx);
	SHA256Update(&ctx, p, n);
	SHA256End(&ctx, out);
}

int64_t tm_json_i64(const json_t *obj, const char *key, int64_t def)
{
	const json_t *v = json_object_get(obj, key);

	return json_is_integer(v) ? (int64_t)json_integer_value(v) : def;
}

double tm_json_real(const json_t *obj, const char *key, double def)
{
	const json_t *v = json_object_get(obj, key);

	return json_is_number(v) ? json_number_value(v) : def;
}

const char *tm_json_str(const json_t *obj, const char *key, const char *def)
{
	const json_t *v = json_object_get(obj, key);

	return json_is_string(v) ? json_string_value(v) : def;
}

bool tm_json_choices(const json_t *v, struct tm_str *out)
{
	const json_t *list = json_object_get(v, "choices");

	if (!json_is_array(list) || json_object_size(v) != 1)
		return false;
	tm_str_add(out, "choices:");
	for (size_t i = 0; i < json_array_size(list); i++) {
		if (i)
			tm_str_addc(out, ',');
		tm_json_canonical(json_array_get(list, i), out);
	}
	return true;
}

/* Tiles of flash attention (flash.h). */
#include "device/cpu/flash.h"

int flash_init(struct flash *f, const struct tensor *out, const struct tensor *lengths, int64_t heads, struct tm_err *err)
{
	*f = (struct flash){ .at = attention_of(out, lengths, heads), .dtype = out->dtype };
	if (f->at.head_dim > FLASH_PANEL)
		return tm_fail(err, TM_EINVALID, "flash attention takes heads of at most %d elements, found %lld",
			       FLASH_PANEL, (long long)f->at.head_dim);
	f->queries = cpu_min(FLASH_QUERIES, FLASH_PANEL / f->at.head_dim);
	f->keys = cpu_min(FLASH_KEYS, FLASH_PANEL / f->at.head_dim);
	return 0;
}

struct panel flash_read(const struct flash *f, struct operand o, int64_t rows, float *buf)
{
	struct panel p;

	p.x = operand_read(&o, f->at.tf32, 0, rows, 0, f->at.head_dim, buf, &p.ld);
	return p;
}

void flash_scores(struct device *dev, const struct flash *f, float *scores, struct panel a, struct panel b,
		  int64_t rows, int64_t keys, float alpha)
{
	sgemm_one(dev, &(struct sgemm){
		.trans_b = true, .m = rows, .n = keys, .k = f->at.head_dim, .alpha = alpha,
		.a = a.x, .lda = a.ld, .b = b.x, .ldb = b.ld, .c = scores, .ldc = keys });
}

int64_t flash_seen(const struct flash *f, const struct head *head, int64_t row, int64_t key, int64_t keys)
{
	int64_t seen = keys_seen(&f->at, head->sample, row) - key;

	return seen < 0 ? 0 : cpu_min(seen, keys);
}

void flash_factors(const struct flash *f, float *factor, const struct head *head, int64_t row, int64_t key, int64_t n)
{
	cpu_drop_factors(factor, (uint64_t)(head->scores + row * f->at.tokens + key), n, f->at.p, f->at.random);
}

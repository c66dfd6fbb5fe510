#include "snapshot/digest.h"

#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>

static const uint32_t rounds[64] __attribute__((aligned(16))) = {
	0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
	0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
	0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
	0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
	0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
	0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
	0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
	0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

/*
 * The instructions keep the state as ABEF and CDGH. Sixteen groups of four
 * rounds; from the fourth group on each also makes the four message words
 * that are needed twelve rounds later (FIPS 180-4, 6.2.2).
 */
__attribute__((target("sha,sse4.1,ssse3")))
static void fast_blocks(uint32_t state[8], const uint8_t *p, size_t n)
{
	const __m128i swap = _mm_set_epi64x(0x0c0d0e0f08090a0bll, 0x0405060700010203ll);
	__m128i cdab = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)state), 0xb1);
	__m128i efgh = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)(state + 4)), 0x1b);
	__m128i abef = _mm_alignr_epi8(cdab, efgh, 8), cdgh = _mm_blend_epi16(efgh, cdab, 0xf0);

	for (; n; n--, p += 64) {
		__m128i abef_before = abef, cdgh_before = cdgh, w[4];

		for (int i = 0; i < 4; i++)
			w[i] = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(p + 16 * i)), swap);
#pragma GCC unroll 16
		for (int g = 0; g < 16; g++) {
			__m128i wk = _mm_add_epi32(w[g & 3], _mm_load_si128((const __m128i *)(rounds + 4 * g)));

			cdgh = _mm_sha256rnds2_epu32(cdgh, abef, wk);
			abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(wk, 0x0e));
			if (g < 12) {
				/* w[g + 4] from w[g … g + 3] */
				__m128i next = _mm_sha256msg1_epu32(w[g & 3], w[(g + 1) & 3]);

				next = _mm_add_epi32(next, _mm_alignr_epi8(w[(g + 3) & 3], w[(g + 2) & 3], 4));
				w[g & 3] = _mm_sha256msg2_epu32(next, w[(g + 3) & 3]);
			}
		}
		abef = _mm_add_epi32(abef, abef_before);
		cdgh = _mm_add_epi32(cdgh, cdgh_before);
	}
	cdab = _mm_shuffle_epi32(cdgh, 0xb1);
	efgh = _mm_shuffle_epi32(abef, 0x1b);
	_mm_storeu_si128((__m128i *)state, _mm_blend_epi16(efgh, cdab, 0xf0));
	_mm_storeu_si128((__m128i *)(state + 4), _mm_alignr_epi8(cdab, efgh, 8));
}

static bool can_be_fast(void)
{
	__builtin_cpu_init();
	if (!__builtin_cpu_supports("sse4.1") || !__builtin_cpu_supports("ssse3"))
		return false;
	/* gcc 12 does not know "sha": leaf 7, EBX bit 29 */
	unsigned a = 7, b, c = 0, d;

	__asm__("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
	return b >> 29 & 1;
}
#else
static void fast_blocks(uint32_t state[8], const uint8_t *p, size_t n)
{
	(void)state, (void)p, (void)n;
}

static bool can_be_fast(void)
{
	return false;
}
#endif

void snap_digest_init_slow(struct snap_digest *d)
{
	memset(d, 0, sizeof *d);
	SHA256Init(&d->slow);
}

void snap_digest_init(struct snap_digest *d)
{
	static const uint32_t start[8] = { 0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
					   0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19 };

	snap_digest_init_slow(d);
	memcpy(d->state, start, sizeof start);
	d->fast = can_be_fast();
}

void snap_digest_add(struct snap_digest *d, const void *data, size_t n)
{
	const uint8_t *p = data;
	size_t waiting = (size_t)(d->bytes % 64), part;

	if (!d->fast) {
		SHA256Update(&d->slow, p, n);
		return;
	}
	d->bytes += n;
	if (waiting) {
		part = n < 64 - waiting ? n : 64 - waiting;
		memcpy(d->rest + waiting, p, part);
		if (waiting + part < 64)
			return;
		fast_blocks(d->state, d->rest, 1);
		p += part;
		n -= part;
	}
	fast_blocks(d->state, p, n / 64);
	memcpy(d->rest, p + n / 64 * 64, n % 64);
}

void snap_digest_hex(struct snap_digest *d, char out[65])
{
	static const char hex[] = "0123456789abcdef";
	uint64_t bits = d->bytes * 8;
	uint8_t end[72] = { 0x80 };
	size_t pad = (119 - (size_t)(d->bytes % 64)) % 64 + 1;

	if (!d->fast) {
		SHA256End(&d->slow, out);
		return;
	}
	for (int i = 0; i < 8; i++)
		end[pad + (size_t)i] = (uint8_t)(bits >> (56 - 8 * i));
	snap_digest_add(d, end, pad + 8);
	for (int i = 0; i < 64; i++)
		out[i] = hex[d->state[i / 8] >> (28 - 4 * (i % 8)) & 15];
	out[64] = '\0';
}

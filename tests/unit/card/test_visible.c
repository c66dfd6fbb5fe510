/* Which card is cuda:N, under every CUDA_VISIBLE_DEVICES. */
#include "kit.h"

#include "card/visible.h"

#define A100_MIG "card GPU-aaaaaaaa-2222-3333-4444-555555555555 00000000:5E:00.0 40960 NVIDIA A100-PCIE-40GB\n" \
	"capability 8 0\nmax 1410\nmig 1\ninstance MIG-aaaa0000-1111-2222-3333-444444444444 4864\n" \
	"instance MIG-aaaa0001-1111-2222-3333-444444444444 9856\n"

/* "1 0" : NVML's indices in CUDA's order; "2.1": an instance. */
static void expect(const struct cards *c, const char *visible, const char *order, const char *want)
{
	struct tm_str got = TM_STR_INIT;
	struct card_visible v;

	card_visible(c, visible, order, &v);
	for (size_t i = 0; i < v.n; i++) {
		tm_str_addf(&got, "%s%u", i ? " " : "", c->v[v.v[i].card].index);
		if (v.v[i].instance >= 0)
			tm_str_addf(&got, ".%d", v.v[i].instance);
	}
	if (strcmp(got.s, want))
		fail_msg("CUDA_VISIBLE_DEVICES=%s CUDA_DEVICE_ORDER=%s: '%s', expected '%s'", visible ? visible : "(unset)",
			 order ? order : "(unset)", got.s, want);
	tm_str_free(&got);
}

static void test_order(void **state)
{
	struct card_visible v;
	struct cards c;

	(void)state;
	kit_script(KIT_DRIVER KIT_T4 KIT_H200);
	cards_read(&c);
	expect(&c, NULL, "PCI_BUS_ID", "0 1");
	expect(&c, NULL, NULL, "1 0");                  /* the fastest first */
	expect(&c, NULL, "FASTEST_FIRST", "1 0");
	expect(&c, "0", NULL, "1");
	expect(&c, "0", "PCI_BUS_ID", "0");
	card_visible(&c, NULL, NULL, &v);
	assert_false(v.sure);
	card_visible(&c, NULL, "PCI_BUS_ID", &v);
	assert_true(v.sure);
	cards_free(&c);
	kit_script(KIT_DRIVER KIT_H200 KIT_H200);
	cards_read(&c);
	expect(&c, NULL, NULL, "0 1");
	card_visible(&c, NULL, NULL, &v);
	assert_true(v.sure);
	cards_free(&c);
}

static void test_lists(void **state)
{
	struct cards c;

	(void)state;
	kit_script(KIT_DRIVER KIT_T4 KIT_H200 "card GPU-99990000-2222-3333-4444-555555555555 00000000:60:00.0 15360 Tesla T4\ncapability 7 5\n");
	cards_read(&c);
	expect(&c, "", "PCI_BUS_ID", "");
	expect(&c, "2,0", "PCI_BUS_ID", "2 0");
	expect(&c, " 1 , 0", "PCI_BUS_ID", "1 0");
	expect(&c, "1,-1,0", "PCI_BUS_ID", "1");        /* ends at the first that is none */
	expect(&c, "1,7,0", "PCI_BUS_ID", "1");
	expect(&c, "nonsense", "PCI_BUS_ID", "");
	expect(&c, "1,,0", "PCI_BUS_ID", "1");
	expect(&c, "1,1", "PCI_BUS_ID", "");            /* void */
	expect(&c, "0x1", "PCI_BUS_ID", "");
	expect(&c, "GPU-11111111-2222-3333-4444-555555555555,0", "PCI_BUS_ID", "1 0");
	expect(&c, "GPU-1111", "PCI_BUS_ID", "1");
	expect(&c, "GPU-9999", "PCI_BUS_ID", "");       /* two begin so */
	expect(&c, "GPU-99999", "PCI_BUS_ID", "0");
	expect(&c, "1,GPU-11111111", "PCI_BUS_ID", ""); /* twice the same */
	cards_free(&c);
}

static void test_instances(void **state)
{
	struct card_place at;
	struct cards c;

	(void)state;
	kit_script(KIT_DRIVER A100_MIG KIT_T4);
	cards_read(&c);
	expect(&c, NULL, "PCI_BUS_ID", "0.0 1");
	expect(&c, "MIG-aaaa0001-1111-2222-3333-444444444444", NULL, "0.1");
	expect(&c, "MIG-aaaa0001", NULL, "");           /* must be whole */
	assert_true(card_by_facts(&c, "GPU-aaaa0001-1111-2222-3333-444444444444", NULL, &at));
	assert_int_equal(at.instance, 1);
	assert_string_equal(card_place_uuid(&c, at), "MIG-aaaa0001-1111-2222-3333-444444444444");
	assert_ptr_not_equal(card_place_handle(&c, at), c.v[0].handle);
	cards_free(&c);
	kit_script(KIT_DRIVER "card GPU-b 00000000:5E:00.0 40960 NVIDIA A100\ncapability 8 0\nmig 1\n" KIT_T4);
	cards_read(&c);
	expect(&c, NULL, "PCI_BUS_ID", "1");            /* a card in MIG mode without instances is none */
	cards_free(&c);
}

static void expect_reason(const struct cards *c, const char *visible, const char *device, const char *text)
{
	struct tm_err err = { 0 };
	struct card_place at;

	if (visible)
		setenv("CUDA_VISIBLE_DEVICES", visible, 1);
	assert_int_equal(card_of_device(c, device, &at, &err), strcmp(device, "cuda:x") ? TM_EENV : TM_EINVALID);
	if (!strstr(err.text, text))
		fail_msg("'%s' lacks '%s'", err.text, text);
	unsetenv("CUDA_VISIBLE_DEVICES");
}

static void test_devices(void **state)
{
	struct tm_err err = { 0 };
	struct card_place at;
	struct cards c;

	(void)state;
	kit_script(KIT_DRIVER KIT_T4 KIT_H200);
	cards_read(&c);
	setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", 1);
	assert_ok(card_of_device(&c, "cuda", &at, &err), &err);
	assert_int_equal(at.card, 0);
	assert_ok(card_of_device(&c, "cuda:1", &at, &err), &err);
	assert_int_equal(at.card, 1);
	setenv("CUDA_VISIBLE_DEVICES", "1", 1);
	assert_ok(card_of_device(&c, "cuda:0", &at, &err), &err);
	assert_int_equal(at.card, 1);
	unsetenv("CUDA_VISIBLE_DEVICES");
	expect_reason(&c, NULL, "cuda:2", "the last one is cuda:1");
	expect_reason(&c, NULL, "cuda:x", "number of a card");
	expect_reason(&c, "", "cuda", "is empty, which hides every card");
	expect_reason(&c, "5", "cuda", "=5 leaves no card");
	expect_reason(&c, "1", "cuda:1", "with CUDA_VISIBLE_DEVICES=1");
	unsetenv("CUDA_DEVICE_ORDER");
	cards_free(&c);
	kit_script(KIT_DRIVER);
	cards_read(&c);
	expect_reason(&c, NULL, "cuda", "sees no card");
	cards_free(&c);
	kit_script(KIT_DRIVER "card GPU-b 00000000:5E:00.0 40960 NVIDIA A100\nmig 1\n");
	cards_read(&c);
	expect_reason(&c, NULL, "cuda", "MIG mode without an instance");
	cards_free(&c);
}

static void test_by_facts(void **state)
{
	struct card_place at;
	struct cards c;

	(void)state;
	kit_script(KIT_DRIVER KIT_T4 KIT_H200);
	cards_read(&c);
	assert_true(card_by_facts(&c, "GPU-11111111-2222-3333-4444-555555555555", NULL, &at));
	assert_int_equal(at.card, 1);
	assert_true(card_by_facts(&c, NULL, "00000000:3b:00.0", &at));
	assert_int_equal(at.card, 0);
	assert_false(card_by_facts(&c, "GPU-0", "00000000:ff:00.0", &at));
	assert_false(card_by_facts(&c, NULL, NULL, &at));
	cards_free(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_order), cmocka_unit_test(test_lists), cmocka_unit_test(test_instances),
		cmocka_unit_test(test_devices), cmocka_unit_test(test_by_facts),
	};

	kit_begin();
	return cmocka_run_group_tests(tests, NULL, NULL);
}

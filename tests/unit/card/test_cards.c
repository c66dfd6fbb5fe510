/* What NVML says, and what it may not be able to say. */
#include "kit.h"

#include "card/cards.h"
#include "card/users.h"

#include "base/json.h"

static void test_facts(void **state)
{
	struct tm_str class = TM_STR_INIT, text = TM_STR_INIT;
	struct cards c;
	json_t *json;

	(void)state;
	kit_script(KIT_DRIVER KIT_T4 KIT_H200);
	cards_read(&c);
	assert_non_null(c.nvml);
	assert_string_equal(c.driver, "580.159.04");
	assert_int_equal(c.cuda, 13000);
	assert_int_equal(c.n, 2);
	assert_string_equal(c.v[1].name, "NVIDIA H200");
	assert_string_equal(c.v[1].pci, "00000000:1a:00.0");
	assert_int_equal(c.v[1].memory_bytes, 143771ull << 20);
	assert_int_equal(c.v[1].power_limit_mw, 700000);
	json = cards_json(&c);
	tm_json_canonical(json_array_get(json, 1), &text);
	assert_string_equal(text.s, "{\"capability\":\"9.0\",\"compute_mode\":\"default\",\"ecc\":true,\"index\":1,\"mem_mhz_max\":3201,"
		"\"memory_bytes\":150754820096,\"mig\":false,\"name\":\"NVIDIA H200\",\"pci\":\"00000000:1a:00.0\",\"persistence\":true,"
		"\"power_limit_w\":700,\"sm_mhz_max\":1980,\"uuid\":\"GPU-11111111-2222-3333-4444-555555555555\"}");
	cards_class(&c, &class);
	assert_string_equal(class.s, "NVIDIA H200 140GiB 700W+Tesla T4 15GiB 70W");
	json_decref(json);
	tm_str_free(&class);
	tm_str_free(&text);
	cards_free(&c);
}

/* Four equal ones are the class of one: each run is on one of them. */
static void test_class_of_equal_cards(void **state)
{
	struct tm_str one = TM_STR_INIT, four = TM_STR_INIT;
	struct cards c;

	(void)state;
	kit_script(KIT_DRIVER KIT_H200);
	cards_read(&c);
	cards_class(&c, &one);
	cards_free(&c);
	kit_script(KIT_DRIVER KIT_H200 KIT_H200 KIT_H200 KIT_H200);
	cards_read(&c);
	assert_int_equal(c.n, 4);
	cards_class(&c, &four);
	cards_free(&c);
	assert_string_equal(one.s, four.s);
	kit_script(KIT_DRIVER KIT_H200 "limit 500\n");
	cards_read(&c);
	tm_str_reset(&four);
	cards_class(&c, &four);
	cards_free(&c);
	assert_string_not_equal(one.s, four.s);
	tm_str_free(&one);
	tm_str_free(&four);
}

static void test_no_library(void **state)
{
	struct cards c;

	(void)state;
	setenv("TIDEMARK_NVML", "none", 1);
	cards_read(&c);
	assert_null(c.nvml);
	assert_false(c.failed);
	assert_non_null(strstr(c.why, "switched off"));
	cards_free(&c);
	setenv("TIDEMARK_NVML", "/nonexistent/libnvidia-ml.so.1", 1);
	cards_read(&c);
	assert_null(c.nvml);
	assert_true(c.failed);
	assert_non_null(strstr(c.why, "/nonexistent"));
	cards_free(&c);
	/* a library, and none of NVML's */
	setenv("TIDEMARK_NVML", "libm.so.6", 1);
	cards_read(&c);
	assert_null(c.nvml);
	assert_non_null(strstr(c.why, "no NVML"));
	cards_free(&c);
	setenv("TIDEMARK_NVML", BUILD_DIR "/fake_nvml.so", 1);
}

static void test_does_not_start(void **state)
{
	struct cards c;

	(void)state;
	kit_script("init 18\n");
	cards_read(&c);
	assert_null(c.nvml);
	assert_true(c.failed);
	assert_non_null(strstr(c.why, "restart the machine"));
	cards_free(&c);
}

static void test_card_is_lost(void **state)
{
	struct cards c;

	(void)state;
	kit_script(KIT_DRIVER "card GPU-x 00000000:01:00.0 1 NVIDIA H200\nlost\n" KIT_T4);
	cards_read(&c);
	assert_int_equal(c.n, 2);
	assert_non_null(strstr(c.v[0].broken, "fallen off the bus"));
	assert_string_equal(c.v[1].name, "Tesla T4");
	cards_free(&c);
}

/* Whatever single function fails, the rest is still known. */
static void test_every_function_may_fail(void **state)
{
	static const char *const functions[] = {
		"nvmlSystemGetDriverVersion", "nvmlSystemGetCudaDriverVersion_v2", "nvmlDeviceGetName", "nvmlDeviceGetUUID",
		"nvmlDeviceGetPciInfo_v3", "nvmlDeviceGetCudaComputeCapability", "nvmlDeviceGetMaxClockInfo",
		"nvmlDeviceGetEnforcedPowerLimit", "nvmlDeviceGetEccMode", "nvmlDeviceGetMigMode", "nvmlDeviceGetPersistenceMode",
		"nvmlDeviceGetComputeMode", "nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetClockInfo", "nvmlDeviceGetPowerUsage",
		"nvmlDeviceGetTemperature", "nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetComputeRunningProcesses_v3",
	};
	struct tm_str script = TM_STR_INIT;

	(void)state;
	for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
		struct cards c;
		json_t *facts, *now;

		tm_str_reset(&script);
		tm_str_addf(&script, KIT_DRIVER "fail %s 3\n" KIT_H200 "process %d 100\n", functions[i], (int)getpid());
		kit_script(script.s);
		cards_read(&c);
		assert_int_equal(c.n, 1);
		facts = cards_json(&c);
		now = card_now_json(&c, &c.v[0]);
		/* 12 facts and the list of cards, 6 readings and the processes: one of them, or of the machine's two, is missing */
		assert_true(json_object_size(json_array_get(facts, 0)) + json_object_size(now) >= 16);
		json_decref(facts);
		json_decref(now);
		cards_free(&c);
	}
	tm_str_free(&script);
}

/* Before 510 memory has no `reserved`, and processes are of another shape. */
static void test_older_driver(void **state)
{
	struct card_user v[CARD_USERS_MAX];
	struct nvml_memory memory;
	struct cards c;
	size_t n;

	(void)state;
	kit_script("fail nvmlDeviceGetMemoryInfo_v2 13\nfail nvmlDeviceGetComputeRunningProcesses_v3 13\n" KIT_H200 "process 1 526\n");
	cards_read(&c);
	assert_true(nvml_memory(c.nvml, c.v[0].handle, &memory));
	assert_false(memory.exact);
	assert_int_equal(memory.used, (4ull + 526 + 600) << 20);
	assert_true(card_users_read(c.nvml, c.v[0].handle, v, &n));
	assert_int_equal(n, 1);
	assert_int_equal(v[0].pid, 1);
	assert_int_equal(v[0].bytes, 526ull << 20);
	cards_free(&c);
}

static void test_now(void **state)
{
	struct tm_str script = TM_STR_INIT, users = TM_STR_INIT;
	struct card_user v[CARD_USERS_MAX];
	struct cards c;
	json_t *now;
	size_t n;

	(void)state;
	tm_str_addf(&script, KIT_DRIVER KIT_H200 "reasons 0x44\nprocess %d 512\nprocess 4194303 1024\n", (int)getpid());
	kit_script(script.s);
	cards_read(&c);
	now = card_now_json(&c, &c.v[0]);
	assert_int_equal(tm_json_i64(now, "sm_mhz", 0), 1980);
	assert_int_equal(tm_json_i64(now, "mem_mhz", 0), 3201);
	assert_int_equal(tm_json_i64(now, "temperature_c", 0), 41);
	assert_int_equal(tm_json_i64(now, "used_bytes", 0), (4ull + 512 + 1024) << 20);
	assert_string_equal(tm_json_str(now, "clocks_held_by", ""), "power cap, heat (hardware)");
	assert_int_equal(json_array_size(json_object_get(now, "processes")), 2);
	json_decref(now);
	assert_true(card_users_read(c.nvml, c.v[0].handle, v, &n));
	card_users_text(v, n, &users);
	assert_non_null(strstr(users.s, "with 512 MiB"));
	assert_non_null(strstr(users.s, "process 4194303 (which cannot be seen from here) with 1.0"));
	cards_free(&c);
	tm_str_free(&script);
	tm_str_free(&users);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_facts), cmocka_unit_test(test_class_of_equal_cards), cmocka_unit_test(test_no_library),
		cmocka_unit_test(test_does_not_start), cmocka_unit_test(test_card_is_lost),
		cmocka_unit_test(test_every_function_may_fail), cmocka_unit_test(test_older_driver), cmocka_unit_test(test_now),
	};

	kit_begin();
	return cmocka_run_group_tests(tests, NULL, NULL);
}

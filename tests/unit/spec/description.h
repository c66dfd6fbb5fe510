/*
 * A description of workloads for tests: the format of docs/protocol.md, with
 * every type of parameter. It is ours and fixed, so that a test of the
 * reader of specs does not change when a workload gets a parameter.
 */
#ifndef TM_TEST_DESCRIPTION_H
#define TM_TEST_DESCRIPTION_H

#define COMMON_PARAMS \
	"{\"name\":\"device\",\"type\":\"text\",\"default\":\"cpu\",\"help\":\"where it runs\"}," \
	"{\"name\":\"cap\",\"type\":\"size\",\"default\":0,\"min\":0,\"max\":1e15,\"help\":\"device-memory cap\",\"same_numbers\":true}," \
	"{\"name\":\"seed\",\"type\":\"int\",\"default\":1,\"min\":0,\"max\":9007199254740991,\"help\":\"\"}," \
	"{\"name\":\"threads\",\"type\":\"int\",\"default\":0,\"min\":0,\"max\":1024,\"help\":\"\",\"unhashed\":true}," \
	"{\"name\":\"allocator\",\"type\":\"choice\",\"default\":\"caching\",\"choices\":[\"raw\",\"caching\"],\"help\":\"\",\"same_numbers\":true}," \
	"{\"name\":\"alloc_conf\",\"type\":\"text\",\"default\":\"\",\"help\":\"option string\",\"same_numbers\":true}"

static const char description_text[] =
	"{\"v\":1,\"workloads\":["
	"{\"name\":\"gpt\",\"help\":\"a GPT\",\"uses\":[\"memory\",\"device\"],\"params\":["
	"{\"name\":\"model\",\"type\":\"choice\",\"default\":\"gpt2-124m\",\"choices\":[\"gpt-tiny\",\"gpt2-124m\",\"gpt2-355m\"],\"help\":\"preset\"},"
	"{\"name\":\"layers\",\"type\":\"int\",\"default\":0,\"min\":0,\"max\":1000,\"help\":\"0: from the model\"},"
	"{\"name\":\"width\",\"type\":\"int\",\"default\":0,\"min\":0,\"max\":65536,\"help\":\"\"},"
	"{\"name\":\"heads\",\"type\":\"int\",\"default\":0,\"min\":0,\"max\":1024,\"help\":\"\"},"
	"{\"name\":\"context\",\"type\":\"int\",\"default\":0,\"min\":0,\"max\":1048576,\"help\":\"\"},"
	"{\"name\":\"vocab\",\"type\":\"int\",\"default\":0,\"min\":0,\"max\":1048576,\"help\":\"\"},"
	"{\"name\":\"dropout\",\"type\":\"real\",\"default\":0.1,\"min\":0,\"max\":0.9,\"help\":\"\"},"
	"{\"name\":\"batch\",\"type\":\"int\",\"default\":8,\"min\":1,\"max\":65536,\"unit\":\"samples\",\"help\":\"micro-batch\"},"
	"{\"name\":\"seq\",\"type\":\"int\",\"drawn\":true,\"default\":256,\"min\":1,\"max\":1048576,\"unit\":\"tokens\",\"help\":\"\"},"
	"{\"name\":\"accum\",\"type\":\"int\",\"default\":1,\"min\":1,\"max\":4096,\"help\":\"\"},"
	"{\"name\":\"data\",\"type\":\"choice\",\"default\":\"synthetic\",\"choices\":[\"synthetic\",\"text:text\"],\"help\":\"\"},"
	"{\"name\":\"precision\",\"type\":\"choice\",\"default\":\"fp32\",\"choices\":[\"fp32\",\"bf16\",\"fp16\"],\"help\":\"\"},"
	"{\"name\":\"attention\",\"type\":\"choice\",\"default\":\"materialised\",\"choices\":[\"materialised\",\"flash\"],"
	"\"aliases\":{\"math\":\"materialised\",\"sdpa\":\"flash\"},\"help\":\"\"},"
	"{\"name\":\"checkpoint\",\"type\":\"choice\",\"default\":\"none\",\"choices\":[\"none\",\"block\",\"every:int\",\"budget:size\"],\"help\":\"\",\"same_numbers\":true},"
	"{\"name\":\"loss\",\"type\":\"choice\",\"default\":\"full\",\"choices\":[\"full\"],\"help\":\"\"},"
	"{\"name\":\"optimizer\",\"type\":\"choice\",\"default\":\"adamw\",\"choices\":[\"adamw\",\"sgd\"],\"help\":\"\"},"
	"{\"name\":\"lr\",\"type\":\"real\",\"default\":0.0003,\"min\":0,\"max\":100,\"help\":\"\"},"
	"{\"name\":\"beta1\",\"type\":\"real\",\"default\":0.9,\"min\":0,\"max\":1,\"help\":\"\"},"
	"{\"name\":\"beta2\",\"type\":\"real\",\"default\":0.95,\"min\":0,\"max\":1,\"help\":\"\"},"
	"{\"name\":\"weight_decay\",\"type\":\"real\",\"default\":0.1,\"min\":0,\"max\":10,\"help\":\"\"},"
	"{\"name\":\"clip\",\"type\":\"real\",\"default\":1,\"min\":0,\"max\":1000,\"help\":\"\"},"
	"{\"name\":\"gradients\",\"type\":\"bool\",\"default\":false,\"help\":\"emit a hash\",\"unhashed\":true},"
	COMMON_PARAMS
	"],\"presets\":{\"model\":{\"gpt-tiny\":{\"layers\":4,\"width\":128,\"heads\":4,\"context\":256,\"vocab\":384},"
	"\"gpt2-124m\":{\"layers\":12,\"width\":768,\"heads\":12,\"context\":1024,\"vocab\":50257}}},\"examples\":[]},"
	"{\"name\":\"null\",\"help\":\"for tests\",\"uses\":[\"memory\"],\"params\":["
	"{\"name\":\"mode\",\"type\":\"choice\",\"default\":\"sleep\",\"choices\":[\"sleep\",\"alloc\",\"leak\"],\"help\":\"\"},"
	"{\"name\":\"sleep\",\"type\":\"duration\",\"default\":1000,\"min\":0,\"max\":1e12,\"help\":\"\"},"
	"{\"name\":\"leak\",\"type\":\"size\",\"default\":0,\"min\":0,\"max\":1e15,\"help\":\"\"},"
	COMMON_PARAMS "]},"
	/* keys that YAML 1.1 readers take for booleans */
	"{\"name\":\"norway\",\"help\":\"for tests\",\"params\":["
	"{\"name\":\"n\",\"type\":\"int\",\"default\":0,\"help\":\"\"},{\"name\":\"y\",\"type\":\"int\",\"default\":0,\"help\":\"\"},"
	"{\"name\":\"on\",\"type\":\"text\",\"default\":\"\",\"help\":\"\"},{\"name\":\"off\",\"type\":\"text\",\"default\":\"\",\"help\":\"\"},"
	"{\"name\":\"x\",\"type\":\"int\",\"default\":0,\"help\":\"\"},{\"name\":\"precision\",\"type\":\"choice\",\"default\":\"fp32\",\"choices\":[\"fp32\",\"no\"],\"help\":\"\"}"
	"]},"
	"{\"name\":\"exec\",\"help\":\"any program\",\"params\":["
	"{\"name\":\"command\",\"type\":\"list\",\"help\":\"argv\"},{\"name\":\"seed\",\"type\":\"int\",\"default\":1,\"help\":\"\"}]}"
	"],"
	"\"allocators\":[{\"name\":\"raw\",\"help\":\"\",\"exact\":true,\"conf\":false},{\"name\":\"caching\",\"help\":\"\",\"exact\":true,\"conf\":true,"
	"\"short\":{\"name\":\"expandable\",\"conf\":\"expandable_segments:True\"}}],"
	"\"devices\":[{\"name\":\"cpu\",\"help\":\"\",\"computes\":true}],"
	"\"metrics\":[{\"name\":\"mem.reserved.peak\",\"unit\":\"B\",\"better\":\"lower\",\"exact\":true,\"help\":\"\"},"
	"{\"name\":\"throughput.tokens\",\"unit\":\"1/s\",\"better\":\"higher\",\"exact\":false,\"help\":\"\"},"
	"{\"name\":\"loss.final\",\"unit\":\"\",\"better\":\"lower\",\"exact\":false,\"help\":\"\"}]}";

#endif

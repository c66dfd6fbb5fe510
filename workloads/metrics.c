/* One line a metric. Those that follow from the step times are computed by the harness. */
#include "metrics.h"

#include "base/mem.h"

#include <string.h>

#define EXACT true
#define NOISY false

const struct metric metrics[] = {
	{ "mem.requested.peak", "B", "lower", EXACT, "most bytes the workload had asked for at a time" },
	{ "mem.allocated.peak", "B", "lower", EXACT, "most bytes of blocks in use at a time, rounding included" },
	{ "mem.reserved.peak", "B", "lower", EXACT, "most bytes the allocator had taken from the device at a time" },
	{ "mem.allocated.peak.load", "B", "lower", EXACT, "mem.allocated.peak of the load phase" },
	{ "mem.allocated.peak.first_step", "B", "lower", EXACT, "mem.allocated.peak of step 0, in which optimizer state appears" },
	{ "mem.allocated.peak.steady", "B", "lower", EXACT, "mem.allocated.peak of the counted steps, without step 0" },
	{ "plan.requested.peak", "B", "lower", EXACT, "mem.requested.peak as planned before the run" },
	{ "plan.allocated.peak", "B", "lower", EXACT, "mem.allocated.peak as planned before the run" },
	{ "plan.reserved.peak", "B", "lower", EXACT, "mem.reserved.peak as planned before the run" },
	{ "mem.fragmentation", "1", "lower", NOISY, "1 - allocated / reserved when reserved was highest" },
	{ "mem.device.peak", "B", "lower", NOISY, "most device memory of the run's processes, context included, as the driver sees it" },
	{ "mem.host.peak", "B", "lower", NOISY, "largest resident set of the worker (VmHWM)" },
	{ "mem.parameters.at_peak", "B", "lower", EXACT, "allocated bytes of parameters at the allocated peak" },
	{ "mem.gradients.at_peak", "B", "lower", EXACT, "allocated bytes of gradients at the allocated peak" },
	{ "mem.optimizer.at_peak", "B", "lower", EXACT, "allocated bytes of optimizer state at the allocated peak" },
	{ "mem.activations.at_peak", "B", "lower", EXACT, "allocated bytes of activations at the allocated peak" },
	{ "mem.logits.at_peak", "B", "lower", EXACT, "allocated bytes of logits at the allocated peak" },
	{ "mem.workspace.at_peak", "B", "lower", EXACT, "allocated bytes of workspaces at the allocated peak" },
	{ "mem.input.at_peak", "B", "lower", EXACT, "allocated bytes of input at the allocated peak" },
	{ "mem.growth", "B/step", "lower", NOISY, "requested bytes a step that stay (Theil-Sen slope), of train or eval steps, whichever keep more" },
	{ "mem.growth.eval", "B/step", "lower", NOISY, "requested bytes an eval step that stay" },
	{ "alloc.count", "1/step", "lower", EXACT, "allocations a counted step" },
	{ "alloc.driver_calls", "1/step", "lower", EXACT, "allocations and frees of the driver a counted step" },
	{ "alloc.retries", "1/step", "lower", EXACT, "times a step that the allocator emptied its cache to find room" },
	{ "flops.model", "FLOP/step", "none", EXACT, "floating-point operations a step needs without recomputation" },
	{ "flops.done", "FLOP/step", "lower", EXACT, "floating-point operations a step carried out" },
	{ "util.blas", "1", "higher", NOISY, "share of the step time spent inside BLAS, mean over threads" },
	{ "util.mfu", "1", "higher", NOISY, "flops.model over what the card's dense peak for this precision allows in the time" },
	{ "util.hfu", "1", "higher", NOISY, "flops.done over the same" },
	{ "util.sm", "1", "higher", NOISY, "share of time and multiprocessors with at least one warp (NVML)" },
	{ "util.tensor", "1", "higher", NOISY, "share of the cycles in which tensor cores worked (NVML)" },
	{ "util.dram", "1", "none", NOISY, "share of the memory's bandwidth that was used (NVML)" },
	{ "energy.token", "J/token", "lower", NOISY, "energy of the card over the tokens of the window (NVML)" },
	{ "clock.sm", "MHz", "higher", NOISY, "median clock of the multiprocessors within the window (NVML)" },
	{ "power", "W", "none", NOISY, "mean power of the card within the window (NVML)" },
	{ "temperature", "°C", "none", NOISY, "highest temperature of the card within the window (NVML)" },
	{ "throughput.tokens", "tokens/s", "higher", NOISY, "tokens of counted train steps over their wall time" },
	{ "throughput.samples", "samples/s", "higher", NOISY, "samples of counted train steps over their wall time" },
	{ "step.median", "s", "lower", NOISY, "median duration of the counted train steps" },
	{ "step.p99", "s", "lower", NOISY, "99th percentile of the same" },
	{ "loss.first", "nats", "none", NOISY, "loss of step 0" },
	{ "loss.final", "nats", "lower", NOISY, "loss at step warmup.min + steps" },
	{ "scale.final", "1", "none", NOISY, "loss scale of the same step, where there is one" },
};
const size_t metrics_n = TM_ARRAY_N(metrics);

const struct metric *metric_find(const char *name)
{
	for (size_t i = 0; i < metrics_n; i++)
		if (strcmp(metrics[i].name, name) == 0)
			return &metrics[i];
	return NULL;
}

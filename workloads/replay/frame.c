/*
 * Which frame of a stack to name. The innermost ones are the allocator's own
 * and say nothing. Best is the program's own Python; in the backward pass
 * there is often none, as another thread runs it, but the node of the graph
 * tells which operation it belongs to.
 */
#include "replay.h"

#include "base/mem.h"

#include <string.h>

static bool is_python(const struct recording_frame *frame)
{
	return tm_ends_with(frame->file, ".py");
}

static bool is_torch(const struct recording_frame *frame)
{
	return strstr(frame->file, "/torch/") || strstr(frame->file, "\\torch\\");
}

static bool is_own(const struct recording_frame *frame)
{
	return is_python(frame) && !is_torch(frame);
}

static bool is_node(const struct recording_frame *frame)
{
	return tm_starts_with(frame->name, "torch::autograd::generated::") && strstr(frame->name, "Backward") &&
	       strstr(frame->name, "::apply(");
}

static bool is_operator(const struct recording_frame *frame)
{
	return tm_starts_with(frame->name, "at::_ops::") && strstr(frame->name, "::call(") &&
	       !tm_starts_with(frame->name, "at::_ops::empty");
}

const struct recording_frame *replay_frame(const struct recording *r, uint32_t stack)
{
	static bool (*const kinds[])(const struct recording_frame *) = { is_own, is_python, is_node, is_operator };

	if (stack == RECORDING_NONE || r->stacks[stack].n == 0)
		return NULL;
	for (size_t k = 0; k < TM_ARRAY_N(kinds); k++)
		for (size_t i = 0; i < r->stacks[stack].n; i++)
			if (kinds[k](recording_frame_at(r, stack, i)))
				return recording_frame_at(r, stack, i);
	return recording_frame_at(r, stack, 0);
}

/* Up to the arguments of a C++ function. */
static size_t name_length(const char *name)
{
	const char *at = name;

	while ((at = strchr(at, '(')))
		if (tm_starts_with(at, "(anonymous"))
			at++;
		else
			return (size_t)(at - name);
	return strlen(name);
}

void replay_frame_text(const struct recording_frame *frame, struct tm_str *out)
{
	const char *file = frame->file, *slash = strrchr(file, '/');

	if (!slash)
		slash = strrchr(file, '\\');
	if (slash)
		file = slash + 1;
	if (*file && strcmp(file, "??"))
		tm_str_addf(out, "%s:%lld ", file, (long long)frame->line);
	tm_str_addn(out, frame->name, name_length(frame->name));
}

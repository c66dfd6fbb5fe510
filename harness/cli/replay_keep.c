#include "cli/replay.h"
int replay_keep(struct cli *cli, const struct replay_view *v)
{
	(void)cli;
	(void)v;
	return 0;
}

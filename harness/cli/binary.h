/* Which build this is, as stored with a sweep. */
#ifndef TM_CLI_BINARY_H
#define TM_CLI_BINARY_H

#include "cli/cli.h"
#include "store/store.h"

/* SHA-256 over the programs that measure and their devices: two builds that differ are two binaries. TM_EENV. */
int binary_sha(struct cli *cli, char out[65]);
/* With what the program was built from. sha must outlive it. */
struct store_build binary_build(const char *sha);

#endif

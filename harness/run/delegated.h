/*
 * Finds out whether a part of the cgroup v2 tree was handed to us (systemd:
 * `systemd-run --user --scope -p Delegate=yes tidemark run …`) and prepares
 * it: this process moves into a leaf "harness", the guards make one child a
 * run. Without it everything works by polling.
 */
#ifndef TM_RUN_DELEGATED_H
#define TM_RUN_DELEGATED_H

/* The folder for the runs' cgroups, to be freed, or NULL. */
char *delegated_open(void);
/* Kills and removes what a lost guard left of a run's cgroup; does nothing where there is none. dir may be NULL. */
void delegated_end_run(const char *dir, const char *run_id);
/* Moves this process back and removes what was made; frees dir (may be NULL). */
void delegated_close(char *dir);

#endif

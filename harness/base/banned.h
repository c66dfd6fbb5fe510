/*
 * Calls nobody here may use; including this header makes them fail to
 * compile. Each has a replacement that cannot overflow, cannot run a shell,
 * or reports its errors.
 */
#ifndef TM_BANNED_H
#define TM_BANNED_H

#undef alloca
#undef strncat

#pragma GCC poison strcpy strcat strncat sprintf vsprintf strtok gets atoi atol atoll atof alloca popen tmpnam mktemp

/* system() is a common word; poison only the call. */
#define system(cmd) use_posix_spawn_with_an_argv_instead_of_system

#endif

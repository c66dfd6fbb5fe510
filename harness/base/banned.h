/*
 * Calls that nobody here may use. CMakeLists.txt puts this header in front of
 * every source file of the programs, where they fail to compile. Each has a
 * replacement that cannot overflow, runs no shell, keeps no hidden state or
 * reports its errors.
 */
#ifndef TM_BANNED_H
#define TM_BANNED_H

/* The headers that declare them: after the pragma even a declaration is an error. */
#include <alloca.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#undef alloca
#undef strncat
#undef strncpy

#pragma GCC poison strcpy strcat strncpy strncat sprintf vsprintf strtok strtok_r gets
#pragma GCC poison atoi atol atoll atof alloca popen tmpnam tempnam mktemp
#pragma GCC poison gmtime localtime ctime ctime_r asctime asctime_r

/* system() is a common word; poison only the call. */
#define system(cmd) use_posix_spawn_with_an_argv_instead_of_system

#endif

#include "signals.h"

#include "base/err.h"

#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

void signals_init(struct signals *s)
{
	static const int watched[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };
	sigset_t set;

	memset(s, 0, sizeof *s);
	sigemptyset(&set);
	for (size_t i = 0; i < sizeof watched / sizeof watched[0]; i++) {
		struct sigaction now;

		if (!sigaction(watched[i], NULL, &now) && now.sa_handler != SIG_IGN)
			sigaddset(&set, watched[i]);
	}
	sigprocmask(SIG_BLOCK, &set, &s->before);
	s->fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (s->fd < 0)
		BUG("signalfd failed");
}

void signals_read(struct signals *s)
{
	struct signalfd_siginfo info;

	while (read(s->fd, &info, sizeof info) == sizeof info) {
		s->n++;
		if (!s->first)
			s->first = info.ssi_signo == SIGINT ? SIGINT : SIGTERM;
	}
}

void signals_fini(struct signals *s)
{
	signals_read(s);
	close(s->fd);
	sigprocmask(SIG_SETMASK, &s->before, NULL);
}

//go:build cgo

#define _GNU_SOURCE
#include "shim.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

typedef struct flux_handle flux_t;
typedef struct flux_future flux_future_t;
typedef struct flux_reactor flux_reactor_t;
typedef struct flux_watcher flux_watcher_t;
typedef struct {
	char text[160];
} flux_error_t;

enum { FLUX_REACTOR_ONCE = 2, FLUX_POLLIN = 1 };

typedef void (*future_f)(flux_future_t *, void *);
typedef void (*watcher_f)(flux_reactor_t *, flux_watcher_t *, int, void *);

// What is called of libflux-core, as its manual pages declare it: flux_open(3),
// flux_rpc(3), flux_future_get(3), flux_future_create(3), flux_reactor_create(3),
// flux_fd_watcher_create(3), flux_watcher_start(3), flux_job_submit(3).
#define FUNCTIONS(F)                                                                       \
	F(const char *, core_version_string, (void))                                       \
	F(flux_t *, open_ex, (const char *uri, int flags, flux_error_t *error))            \
	F(void, close, (flux_t *))                                                         \
	F(flux_reactor_t *, get_reactor, (flux_t *))                                       \
	F(int, reactor_run, (flux_reactor_t *, int flags))                                 \
	F(flux_watcher_t *, fd_watcher_create,                                             \
	  (flux_reactor_t *, int fd, int events, watcher_f, void *arg))                    \
	F(void, watcher_start, (flux_watcher_t *))                                         \
	F(void, watcher_destroy, (flux_watcher_t *))                                       \
	F(flux_future_t *, rpc,                                                            \
	  (flux_t *, const char *topic, const char *payload, uint32_t node, int flags))    \
	F(int, rpc_get, (flux_future_t *, const char **payload))                           \
	F(uint32_t, rpc_get_matchtag, (flux_future_t *))                                   \
	F(int, future_then, (flux_future_t *, double timeout, future_f, void *arg))        \
	F(void, future_reset, (flux_future_t *))                                           \
	F(void, future_destroy, (flux_future_t *))                                         \
	F(const char *, future_error_string, (flux_future_t *))                            \
	F(flux_future_t *, job_submit, (flux_t *, const char *jobspec, int urgency, int flags))

struct library {
#define POINTER(result, name, arguments) result(*name) arguments;
	FUNCTIONS(POINTER)
#undef POINTER
};

struct shim {
	struct library flux;
	flux_t *handle;
	flux_watcher_t *waker;
	int wakefd;
	struct shim_result *first, **end;
	int failed; // the errno of what could not be kept for want of memory
};

struct shim_call {
	struct shim *shim;
	uint64_t tag;
	flux_future_t *future;
	int streaming;
};

// The library stays loaded: nothing says that it can be unloaded, and others may use it.
static int load(struct library *l, const char *path, char *err, size_t size)
{
	void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!handle) {
		snprintf(err, size, "%s", dlerror());
		return -1;
	}
#define LOOK_UP(result, name, arguments)                                                   \
	if (!(*(void **)&l->name = dlsym(handle, "flux_" #name))) {                        \
		snprintf(err, size, "%s: has no function flux_" #name, path);              \
		dlclose(handle);                                                           \
		return -1;                                                                 \
	}
	FUNCTIONS(LOOK_UP)
#undef LOOK_UP
	return 0;
}

static void woken(flux_reactor_t *r, flux_watcher_t *w, int events, void *arg)
{
	struct shim *s = arg;
	uint64_t count;
	(void)r, (void)w, (void)events;
	if (read(s->wakefd, &count, sizeof count) < 0 && errno != EAGAIN)
		s->failed = errno;
}

struct shim *shim_open(const char *library, const char *uri, char *err, size_t size, int *errnum)
{
	flux_error_t error = {""};
	struct shim *s = calloc(1, sizeof *s);
	*errnum = 0;
	if (!s) {
		snprintf(err, size, "out of memory");
		*errnum = ENOMEM;
		return NULL;
	}
	s->end = &s->first;
	s->wakefd = -1;
	if (load(&s->flux, library, err, size) < 0) {
		free(s);
		return NULL;
	}
	errno = 0;
	if (!(s->handle = s->flux.open_ex(uri, 0, &error))) {
		*errnum = errno ? errno : EIO;
		snprintf(err, size, "%s", error.text[0] ? error.text : strerror(*errnum));
		free(s);
		return NULL;
	}
	flux_reactor_t *r = s->flux.get_reactor(s->handle);
	if (!r || (s->wakefd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) < 0 ||
	    !(s->waker = s->flux.fd_watcher_create(r, s->wakefd, FLUX_POLLIN, woken, s))) {
		*errnum = errno ? errno : EIO;
		snprintf(err, size, "setting up its reactor: %s", strerror(*errnum));
		shim_close(s);
		return NULL;
	}
	s->flux.watcher_start(s->waker);
	return s;
}

void shim_close(struct shim *s)
{
	if (s->waker)
		s->flux.watcher_destroy(s->waker);
	s->flux.close(s->handle);
	if (s->wakefd >= 0)
		close(s->wakefd);
	shim_free_results(s->first);
	free(s);
}

const char *shim_version(struct shim *s)
{
	return s->flux.core_version_string();
}

static void keep(struct shim_call *c, int last, int errnum, const char *text)
{
	struct shim *s = c->shim;
	struct shim_result *r = calloc(1, sizeof *r);
	if (!r || (text && !(r->text = strdup(text)))) {
		free(r);
		s->failed = ENOMEM;
		return;
	}
	r->tag = c->tag;
	r->last = last;
	r->errnum = errnum;
	*s->end = r;
	s->end = &r->next;
}

static void fulfilled(flux_future_t *f, void *arg)
{
	struct shim_call *c = arg;
	struct library *flux = &c->shim->flux;
	const char *payload = NULL;
	if (flux->rpc_get(f, &payload) < 0) {
		int errnum = errno ? errno : EIO;
		keep(c, 1, errnum, flux->future_error_string(f));
		shim_drop(c);
	} else if (c->streaming) {
		keep(c, 0, 0, payload);
		flux->future_reset(f);
	} else {
		keep(c, 1, 0, payload);
		shim_drop(c);
	}
}

static struct shim_call *await(struct shim *s, uint64_t tag, flux_future_t *f, int streaming, int *errnum)
{
	struct shim_call *c = NULL;
	if (!f) {
		*errnum = errno ? errno : EIO;
		return NULL;
	}
	if ((c = calloc(1, sizeof *c))) {
		*c = (struct shim_call){.shim = s, .tag = tag, .future = f, .streaming = streaming};
		if (s->flux.future_then(f, -1., fulfilled, c) == 0)
			return c;
	}
	*errnum = errno ? errno : EIO;
	s->flux.future_destroy(f);
	free(c);
	return NULL;
}

struct shim_call *shim_rpc(struct shim *s, uint64_t tag, const char *topic, const char *payload,
                           uint32_t node, int flags, int *errnum)
{
	*errnum = errno = 0;
	flux_future_t *f = s->flux.rpc(s->handle, topic, payload, node, flags);
	if (f && flags & SHIM_NO_RESPONSE) {
		s->flux.future_destroy(f);
		return NULL;
	}
	return await(s, tag, f, flags & SHIM_STREAMING, errnum);
}

struct shim_call *shim_submit(struct shim *s, uint64_t tag, const char *jobspec, int urgency,
                              int flags, int *errnum)
{
	*errnum = errno = 0;
	return await(s, tag, s->flux.job_submit(s->handle, jobspec, urgency, flags), 0, errnum);
}

uint32_t shim_matchtag(struct shim_call *c)
{
	return c->shim->flux.rpc_get_matchtag(c->future);
}

void shim_drop(struct shim_call *c)
{
	c->shim->flux.future_destroy(c->future);
	free(c);
}

int shim_step(struct shim *s, struct shim_result **results)
{
	errno = 0;
	int rc = s->flux.reactor_run(s->flux.get_reactor(s->handle), FLUX_REACTOR_ONCE);
	int errnum = rc < 0 ? (errno ? errno : ECONNRESET) : s->failed;
	*results = s->first;
	s->first = NULL;
	s->end = &s->first;
	return errnum;
}

void shim_free_results(struct shim_result *r)
{
	while (r) {
		struct shim_result *next = r->next;
		free(r->text);
		free(r);
		r = next;
	}
}

void shim_wake(struct shim *s)
{
	const uint64_t one = 1;
	// A full counter, the only way in which this fails, wakes as well.
	if (write(s->wakefd, &one, sizeof one) < 0)
		return;
}

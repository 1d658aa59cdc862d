// A double of libflux-core for tests: the functions that package flux calls, with their
// documented behaviour, over the wire protocol of the local connector (RFC 3). It is
// written from the manual pages and RFCs and shares nothing with Flux.
//
// Like the real one it has no locks, looks at its socket only while a call waits for an
// answer, and leaves calls unanswered when the broker dies: flux_reactor_run fails then.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

typedef struct flux_handle flux_t;
typedef struct flux_handle flux_reactor_t; // each handle has its own
typedef struct future flux_future_t;
typedef struct watcher flux_watcher_t;
typedef struct {
	char text[160];
} flux_error_t;
typedef void (*future_f)(flux_future_t *, void *);
typedef void (*watcher_f)(flux_reactor_t *, flux_watcher_t *, int, void *);

enum { NO_RESPONSE = 1, STREAMING = 2 };
enum { RUN_ONCE = 2, POLLIN_EVENT = 1 };
enum { MSG_REQUEST = 1, MSG_RESPONSE = 2 };
enum { HAS_TOPIC = 1, HAS_PAYLOAD = 2, HAS_NO_RESPONSE = 4, HAS_ROUTE = 8, IS_STREAMING = 64 };

static const uint32_t magic = 0xffee0012;

struct future {
	flux_t *handle;
	struct future *next;
	uint32_t matchtag;
	future_f then;
	void *arg;
	int errnum;
	char *payload; // of the answer, or the error's text
};

struct watcher {
	flux_t *handle;
	struct watcher *next;
	int fd, started;
	watcher_f callback;
	void *arg;
};

struct flux_handle {
	int fd;
	uint32_t matchtag;
	struct future *futures;
	struct watcher *watchers;
	char *buffer;
	size_t used, size;
};

const char *flux_core_version_string(void)
{
	return "0.0.0-double";
}

static int open_socket(const char *uri, flux_error_t *error)
{
	static const char scheme[] = "local://";
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	unsigned char answer = 0;
	if (!uri)
		uri = getenv("FLUX_URI");
	if (!uri || strncmp(uri, scheme, strlen(scheme)) || strlen(uri) - strlen(scheme) >= sizeof address.sun_path) {
		snprintf(error->text, sizeof error->text, "%s: unknown scheme, or no URI", uri ? uri : "FLUX_URI");
		errno = EINVAL;
		return -1;
	}
	strcpy(address.sun_path, uri + strlen(scheme));
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) < 0 || read(fd, &answer, 1) != 1 || answer) {
		int errnum = answer ? answer : errno ? errno : ECONNRESET;
		snprintf(error->text, sizeof error->text, "%s: %s", address.sun_path, strerror(errnum));
		if (fd >= 0)
			close(fd);
		errno = errnum;
		return -1;
	}
	return fd;
}

flux_t *flux_open_ex(const char *uri, int flags, flux_error_t *error)
{
	(void)flags;
	errno = 0;
	int fd = open_socket(uri, error);
	if (fd < 0)
		return NULL;
	flux_t *h = calloc(1, sizeof *h);
	if (!h)
		close(fd);
	else
		h->fd = fd;
	return h;
}

void flux_future_destroy(flux_future_t *f)
{
	if (!f)
		return;
	for (struct future **p = &f->handle->futures; *p; p = &(*p)->next) {
		if (*p == f) {
			*p = f->next;
			break;
		}
	}
	free(f->payload);
	free(f);
}

void flux_close(flux_t *h)
{
	close(h->fd);
	free(h->buffer);
	free(h);
}

flux_reactor_t *flux_get_reactor(flux_t *h)
{
	return h;
}

flux_watcher_t *flux_fd_watcher_create(flux_reactor_t *r, int fd, int events, watcher_f callback, void *arg)
{
	struct watcher *w = calloc(1, sizeof *w);
	if (!w)
		return NULL;
	if (events != POLLIN_EVENT) {
		free(w);
		errno = EINVAL;
		return NULL;
	}
	*w = (struct watcher){.handle = r, .next = r->watchers, .fd = fd, .callback = callback, .arg = arg};
	r->watchers = w;
	return w;
}

void flux_watcher_start(flux_watcher_t *w)
{
	w->started = 1;
}

void flux_watcher_destroy(flux_watcher_t *w)
{
	for (struct watcher **p = &w->handle->watchers; *p; p = &(*p)->next) {
		if (*p == w) {
			*p = w->next;
			break;
		}
	}
	free(w);
}

static int write_all(int fd, const void *data, size_t size)
{
	for (const char *p = data; size > 0;) {
		ssize_t n = send(fd, p, size, MSG_NOSIGNAL);
		if (n < 0 && errno != EINTR)
			return -1;
		if (n > 0) {
			p += n;
			size -= n;
		}
	}
	return 0;
}

static char *put_frame(char *to, const void *data, uint32_t size)
{
	if (size < 255) {
		*to++ = size;
	} else {
		uint32_t length = htonl(size);
		*to++ = (char)255;
		to = mempcpy(to, &length, sizeof length);
	}
	return mempcpy(to, data, size);
}

static int send_request(flux_t *h, const char *topic, const char *payload, uint32_t node, int flags, uint32_t matchtag)
{
	enum { PREFIX = 8, HEADER = 20, FRAMES = 4 * 5 };
	uint32_t topic_size = strlen(topic), payload_size = payload ? strlen(payload) + 1 : 0;
	char *message = malloc(PREFIX + FRAMES + topic_size + payload_size + HEADER);
	if (!message)
		return -1;
	char *end = put_frame(message + PREFIX, topic, topic_size);
	if (payload)
		end = put_frame(end, payload, payload_size);
	unsigned char header[HEADER] = {0x8e, 1, MSG_REQUEST, HAS_TOPIC};
	header[3] |= (payload ? HAS_PAYLOAD : 0) | (flags & NO_RESPONSE ? HAS_NO_RESPONSE : 0) | (flags & STREAMING ? IS_STREAMING : 0);
	uint32_t words[4] = {htonl(getuid()), htonl(0), htonl(node), htonl(matchtag)};
	memcpy(header + 4, words, sizeof words);
	end = put_frame(end, header, HEADER);
	uint32_t length = htonl(end - message - PREFIX);
	memcpy(message, &magic, sizeof magic);
	memcpy(message + 4, &length, sizeof length);
	int rc = write_all(h->fd, message, end - message);
	int errnum = errno;
	free(message);
	errno = errnum;
	return rc;
}

flux_future_t *flux_rpc(flux_t *h, const char *topic, const char *payload, uint32_t node, int flags)
{
	struct future *f = calloc(1, sizeof *f);
	if (!f)
		return NULL;
	*f = (struct future){.handle = h, .matchtag = flags & NO_RESPONSE ? 0 : ++h->matchtag};
	if (send_request(h, topic, payload, node, flags, f->matchtag) < 0) {
		int errnum = errno;
		free(f);
		errno = errnum;
		return NULL;
	}
	if (f->matchtag) {
		f->next = h->futures;
		h->futures = f;
	}
	return f;
}

uint32_t flux_rpc_get_matchtag(flux_future_t *f)
{
	return f->matchtag;
}

int flux_rpc_get(flux_future_t *f, const char **payload)
{
	if (f->errnum) {
		errno = f->errnum;
		return -1;
	}
	*payload = f->payload;
	return 0;
}

int flux_future_then(flux_future_t *f, double timeout, future_f then, void *arg)
{
	(void)timeout;
	f->then = then;
	f->arg = arg;
	return 0;
}

void flux_future_reset(flux_future_t *f)
{
	free(f->payload);
	f->payload = NULL;
}

const char *flux_future_error_string(flux_future_t *f)
{
	return f->payload ? f->payload : strerror(f->errnum);
}

static char *base64(char *to, const char *from, size_t size)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	for (size_t i = 0; i < size; i += 3) {
		size_t left = size - i;
		uint32_t three = (unsigned char)from[i] << 16 | (left > 1 ? (unsigned char)from[i + 1] << 8 : 0) |
		                 (left > 2 ? (unsigned char)from[i + 2] : 0);
		*to++ = digits[three >> 18];
		*to++ = digits[three >> 12 & 63];
		*to++ = left > 1 ? digits[three >> 6 & 63] : '=';
		*to++ = left > 2 ? digits[three & 63] : '=';
	}
	*to = 0;
	return to;
}

// The signature is that of an instance's owner: none.
flux_future_t *flux_job_submit(flux_t *h, const char *jobspec, int urgency, int flags)
{
	char claim[128] = "", *end = claim;
	const char *const words[] = {"version", "i1", "userid", NULL, "mechanism", "snone"};
	for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
		end += words[i] ? sprintf(end, "%s", words[i]) : sprintf(end, "i%u", getuid());
		end++; // its zero byte belongs to it
	}
	size_t size = strlen(jobspec);
	char *request = malloc(256 + 2 * sizeof claim + 2 * size);
	if (!request)
		return NULL;
	char *to = request + sprintf(request, "{\"J\":\"");
	to = base64(to, claim, end - claim);
	*to++ = '.';
	to = base64(to, jobspec, size);
	sprintf(to, ".none\",\"urgency\":%d,\"flags\":%d}", urgency, flags);
	flux_future_t *f = flux_rpc(h, "job-ingest.submit", request, 0xffffffff, 0);
	int errnum = errno;
	free(request);
	errno = errnum;
	return f;
}

// Takes a frame off a message; NULL at its end.
static const char *take_frame(const char **from, const char *end, uint32_t *size)
{
	if (*from >= end)
		return NULL;
	*size = (unsigned char)*(*from)++;
	if (*size == 255) {
		memcpy(size, *from, sizeof *size);
		*size = ntohl(*size);
		*from += sizeof *size;
	}
	const char *frame = *from;
	*from += *size;
	return frame;
}

static void dispatch(flux_t *h, const char *message, size_t size)
{
	const unsigned char *header = (const unsigned char *)message + size - 20;
	uint32_t errnum, matchtag, length = 0;
	memcpy(&errnum, header + 12, sizeof errnum);
	memcpy(&matchtag, header + 16, sizeof matchtag);
	if (header[0] != 0x8e || header[2] != MSG_RESPONSE)
		return;
	struct future *f = h->futures;
	while (f && f->matchtag != ntohl(matchtag))
		f = f->next;
	if (!f || !f->then)
		return; // nobody waits any more
	const char *from = message, *end = (const char *)header - 1, *payload = NULL;
	if (header[3] & HAS_ROUTE) {
		do
			take_frame(&from, end, &length);
		while (length > 0);
	}
	if (header[3] & HAS_TOPIC)
		take_frame(&from, end, &length);
	if (header[3] & HAS_PAYLOAD)
		payload = take_frame(&from, end, &length);
	free(f->payload);
	f->payload = payload ? strndup(payload, length) : NULL;
	f->errnum = ntohl(errnum);
	f->then(f, f->arg);
}

static int receive(flux_t *h)
{
	if (h->size - h->used < 4096) {
		char *bigger = realloc(h->buffer, h->size + 65536);
		if (!bigger)
			return -1;
		h->buffer = bigger;
		h->size += 65536;
	}
	ssize_t n = read(h->fd, h->buffer + h->used, h->size - h->used);
	if (n <= 0) {
		if (n == 0)
			errno = ECONNRESET;
		return -1;
	}
	h->used += n;
	size_t done = 0;
	while (h->used - done >= 8) {
		uint32_t length;
		memcpy(&length, h->buffer + done + 4, sizeof length);
		length = ntohl(length);
		if (h->used - done - 8 < length)
			break;
		dispatch(h, h->buffer + done + 8, length);
		done += 8 + length;
	}
	memmove(h->buffer, h->buffer + done, h->used - done);
	h->used -= done;
	return 0;
}

int flux_reactor_run(flux_reactor_t *h, int flags)
{
	enum { MOST = 8 };
	struct pollfd fds[MOST];
	struct watcher *watchers[MOST];
	nfds_t n = 0;
	if (flags != RUN_ONCE) {
		errno = EINVAL;
		return -1;
	}
	for (struct watcher *w = h->watchers; w && n < MOST - 1; w = w->next) {
		if (w->started) {
			watchers[n] = w;
			fds[n++] = (struct pollfd){.fd = w->fd, .events = POLLIN};
		}
	}
	nfds_t own = n;
	if (h->futures)
		fds[n++] = (struct pollfd){.fd = h->fd, .events = POLLIN};
	if (poll(fds, n, -1) < 0)
		return errno == EINTR ? (int)own : -1;
	for (nfds_t i = 0; i < own; i++)
		if (fds[i].revents)
			watchers[i]->callback(h, watchers[i], POLLIN_EVENT, watchers[i]->arg);
	if (n > own && fds[own].revents && receive(h) < 0)
		return -1;
	return own;
}

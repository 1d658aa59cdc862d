// The C side of package flux: what is called of libflux-core, found by dlopen. Its
// declarations are our own, so no header of Flux's is needed to build.
//
// All functions but shim_wake are called by one thread per shim: libflux has no locks.
#ifndef GANGLINE_FLUX_SHIM_H
#define GANGLINE_FLUX_SHIM_H

#include <stddef.h>
#include <stdint.h>

// One connection to a broker.
struct shim;

// One call that may be answered. It is the shim's until its last result, or shim_drop.
struct shim_call;

// One answer. The list of them is the caller's, to be freed by shim_free_results.
struct shim_result {
	struct shim_result *next;
	uint64_t tag;
	int last;   // the call is gone, with it its shim_call
	int errnum; // 0 for a payload
	char *text; // the payload or the error's text; NULL for none
};

// The rpc flags of libflux.
enum { SHIM_NO_RESPONSE = 1, SHIM_STREAMING = 2 };

// Loads the library and connects. NULL with the reason in err, and its errno in errnum,
// which is 0 where the library is what fails.
struct shim *shim_open(const char *library, const char *uri, char *err, size_t size, int *errnum);

// Drops what is pending and disconnects. Calls that were not dropped before are invalid.
void shim_close(struct shim *s);

// The library's version, e.g. "0.88.0". It lives as long as the process.
const char *shim_version(struct shim *s);

// Sends a request; its answers have the tag. NULL with errnum set, or 0 where no
// response was asked for.
struct shim_call *shim_rpc(struct shim *s, uint64_t tag, const char *topic, const char *payload,
                           uint32_t node, int flags, int *errnum);

// Sends a jobspec, signed as the library does it.
struct shim_call *shim_submit(struct shim *s, uint64_t tag, const char *jobspec, int urgency,
                              int flags, int *errnum);

// The number by which a broker knows a call of a stream.
uint32_t shim_matchtag(struct shim_call *c);

// Forgets a call. Answers that still come are dropped by the library.
void shim_drop(struct shim_call *c);

// Waits for an answer, the loss of the broker, or shim_wake. It returns 0, or the errno
// of a lost connection, and in any case the results so far, oldest first.
int shim_step(struct shim *s, struct shim_result **results);

void shim_free_results(struct shim_result *results);

// Makes shim_step return. It may be called by any thread until shim_close.
void shim_wake(struct shim *s);

#endif

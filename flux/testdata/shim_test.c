// Drives the shim as the Go side does, to be run with AddressSanitizer. It says "kill it"
// when its broker is to be ended.
#include "shim.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(what)                                                        \
	do {                                                               \
		if (!(what)) {                                             \
			fprintf(stderr, "line %d: %s\n", __LINE__, #what); \
			exit(1);                                           \
		}                                                          \
	} while (0)

static const char watch[] = "job-info.eventlog-watch";
static const uint32_t any = 0xffffffff;

// Steps until so many calls have had their last answer; it returns the errnos' sum.
static int await(struct shim *s, int calls)
{
	int errors = 0;
	while (calls > 0) {
		struct shim_result *all;
		CHECK(shim_step(s, &all) == 0);
		for (struct shim_result *r = all; r; r = r->next) {
			calls -= r->last;
			errors += r->errnum;
		}
		shim_free_results(all);
	}
	return errors;
}

int main(int argc, char **argv)
{
	static const char jobspec[] =
		"{\"version\":1,\"resources\":[{\"type\":\"slot\",\"count\":1,\"label\":\"task\",\"with\":[{\"type\":\"core\",\"count\":1}]}],"
		"\"tasks\":[{\"command\":[\"/bin/sleep\",\"60\"],\"slot\":\"task\",\"count\":{\"per_slot\":1}}],"
		"\"attributes\":{\"system\":{\"duration\":0,\"cwd\":\"/tmp\",\"environment\":{}}}}";
	char err[256], request[128];
	int errnum;
	CHECK(argc == 3);
	CHECK(!shim_open("/no/such/library", argv[2], err, sizeof err, &errnum) && errnum == 0);
	CHECK(!shim_open("libc.so.6", argv[2], err, sizeof err, &errnum) && errnum == 0);
	CHECK(!shim_open(argv[1], "local:///no/such/socket", err, sizeof err, &errnum) && errnum == ENOENT);
	struct shim *s = shim_open(argv[1], argv[2], err, sizeof err, &errnum);
	CHECK(s && shim_version(s)[0]);

	for (uint64_t tag = 1; tag <= 200; tag++)
		CHECK(shim_rpc(s, tag, "attr.get", "{\"name\":\"size\"}", any, 0, &errnum));
	CHECK(await(s, 200) == 0);
	CHECK(shim_rpc(s, 1, "no-such.method", "{}", any, 0, &errnum));
	CHECK(await(s, 1) == ENOSYS);

	// Jobs that run on, their events watched, and given up in all ways.
	for (int i = 0; i < 20; i++)
		CHECK(shim_submit(s, 1000 + i, jobspec, 16, 0, &errnum));
	CHECK(await(s, 20) == 0);
	struct shim_call *waiting[20];
	int waits = 0;
	for (uint64_t i = 1; i <= 20; i++) {
		snprintf(request, sizeof request, "{\"id\":%llu,\"path\":\"eventlog\",\"flags\":0}", (unsigned long long)(i << 24));
		struct shim_call *c = shim_rpc(s, i, watch, request, any, SHIM_STREAMING, &errnum);
		CHECK(c);
		if (i % 2) {
			waiting[waits++] = c; // for the broker's death
			continue;
		}
		struct shim_result *all;
		CHECK(shim_step(s, &all) == 0);
		shim_free_results(all);
		snprintf(request, sizeof request, "{\"matchtag\":%u}", shim_matchtag(c));
		CHECK(!shim_rpc(s, 0, "job-info.eventlog-watch-cancel", request, any, SHIM_NO_RESPONSE, &errnum) && errnum == 0);
		shim_drop(c);
	}
	struct shim_result *all;
	shim_wake(s);
	CHECK(shim_step(s, &all) == 0);
	shim_free_results(all);
	// One that has answers which nobody has fetched.
	struct shim *other = shim_open(argv[1], argv[2], err, sizeof err, &errnum);
	CHECK(other);
	struct shim_call *last = shim_rpc(other, 1, watch, "{\"id\":16777216,\"path\":\"eventlog\",\"flags\":0}", any, SHIM_STREAMING, &errnum);
	CHECK(last);
	shim_drop(last);
	shim_close(other);

	puts("kill it");
	fflush(stdout);
	do {
		errnum = shim_step(s, &all);
		shim_free_results(all);
	} while (errnum == 0);
	while (waits > 0)
		shim_drop(waiting[--waits]);
	shim_close(s);
	return 0;
}

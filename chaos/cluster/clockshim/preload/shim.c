/* SPDX-License-Identifier: Apache-2.0
 *
 * Preload library: the wall clock and the disk of one process, under the harness's control.
 *
 * CLOCK_REALTIME (clock_gettime, gettimeofday, time) reads real + offset + (real - anchor) * skew; fsync and fdatasync take `stall`
 * longer. The numbers come from the file named by REDLOCK_CLOCK, mapped at start, so they change while the process runs. Monotonic
 * clocks are left alone: they are what a stepped or drifting wall clock is measured against.
 *
 * The system calls are made directly, not through dlsym(RTLD_NEXT): libfaketime's way of looking up the real functions crashes Debian's
 * redis-server, whose jemalloc reads the clock before any constructor has run. Until our constructor has run, the clock is the real one.
 * Linked with -nostdlib, so that the library carries no symbol version and one build loads under another glibc or musl in a container.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

/* One state. Keep in step with type state in clock.go. */
struct state {
	int64_t anchor; /* ns of the real clock at which offset was true */
	int64_t offset; /* ns */
	double skew;    /* rate - 1 */
	int64_t stall;  /* ns */
	int64_t pad[4];
};

/* The file. The writer fills the slot that version's lowest bit does not name and then moves version on by one: one byte, which cannot
 * tear, and no moment at which a dead writer leaves readers waiting. */
struct page {
	volatile uint8_t version;
	uint8_t pad[63];
	volatile struct state slot[2];
};

static const struct page *page;

__attribute__((constructor)) static void shim_open(void) {
	static const char failed[] = "redlock clock shim: cannot map the file named by REDLOCK_CLOCK\n";
	const char *name = getenv("REDLOCK_CLOCK");
	int fd = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;
	void *p = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof *page, PROT_READ, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED) { /* rather no process than one whose faults silently do nothing */
		if (write(2, failed, sizeof failed - 1)) {}
		_exit(127);
	}
	close(fd);
	page = p;
}

static struct state load(void) {
	struct state s = {0};
	uint8_t v;
	if (!page) return s;
	do {
		v = __atomic_load_n(&page->version, __ATOMIC_ACQUIRE);
		const volatile struct state *from = &page->slot[v & 1];
		s.anchor = from->anchor;
		s.offset = from->offset;
		s.skew = from->skew;
		s.stall = from->stall;
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
	} while (__atomic_load_n(&page->version, __ATOMIC_RELAXED) != v);
	return s;
}

static int64_t nanos(const struct timespec *t) { return t->tv_sec * INT64_C(1000000000) + t->tv_nsec; }

int clock_gettime(clockid_t id, struct timespec *t) {
	if (syscall(SYS_clock_gettime, id, t)) return -1;
	if (id != CLOCK_REALTIME && id != CLOCK_REALTIME_COARSE) return 0;
	struct state s = load();
	int64_t real = nanos(t);
	/* skew 0 must stay exact, hence not (real - anchor) * rate: a double holds 53 bits. */
	int64_t shown = real + s.offset + (int64_t)((double)(real - s.anchor) * s.skew);
	t->tv_sec = shown / 1000000000;
	t->tv_nsec = shown % 1000000000;
	return 0;
}

int gettimeofday(struct timeval *restrict tv, void *restrict zone) {
	struct timespec t;
	(void)zone; /* obsolete; Linux fills it with zeros or not at all */
	if (clock_gettime(CLOCK_REALTIME, &t)) return -1;
	tv->tv_sec = t.tv_sec;
	tv->tv_usec = t.tv_nsec / 1000;
	return 0;
}

time_t time(time_t *out) {
	struct timespec t;
	if (clock_gettime(CLOCK_REALTIME, &t)) return -1;
	if (out) *out = t.tv_sec;
	return t.tv_sec;
}

/* Waits in small steps and looks again, so that a stall that is called off ends at once. */
static void stall(void) {
	struct timespec start, now, step = {0, 1000000};
	if (syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &start)) return;
	for (;;) {
		if (syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now)) return;
		if (nanos(&now) - nanos(&start) >= load().stall) return;
		nanosleep(&step, NULL);
	}
}

int fsync(int fd) {
	stall();
	return syscall(SYS_fsync, fd);
}

int fdatasync(int fd) {
	stall();
	return syscall(SYS_fdatasync, fd);
}

// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * records.c - the cost of a record: insert, hit and miss in tables of a thousand to ten million
 * records, of one destination and of 50 000.
 *
 *	records [-m RECORDS] [-b OBJECT]
 *
 * RECORDS is the size of the largest table (default 10000000), OBJECT has the BPF programs (default
 * build/tsnat.bpf.o).
 *
 * Three ways: packets through the egress program, by BPF_PROG_TEST_RUN (the time is the kernel's,
 * of the program alone; each packet is of another connection, so the caches do not help, but for
 * the first row); the same table through the system calls that the daemon uses; and the table of
 * the datapath without BPF. Every round visits all sizes in turn; the medians of the rounds are
 * shown. With the table grow the cache misses, and nothing else: the rows where all is in the cache
 * stay the same. Needs root.
 */
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <getopt.h>
#include <linux/if_ether.h>
#include <sched.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "datapath_bpf/maps.h"
#include "core/decide.h"
#include "datapath_queue/records.h"

#define SIZES 4
#define ROUNDS 5
#define OPERATIONS 10000 /* per size and round */
#define SPREAD 50000	 /* destinations */
#define BATCH 4096
#define HOLD_MS 300000

#define AGAIN \
	100 /* how often the same packet or question is repeated, where the caches are to help */

enum operation {
	EGRESS_AGAIN,
	EGRESS_HIT,
	EGRESS_MISS,
	EGRESS_INSERT,
	EGRESS_REUSE,
	SYSCALL_HIT,
	SYSCALL_MISS,
	SYSCALL_INSERT,
	FILE_AGAIN,
	FILE_HIT,
	FILE_MISS,
	FILE_INSERT,
	N_OPERATIONS
};

static const char *const operation_names[] = {
	[EGRESS_AGAIN] = "egress program: a segment, all in the cache",
	[EGRESS_HIT] = "egress program: a segment, its record found",
	[EGRESS_MISS] = "egress program: a segment without record",
	[EGRESS_INSERT] = "egress program: a SYN, record made",
	[EGRESS_REUSE] = "egress program: a SYN, record reused",
	[SYSCALL_HIT] = "system call: record found",
	[SYSCALL_MISS] = "system call: no record",
	[SYSCALL_INSERT] = "system call: record made",
	[FILE_AGAIN] = "without BPF: record found, all in the cache",
	[FILE_HIT] = "without BPF: record found",
	[FILE_MISS] = "without BPF: no record",
	[FILE_INSERT] = "without BPF: record made",
};
_Static_assert(sizeof(operation_names) / sizeof(operation_names[0]) == N_OPERATIONS, "a name each");

struct bench {
	uint32_t n; /* records */
	bool spread;
	struct bpf_object *object;
	int map, program;
	struct records *file;
	double bpf_bytes, file_bytes; /* per record */
	double ns[N_OPERATIONS][ROUNDS];
};

static const char *object_path = "build/tsnat.bpf.o";
static char directory[] = "/dev/shm/tsnatd-bench.XXXXXX";
static char file_path[64];

static void die(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));
static void die(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	unlink(file_path);
	rmdir(directory);
	exit(1);
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static uint64_t rnd(void)
{
	static uint64_t x = 88172645463325252;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return x;
}

/* --- keys --- */

/*
 * Which of three sets of tuples: those that are in the table, those that come and go, and those
 * that never are.
 */
enum set { SET_PRESENT = 80, SET_NEW = 81, SET_ABSENT = 82 };

/* The I-th: one destination seen from many external addresses, or many destinations from one. */
static struct tuple key(const struct bench *b, uint32_t i, enum set set)
{
	uint32_t src = htonl(0xc6120000 + (b->spread ? 0 : i >> 16));
	uint32_t dst = htonl(0x0a000001 + (b->spread ? i % SPREAD : 0));
	struct tuple t = {
		.sport_be = htons((uint16_t)(b->spread ? i / SPREAD : i)),
		.dport_be = htons((uint16_t)set),
	};

	wire_map4(t.src, (const uint8_t *)&src);
	wire_map4(t.dst, (const uint8_t *)&dst);
	return t;
}

static struct record record(void)
{
	struct timespec t;
	uint32_t ms;

	clock_gettime(CLOCK_BOOTTIME, &t);
	ms = (uint32_t)(t.tv_sec * 1000 + t.tv_nsec / 1000000);
	return (struct record){
		.last = RECORD_LAST(1000000, ms),
		.state = RECORD_ESTABLISHED | RECORD_FIN_OUT | RECORD_FIN_IN,
		.shift = 77,
		.seen_ms = ms,
		.syn_ms = ms,
	};
}

/* --- packets --- */

#define PACKET_SIZE (ETH_HLEN + 20 + 32)

static void make_packet(uint8_t p[PACKET_SIZE], const struct tuple *t, uint16_t flags)
{
	static const uint8_t ip[] = { 0x45, 0, 0, 52, 0, 0, 0x40, 0, 64, 6 };
	uint8_t *tcp = p + ETH_HLEN + 20;

	memset(p, 0, PACKET_SIZE);
	p[12] = ETH_P_IP >> 8;
	memcpy(p + ETH_HLEN, ip, sizeof(ip));
	memcpy(p + ETH_HLEN + 12, t->src + 12, 4);
	memcpy(p + ETH_HLEN + 16, t->dst + 12, 4);
	memcpy(tcp, &t->sport_be, 2);
	memcpy(tcp + 2, &t->dport_be, 2);
	wire_put32(tcp + 4, (uint32_t)rnd());
	tcp[12] = 8 << 4;
	tcp[13] = (uint8_t)flags;
	tcp[20] = tcp[21] = 1;
	tcp[22] = 8;
	tcp[23] = 10;
	wire_put32(tcp + 24, 900000 + (uint32_t)rnd() % 1000);
}

/*
 * A packet through the egress program, REPEAT times. Returns the nanoseconds that it took there
 * each time.
 */
static uint32_t run(const struct bench *b, const struct tuple *t, uint16_t flags, int repeat)
{
	uint8_t in[PACKET_SIZE], out[PACKET_SIZE + 64];
	LIBBPF_OPTS(bpf_test_run_opts, opts, .data_in = in, .data_size_in = sizeof(in),
		    .data_out = out, .data_size_out = sizeof(out), .repeat = repeat);

	make_packet(in, t, flags);
	if (bpf_prog_test_run_opts(b->program, &opts) < 0)
		die("BPF_PROG_TEST_RUN: %s", strerror(errno));
	return opts.duration;
}

/* --- the tables --- */

static double bpf_memory(int fd)
{
	char path[64], line[128];
	long long n = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f))
		sscanf(line, "memlock: %lld", &n);
	if (f)
		fclose(f);
	return (double)n;
}

/* Bytes that this process has in memory, shared mappings included. */
static double own_memory(void)
{
	char line[128];
	long long kb = 0;
	FILE *f = fopen("/proc/self/status", "re");

	while (f && fgets(line, sizeof(line), f))
		sscanf(line, "VmRSS: %lld", &kb);
	if (f)
		fclose(f);
	return (double)kb * 1024;
}

static void fill_bpf(struct bench *b)
{
	struct tuple *keys = calloc(BATCH, sizeof(*keys));
	struct record *values = calloc(BATCH, sizeof(*values));

	if (!keys || !values)
		die("no memory");
	for (uint32_t i = 0; i < b->n; i += BATCH) {
		uint32_t count = b->n - i < BATCH ? b->n - i : BATCH;

		for (uint32_t k = 0; k < count; k++) {
			keys[k] = key(b, i + k, SET_PRESENT);
			values[k] = record();
		}
		if (bpf_map_update_batch(b->map, keys, values, &count, NULL) < 0)
			die("cannot fill the table: %s", strerror(errno));
	}
	free(keys);
	free(values);
}

static void make_bpf(struct bench *b)
{
	const struct settings set = { .active = 1, .policy = POLICY_REPAIR, .hold_ms = HOLD_MS };
	const struct external_key all = { .prefixlen = 32, .ifindex_be = htonl(1) };
	const uint32_t zero = 0, one = 1;
	struct bpf_map *map;

	b->object = bpf_object__open_file(object_path, NULL);
	map = b->object ? bpf_object__find_map_by_name(b->object, "records") : NULL;
	if (!map)
		die("%s: %s", object_path, strerror(errno));
	bpf_map__set_max_entries(map, b->n + OPERATIONS);
	if (bpf_object__load(b->object) < 0)
		die("%s: cannot be loaded: %s", object_path, strerror(errno));
	b->map = bpf_map__fd(map);
	b->program = bpf_program__fd(bpf_object__find_program_by_name(b->object, "tsnat_egress"));
	/*
	 * test packets leave by the loopback interface, where now every source is a translated one
	 */
	if (bpf_map_update_elem(bpf_object__find_map_fd_by_name(b->object, "externals"), &all, &one,
				BPF_ANY) < 0 ||
	    bpf_map_update_elem(bpf_object__find_map_fd_by_name(b->object, "settings"), &zero, &set,
				BPF_ANY) < 0)
		die("cannot set up the programs: %s", strerror(errno));
	fill_bpf(b);
	b->bpf_bytes = bpf_memory(b->map) / b->n;
}

static void file_insert(struct bench *b, const struct tuple *t, const struct record *r)
{
	struct records_ref ref;

	records_lock(b->file, t, &ref);
	if (!ref.record && records_insert(&ref, t, r) < 0)
		die("the file is full");
	records_unlock(&ref);
}

static void make_file(struct bench *b)
{
	const struct records_config cfg = {
		.records = b->n + OPERATIONS,
		.destinations = 1000,
		.boot_id = { 1 },
		.random = { rnd(), rnd() },
	};
	double before = own_memory();

	unlink(file_path);
	if (records_open(&b->file, file_path, &cfg) < 0)
		die("%s: cannot be opened", file_path);
	for (uint32_t i = 0; i < b->n; i++) {
		const struct tuple t = key(b, i, SET_PRESENT);
		const struct record r = record();

		file_insert(b, &t, &r);
	}
	unlink(file_path); /* the mapping stays */
	b->file_bytes = (own_memory() - before) / b->n;
}

static void destroy(struct bench *b)
{
	bpf_object__close(b->object);
	records_close(b->file);
}

/* --- the operations --- */

static double egress(struct bench *b, enum set set, uint16_t flags, int repeat)
{
	uint32_t n = OPERATIONS / (uint32_t)repeat;
	uint64_t sum = 0;

	for (uint32_t i = 0; i < n; i++) {
		const struct tuple t = key(b, (uint32_t)(rnd() % b->n), set);

		sum += run(b, &t, flags, repeat);
	}
	return (double)sum / n;
}

/* New ones come in portions of a quarter of the table at most, and are taken out again. */
static double insert(struct bench *b, double (*portion)(struct bench *b, uint32_t n))
{
	uint32_t n = b->n / 4 < OPERATIONS ? b->n / 4 : OPERATIONS, done = 0;
	double sum = 0;

	for (; done < OPERATIONS; done += n)
		sum += portion(b, n);
	return sum / done;
}

static void take_out_bpf(struct bench *b, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		const struct tuple t = key(b, i, SET_NEW);

		bpf_map_delete_elem(b->map, &t);
	}
}

static double egress_portion(struct bench *b, uint32_t n)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < n; i++) {
		const struct tuple t = key(b, i, SET_NEW);

		sum += run(b, &t, WIRE_SYN, 1);
	}
	take_out_bpf(b, n);
	return (double)sum;
}

static double syscall_lookups(struct bench *b, enum set set)
{
	uint64_t start = now_ns();
	struct record r;

	for (uint32_t i = 0; i < OPERATIONS; i++) {
		const struct tuple t = key(b, (uint32_t)(rnd() % b->n), set);

		bpf_map_lookup_elem(b->map, &t, &r);
	}
	return (double)(now_ns() - start) / OPERATIONS;
}

static double syscall_portion(struct bench *b, uint32_t n)
{
	uint64_t start = now_ns(), took;
	const struct record r = record();

	for (uint32_t i = 0; i < n; i++) {
		const struct tuple t = key(b, i, SET_NEW);

		if (bpf_map_update_elem(b->map, &t, &r, BPF_NOEXIST) < 0)
			die("cannot insert: %s", strerror(errno));
	}
	took = now_ns() - start;
	take_out_bpf(b, n);
	return (double)took;
}

static double file_lookups(struct bench *b, enum set set, uint32_t repeat)
{
	uint64_t start = now_ns();
	static volatile uint32_t sink;
	struct tuple t = { 0 };

	for (uint32_t i = 0; i < OPERATIONS; i++) {
		struct records_ref ref;

		if (i % repeat == 0)
			t = key(b, (uint32_t)(rnd() % b->n), set);

		records_lock(b->file, &t, &ref);
		if (ref.record)
			sink = ref.record->shift;
		records_unlock(&ref);
	}
	(void)sink;
	return (double)(now_ns() - start) / OPERATIONS;
}

static double file_portion(struct bench *b, uint32_t n)
{
	uint64_t start = now_ns(), took;
	const struct record r = record();

	for (uint32_t i = 0; i < n; i++) {
		const struct tuple t = key(b, i, SET_NEW);

		file_insert(b, &t, &r);
	}
	took = now_ns() - start;
	for (uint32_t i = 0; i < n; i++) {
		const struct tuple t = key(b, i, SET_NEW);
		struct records_ref ref;

		records_lock(b->file, &t, &ref);
		if (ref.record)
			records_delete(&ref);
		records_unlock(&ref);
	}
	return (double)took;
}

static double measure(struct bench *b, enum operation op)
{
	switch (op) {
	case EGRESS_AGAIN:
		return egress(b, SET_PRESENT, WIRE_ACK, AGAIN);
	case EGRESS_HIT:
		return egress(b, SET_PRESENT, WIRE_ACK, 1);
	case EGRESS_MISS:
		return egress(b, SET_ABSENT, WIRE_ACK, 1);
	case EGRESS_INSERT:
		return insert(b, egress_portion);
	case EGRESS_REUSE:
		return egress(b, SET_PRESENT, WIRE_SYN, 1);
	case SYSCALL_HIT:
		return syscall_lookups(b, SET_PRESENT);
	case SYSCALL_MISS:
		return syscall_lookups(b, SET_ABSENT);
	case SYSCALL_INSERT:
		return insert(b, syscall_portion);
	case FILE_AGAIN:
		return file_lookups(b, SET_PRESENT, AGAIN);
	case FILE_HIT:
		return file_lookups(b, SET_PRESENT, 1);
	case FILE_MISS:
		return file_lookups(b, SET_ABSENT, 1);
	case FILE_INSERT:
		return insert(b, file_portion);
	case N_OPERATIONS:
		break;
	}
	return 0;
}

/* --- the table that is printed --- */

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(const double values[ROUNDS])
{
	double sorted[ROUNDS];

	memcpy(sorted, values, sizeof(sorted));
	qsort(sorted, ROUNDS, sizeof(*sorted), compare);
	return sorted[ROUNDS / 2];
}

static const char *in_words(uint32_t n)
{
	static char word[2][16];
	static int turn;

	turn = !turn;
	if (n >= 1000000)
		snprintf(word[turn], sizeof(word[turn]), "%u M", n / 1000000);
	else
		snprintf(word[turn], sizeof(word[turn]), "%u k", n / 1000);
	return word[turn];
}

static void print_row(const char *name, const double *values, int n)
{
	printf("  %-44s %12.2f", name, values[n - 1] / values[0]);
	for (int i = 0; i < n; i++)
		printf(" %7.0f", values[i]);
	putchar('\n');
}

static void print(const struct bench *b, int n)
{
	double row[SIZES];

	printf("%-46s   %s : %s",
	       b->spread ? "50 000 destinations, ns per operation"
			 : "One destination, ns per operation",
	       in_words(b[n - 1].n), in_words(b[0].n));
	for (int i = 0; i < n; i++)
		printf(" %7s", in_words(b[i].n));
	putchar('\n');
	for (int op = 0; op < N_OPERATIONS; op++) {
		for (int i = 0; i < n; i++)
			row[i] = median(b[i].ns[op]);
		print_row(operation_names[op], row, n);
	}
	for (int i = 0; i < n; i++)
		row[i] = b[i].bpf_bytes;
	print_row("bytes per record, BPF map", row, n);
	for (int i = 0; i < n; i++)
		row[i] = b[i].file_bytes;
	print_row("bytes per record, without BPF", row, n);
	putchar('\n');
}

static void bench(bool spread, const uint32_t *sizes, int n)
{
	static struct bench b[SIZES];

	memset(b, 0, sizeof(b));
	for (int i = 0; i < n; i++) {
		b[i].n = sizes[i];
		b[i].spread = spread;
		fprintf(stderr, "  filling tables of %s records\n", in_words(sizes[i]));
		make_bpf(&b[i]);
		make_file(&b[i]);
	}
	for (int round = 0; round < ROUNDS; round++)
		for (int op = 0; op < N_OPERATIONS; op++)
			for (int i = 0; i < n; i++)
				b[i].ns[op][round] = measure(&b[i], (enum operation)op);
	print(b, n);
	for (int i = 0; i < n; i++)
		destroy(&b[i]);
}

/* --- how large --- */

static double available(void)
{
	char line[128];
	long long kb = 0;
	FILE *f = fopen("/proc/meminfo", "re");

	while (f && fgets(line, sizeof(line), f))
		sscanf(line, "MemAvailable: %lld", &kb);
	if (f)
		fclose(f);
	return (double)kb * 1024;
}

static int quiet(enum libbpf_print_level level, const char *fmt, va_list ap)
{
	(void)level;
	(void)fmt;
	(void)ap;
	return 0;
}

int main(int argc, char **argv)
{
	const struct rlimit all = { RLIM_INFINITY, RLIM_INFINITY };
	uint32_t sizes[SIZES] = { 1000, 100000, 1000000, 10000000 }, max = 10000000;
	cpu_set_t cpu;
	int c, n = 0;

	while ((c = getopt(argc, argv, "m:b:")) != -1) {
		if (c == 'm')
			max = (uint32_t)strtoul(optarg, NULL, 10);
		else if (c == 'b')
			object_path = optarg;
		else
			return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	libbpf_set_print(quiet);
	setrlimit(RLIMIT_MEMLOCK, &all);
	CPU_ZERO(&cpu);
	CPU_SET((unsigned int)sched_getcpu(), &cpu);
	sched_setaffinity(0, sizeof(cpu), &cpu);
	if (!mkdtemp(directory))
		die("%s: %s", directory, strerror(errno));
	snprintf(file_path, sizeof(file_path), "%s/records", directory);
	while (n < SIZES && sizes[n] <= max) {
		/* both tables, and the smaller ones beside them */
		if (n && (double)sizes[n] * 600 > available() * 3 / 4) {
			fprintf(stderr, "  not enough memory for %s records\n", in_words(sizes[n]));
			break;
		}
		n++;
	}
	if (!n)
		die("-m must be at least 1000");
	bench(false, sizes, n);
	bench(true, sizes, n);
	rmdir(directory);
	return 0;
}

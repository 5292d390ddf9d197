# tsnatd - NAT for TCP timestamps
VERSION := 0.1

PREFIX ?= /usr
DESTDIR ?=
CC ?= gcc
CLANG ?= clang
BPFTOOL ?= $(firstword $(wildcard /usr/sbin/bpftool /usr/local/sbin/bpftool) bpftool)
PKG_CONFIG ?= pkg-config
B ?= build

WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith \
	-Wformat=2 -Wno-format-nonliteral
CFLAGS ?= -O2 -g
ALL_CFLAGS = -std=gnu17 $(WARN) -D_GNU_SOURCE -DVERSION='"$(VERSION)"' -I$(B) -Idaemon \
	$(CFLAGS) $(SAN)

DAEMON_PKGS := zlib libnfnetlink libbpf libmnl libnftnl libnetfilter_queue libnetfilter_conntrack \
	libsystemd libconfig json-c
CTL_PKGS := libconfig json-c

# The daemon is all folders but ctl/. tsnatctl is ctl/ and config/, with the text of the varlink
# interface and the log.
SOURCES := $(filter-out %.bpf,$(patsubst daemon/%.c,%,$(wildcard daemon/*.c daemon/*/*.c)))
CTL_OBJS := $(filter ctl/% config/%,$(SOURCES)) varlink/gateway_idl base/log
DAEMON_OBJS := $(filter-out ctl/%,$(SOURCES))

all: $(B)/tsnatd $(B)/tsnatctl

$(B)/tsnatd: $(DAEMON_OBJS:%=$(B)/%.o)
	$(CC) $(ALL_CFLAGS) $(LDFLAGS) -o $@ $^ -pthread $(shell $(PKG_CONFIG) --libs $(DAEMON_PKGS))

$(B)/tsnatctl: $(CTL_OBJS:%=$(B)/%.o)
	$(CC) $(ALL_CFLAGS) $(LDFLAGS) -o $@ $^ $(shell $(PKG_CONFIG) --libs $(CTL_PKGS))

$(B)/%.o: daemon/%.c Makefile
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) $(shell $(PKG_CONFIG) --cflags $(DAEMON_PKGS)) -MMD -MP -c -o $@ $<

# The objects that name the configuration file are made again when SYSCONFDIR changes.
$(B)/sysconfdir: force
	@mkdir -p $(@D)
	@echo '$(SYSCONFDIR)' | cmp -s - $@ || echo '$(SYSCONFDIR)' >$@
$(B)/config/config_args.o $(B)/ctl/ctl_config.o: $(B)/sysconfdir
$(B)/config/config_args.o $(B)/ctl/ctl_config.o: ALL_CFLAGS += -DSYSCONFDIR='"$(SYSCONFDIR)"'

# the BPF object, embedded by its skeleton
BPF_INCLUDE := $(addprefix -I,$(wildcard /usr/include/$(shell $(CC) -print-multiarch)))
$(B)/tsnat.bpf.o: daemon/datapath_bpf/tsnat.bpf.c Makefile
	@mkdir -p $(@D)
	$(CLANG) -O2 -g -target bpf -mcpu=v3 -Wall -Wextra -Idaemon $(BPF_INCLUDE) \
		-MMD -MP -MF $(B)/tsnat.bpf.d -c -o $@ $<

$(B)/tsnat.skel.h: $(B)/tsnat.bpf.o
	$(BPFTOOL) gen skeleton $< name tsnat_bpf >$@.new && mv $@.new $@

$(patsubst %,$(B)/%.o,$(filter datapath_bpf/%,$(SOURCES))): | $(B)/tsnat.skel.h

# ---- tests ----

# tests/unit mirrors daemon/: the test of daemon/D/F.c is tests/unit/D/F-test.c. The core is an
# archive of its own, and its tests link nothing else, so that a stray dependency shows.
UNIT_TESTS := $(patsubst tests/unit/%.c,%,$(wildcard tests/unit/*-test.c tests/unit/*/*-test.c))
CORE_TESTS := $(filter core/%,$(UNIT_TESTS))

$(B)/core.a: $(patsubst %,$(B)/%.o,$(filter core/%,$(SOURCES)))
	rm -f $@ && $(AR) rcs $@ $^
$(B)/all.a: $(patsubst %,$(B)/%.o,$(filter-out main,$(DAEMON_OBJS)))
	rm -f $@ && $(AR) rcs $@ $^

$(B)/tests/%.o: tests/unit/%.c Makefile | $(B)/tsnat.skel.h
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) $(shell $(PKG_CONFIG) --cflags cmocka $(DAEMON_PKGS)) -MMD -MP -c -o $@ $<
$(CORE_TESTS:%=$(B)/tests/%): $(B)/tests/%: $(B)/tests/%.o $(B)/tests/core/vectors.o $(B)/core.a
	$(CC) $(ALL_CFLAGS) $(LDFLAGS) -o $@ $^ $(shell $(PKG_CONFIG) --libs cmocka)
$(B)/tests/%: $(B)/tests/%.o $(B)/tests/core/vectors.o $(B)/all.a
	$(CC) $(ALL_CFLAGS) $(LDFLAGS) -o $@ $^ -pthread \
		$(shell $(PKG_CONFIG) --libs cmocka $(DAEMON_PKGS))
# a program that a test runs
$(B)/tests/ctl/tsnatctl-test: | $(B)/tsnatctl

unit-tests: $(UNIT_TESTS:%=$(B)/tests/%)

FUZZERS := $(basename $(notdir $(wildcard tests/fuzz/*.c)))
FUZZ_SECONDS ?= 60
FUZZ_SOURCES := core/packet core/rewrite queue/queue_netlink net/mapping
$(B)/fuzz/%: tests/fuzz/%.c $(wildcard daemon/core/*.h) $(FUZZ_SOURCES:%=daemon/%.c) Makefile
	@mkdir -p $(@D)
	$(CLANG) -std=gnu17 $(WARN) -D_GNU_SOURCE -Idaemon -O1 -g \
		-fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined -o $@ $< $(FUZZ_SOURCES:%=daemon/%.c) \
		$(shell $(PKG_CONFIG) --libs libmnl libnetfilter_queue libnetfilter_conntrack)
fuzz: $(FUZZERS:%=$(B)/fuzz/%)
	tests/fuzz/fuzz.sh $(FUZZ_SECONDS) $^

deps:
	tests/deps.sh

SAN_FLAGS := -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
SAN_MAKE = $(MAKE) B=build/san CC=$(CLANG) SAN="$(SAN_FLAGS)"

# Each end-to-end test is a program, whose first lines say what it shows. The emulated machine is slow.
NETNS_TESTS := $(filter-out tests/netns/lib%,$(sort $(wildcard tests/netns/*.sh)))
VM_TIME := -t 1300

# All tests, or those of these names: make check TEST="decide-test connection.sh"
TEST ?=
CHECKED_UNITS = $(foreach t,$(UNIT_TESTS),$(if $(call named,$(notdir $t)),$t))
named = $(if $(TEST),$(filter $1,$(TEST)),$1)

check: deps
	$(MAKE) all $(CHECKED_UNITS:%=build/tests/%)
	$(SAN_MAKE) $(CHECKED_UNITS:%=build/san/tests/%) $(if $(call named,sanitizer.sh),all)
	$(if $(call named,fuzz.sh),$(MAKE) $(FUZZERS:%=build/fuzz/%))
	TEST="$(TEST)" tests/run.sh $(UNIT_TESTS:%=build/tests/%) $(UNIT_TESTS:%=build/san/tests/%) \
		tests/format.sh tests/includes.py tests/netns/check-capture-test.py \
		"tests/fuzz/fuzz.sh 10 $(FUZZERS:%=build/fuzz/%)" \
		-2 $(NETNS_TESTS) tests/service/files.sh tests/service/deb.sh \
		$(VM_TIME) "tests/vm/debian-6.1.sh -s" tests/service/systemd.sh

# Debian's 6.1 kernel under emulation: the native queue expression, mappings attached to packets,
# flowtables, VLAN
check-vm: deps
	$(MAKE) all
	tests/run.sh $(VM_TIME) tests/vm/debian-6.1.sh

# Ratios, from all benchmarks or from those named in BENCH (tests/bench)
BENCH ?=
bench: all
	tests/bench/run.sh $(BENCH)

demo: deps
	$(MAKE) all
	tests/demo.sh

clean:
	rm -rf build

include systemd/install.mk

.PHONY: all unit-tests fuzz deps check check-vm bench demo clean
.SECONDARY:
-include $(wildcard $(B)/*.d $(B)/*/*.d $(B)/tests/*/*.d)

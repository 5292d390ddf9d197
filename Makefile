# tsnatd - NAT for TCP timestamps
VERSION := 0.1

PREFIX ?= /usr
DESTDIR ?=
CC ?= gcc
CLANG ?= clang
BPFTOOL ?= $(firstword $(wildcard /usr/sbin/bpftool /usr/local/sbin/bpftool) bpftool)
PKG_CONFIG ?= pkg-config
B ?= build

WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wformat=2 -Wno-format-nonliteral
CFLAGS ?= -O2 -g
ALL_CFLAGS = -std=gnu17 $(WARN) -D_GNU_SOURCE -DVERSION='"$(VERSION)"' -I$(B) -Idaemon $(CFLAGS) $(SAN)

DAEMON_PKGS := zlib libnfnetlink libbpf libmnl libnftnl libnetfilter_queue libnetfilter_conntrack libsystemd libconfig json-c
CTL_PKGS := libsystemd json-c

# tsnatctl is tsnatctl.c, ctl_*.c and the interface's text; the daemon is everything else
SOURCES := $(basename $(notdir $(wildcard daemon/*.c)))
CTL_OBJS := $(filter tsnatctl ctl_%,$(SOURCES)) gateway_idl
DAEMON_OBJS := $(filter-out tsnatctl ctl_%,$(SOURCES))

all: $(B)/tsnatd $(B)/tsnatctl

$(B)/tsnatd: $(DAEMON_OBJS:%=$(B)/%.o)
	$(CC) $(ALL_CFLAGS) $(LDFLAGS) -o $@ $^ -pthread $(shell $(PKG_CONFIG) --libs $(DAEMON_PKGS))

$(B)/tsnatctl: $(CTL_OBJS:%=$(B)/%.o)
	$(CC) $(ALL_CFLAGS) $(LDFLAGS) -o $@ $^ $(shell $(PKG_CONFIG) --libs $(CTL_PKGS))

$(B)/%.o: daemon/%.c Makefile | $(B)
	$(CC) $(ALL_CFLAGS) $(shell $(PKG_CONFIG) --cflags $(DAEMON_PKGS)) -MMD -MP -c -o $@ $<

# the BPF object, embedded by its skeleton
BPF_INCLUDE := $(addprefix -I,$(wildcard /usr/include/$(shell $(CC) -print-multiarch)))
$(B)/tsnat.bpf.o: daemon/bpf/tsnat.bpf.c Makefile | $(B)
	$(CLANG) -O2 -g -target bpf -mcpu=v3 -Wall -Wextra $(BPF_INCLUDE) -MMD -MP -MF $(B)/tsnat.bpf.d -c -o $@ $<

$(B)/tsnat.skel.h: $(B)/tsnat.bpf.o
	$(BPFTOOL) gen skeleton $< name tsnat_bpf >$@.new && mv $@.new $@

$(B)/datapath_bpf.o: $(B)/tsnat.skel.h

$(B):
	mkdir -p $(B)

clean:
	rm -rf $(B)

.PHONY: all clean
-include $(wildcard $(B)/*.d)

# install, uninstall and deb; included by the Makefile.
#
# PREFIX, SYSCONFDIR and the directories below can be set. DESTDIR is put before all of them. With
# DESTDIR, files are copied and nothing else happens. Without it, install also makes the user and
# reloads systemd, for which it needs root.

SYSCONFDIR ?= /etc
SBINDIR ?= $(PREFIX)/sbin
BINDIR ?= $(PREFIX)/bin
MANDIR ?= $(PREFIX)/share/man
DOCDIR ?= $(PREFIX)/share/doc/tsnatd
COMPLETIONDIR ?= $(PREFIX)/share/bash-completion/completions
UNITDIR ?= $(PREFIX)/lib/systemd/system
SYSUSERSDIR ?= $(PREFIX)/lib/sysusers.d

# mode:from:to
INSTALL_FILES = \
	755:$(B)/tsnatd:$(SBINDIR)/tsnatd \
	755:$(B)/tsnatctl:$(BINDIR)/tsnatctl \
	644:$(B)/man/tsnatd.8:$(MANDIR)/man8/tsnatd.8 \
	644:$(B)/man/tsnatd.conf.5:$(MANDIR)/man5/tsnatd.conf.5 \
	644:$(B)/man/tsnatctl.1:$(MANDIR)/man1/tsnatctl.1 \
	644:$(B)/systemd/tsnatd.service:$(UNITDIR)/tsnatd.service \
	644:$(B)/systemd/tsnatd@.service:$(UNITDIR)/tsnatd@.service \
	644:systemd/tsnatd.sysusers:$(SYSUSERSDIR)/tsnatd.conf \
	644:contrib/bash-completion/tsnatd:$(COMPLETIONDIR)/tsnatd \
	644:contrib/bash-completion/tsnatctl:$(COMPLETIONDIR)/tsnatctl \
	$(foreach f,$(filter-out conf/tsnatd.conf,$(wildcard conf/*)),644:$f:$(DOCDIR)/$(notdir $f))

# Directories that no other package uses. With DESTDIR, uninstall removes every empty directory.
INSTALL_OWN_DIRS = $(DOCDIR) $(SYSCONFDIR)/tsnatd

# The units name the configuration file if it is not the default of tsnatd.
UNIT_CONFIG = $(if $(filter-out /etc,$(SYSCONFDIR)), -c $(SYSCONFDIR)/tsnatd.conf)

# Always made anew, because PREFIX may have changed.
$(B)/systemd/%.service: systemd/%.service.in systemd/common.in force
	@mkdir -p $(@D)
	@sed -e '/^@common@$$/{' -e 'r systemd/common.in' -e 'd' -e '}' $< | \
		sed -e 's|@sbindir@|$(SBINDIR)|g' -e 's|@sysconfdir@|$(SYSCONFDIR)|g' \
		-e 's|@config@|$(UNIT_CONFIG)|g' >$@

$(B)/man/%: daemon/% $(B)/sysconfdir
	@mkdir -p $(@D)
	@sed 's|/etc/tsnatd|$(SYSCONFDIR)/tsnatd|g' $< >$@

man: $(B)/man/tsnatd.8 $(B)/man/tsnatd.conf.5 $(B)/man/tsnatctl.1

units: $(B)/systemd/tsnatd.service $(B)/systemd/tsnatd@.service

install: all units man
	@set -e; for f in $(INSTALL_FILES); do \
		mode=$${f%%:*} f=$${f#*:}; \
		install -D -m $$mode "$${f%%:*}" "$(DESTDIR)$${f#*:}"; \
	done
	@install -d "$(DESTDIR)$(SYSCONFDIR)/tsnatd"
	@[ -e "$(DESTDIR)$(SYSCONFDIR)/tsnatd.conf" ] || \
		install -m 644 conf/tsnatd.conf "$(DESTDIR)$(SYSCONFDIR)/tsnatd.conf"
ifeq ($(DESTDIR),)
	@systemd-sysusers $(SYSUSERSDIR)/tsnatd.conf || \
		echo "systemd-sysusers could not make the user tsnatd" >&2
	@[ ! -d /run/systemd/system ] || systemctl daemon-reload
endif

# Remove everything that install and the daemon made, except for an edited configuration.
uninstall:
ifeq ($(DESTDIR),)
	@systemd/forget.sh $(SBINDIR)/tsnatd $(SYSCONFDIR)
endif
	@for f in $(INSTALL_FILES); do rm -f "$(DESTDIR)$${f##*:}"; done
	@conf="$(DESTDIR)$(SYSCONFDIR)/tsnatd.conf"; \
	if cmp -s conf/tsnatd.conf "$$conf"; then rm "$$conf"; \
	elif [ -e "$$conf" ]; then echo "$$conf was edited: it stays"; fi
ifeq ($(DESTDIR),)
	@for d in $(INSTALL_OWN_DIRS); do rmdir "$$d" 2>/dev/null || true; done
	@[ ! -d /run/systemd/system ] || systemctl daemon-reload
else
	@cd "$(DESTDIR)" 2>/dev/null || exit 0; \
	for d in $(INSTALL_OWN_DIRS) $(SYSCONFDIR) \
		$(foreach f,$(INSTALL_FILES),$(dir $(lastword $(subst :, ,$f)))); do \
		d=$${d#/}; [ ! -d "$$d" ] || rmdir -p --ignore-fail-on-non-empty "$${d%/}"; \
	done
endif

# Debian packages, built by contrib/debian/rules: $(B)/deb/*.deb
deb:
	contrib/debian/build.sh $(VERSION) $(B)/deb

.PHONY: units man install uninstall deb force

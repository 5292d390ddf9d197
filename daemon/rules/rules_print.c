// SPDX-License-Identifier: GPL-2.0-or-later
#include <netinet/in.h> /* before linux/netfilter.h, which then leaves it alone */

#include <linux/netfilter.h>
#include <stdio.h>

#include "rules_table.h"
#include "base/util.h"

static void print_table(FILE *f, const char *family, const struct rules_config *cfg)
{
	fprintf(f, "table %s " RULES_TABLE " {\n\tset " RULES_SET " {\n\t\ttype ifname\n\t}\n",
		family);
	for (size_t i = 0; i < RULES_CHAINS; i++)
		if (RULES_WANTED(&rules_chains[i], cfg))
			fprintf(f,
				"\n\tchain %s {\n\t\ttype filter hook %s priority %d; policy "
				"accept;\n\t}\n",
				rules_chains[i].name,
				rules_chains[i].hook == NF_INET_PRE_ROUTING ? "prerouting"
									    : "postrouting",
				rules_chains[i].priority);
	fputs("}\n\n", f);
}

static void print_flush(FILE *f, const char *family, const struct rules_config *cfg)
{
	for (size_t i = 0; i < RULES_CHAINS; i++)
		if (RULES_WANTED(&rules_chains[i], cfg))
			fprintf(f, "flush chain %s " RULES_TABLE " %s\n", family,
				rules_chains[i].name);
	fprintf(f, "flush set %s " RULES_TABLE " " RULES_SET "\n\n", family);
}

static void print_names(FILE *f, const char *family, const char *const *names, size_t n)
{
	if (n == 0)
		return;
	fprintf(f, "add element %s " RULES_TABLE " " RULES_SET " {", family);
	for (size_t i = 0; i < n; i++)
		fprintf(f, "%s \"%s\"", i > 0 ? "," : "", names[i]);
	fputs(" }\n", f);
}

static void print_rules(FILE *f, const char *family, const struct rules_config *cfg)
{
	for (size_t i = 0; i < RULES_ENTRIES; i++) {
		const struct rules_entry *r = &rules_entries[i];

		if (!RULES_WANTED(r, cfg))
			continue;
		fprintf(f, "add rule %s " RULES_TABLE " %s ", family, r->chain->name);
		rules_print_rule(f, r->rule, cfg);
	}
}

void rules_print(FILE *f, const struct rules_config *cfg, const char *const *ifaces, size_t n)
{
	for (size_t i = 0; i < RULES_FAMILIES; i++)
		print_table(f, rules_family_names[i], cfg);
	for (size_t i = 0; i < RULES_FAMILIES; i++)
		print_flush(f, rules_family_names[i], cfg);
	for (size_t i = 0; i < RULES_FAMILIES; i++) {
		print_names(f, rules_family_names[i], ifaces, n);
		print_rules(f, rules_family_names[i], cfg);
	}
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * rules_look.h - compares our nft tables in the kernel with those that rules_install() makes.
 */
#pragma once

#include "nft.h"
#include "rules.h"

/*
 * Returns 1 when our nft tables (not dormant), sets, chains and rules are all there, 0 when
 * something is missing or different, or -errno when the kernel did not answer.
 */
int rules_look(struct nft *nft, const struct rules_config *cfg);

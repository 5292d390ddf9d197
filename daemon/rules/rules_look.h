/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * rules_look.h - are our tables there, and as we make them?
 */
#pragma once

#include "nft.h"
#include "rules.h"

/*
 * 1 when our tables (not dormant), sets, chains and rules are all there, 0 when something is
 * missing, -errno when the kernel did not say.
 */
int rules_look(struct nft *nft, const struct rules_config *cfg);

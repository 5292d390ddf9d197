/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * gateway_idl.h - the definition of the interface io.tsnatd.Gateway, for machines and people who
 * ask.
 */
#pragma once

extern const char gateway_idl[];

/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * nft.h - requests to nf_tables by netlink. The kernel carries out a batch of changes as one
 * transaction: all or nothing.
 */
#pragma once

#include <libmnl/libmnl.h>
#include <libnftnl/batch.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#define NFT_ANSWER_BYTES 32768 /* the longest part of a dump */
#define NFT_TRIES 3

struct nft {
	struct mnl_socket *nl; /* owned */
	uint32_t seq;	       /* the last sequence number used */
	char answer[NFT_ANSWER_BYTES] __attribute__((aligned(8)));
};

/* Returns 0 or -errno: -EPROTONOSUPPORT when the kernel has no netlink for netfilter. */
int nft_open(struct nft *nft);
/* Also after nft_open() failed, and on zeroes. */
void nft_close(struct nft *nft);

/* Discard unread answers to earlier requests, then send IOV. Returns 0 or -errno. */
int nft_send(struct nft *nft, struct iovec *iov, size_t n);
/*
 * Receive into nft->answer. FLAGS are recv()'s. Returns the number of bytes, or -errno: -ETIMEDOUT
 * when no answer came in 2 s.
 */
ssize_t nft_receive(struct nft *nft, int flags);

struct nft_batch {
	struct nftnl_batch *pages; /* owned */
	uint32_t begin_seq;	   /* of BATCH_BEGIN; message N has begin_seq + N, from 1 */
	uint32_t messages;	   /* each asks for an acknowledgement */
	uint32_t answered;	   /* messages that got it */
	int error;		   /* the first one, while building or from the kernel */
	uint16_t error_type;	   /* the message that failed: NFT_MSG_*, NFNL_MSG_BATCH_* */
};

/* Returns 0 or -ENOMEM. */
int nft_batch_begin(struct nft_batch *b, const struct nft *nft);
void nft_batch_free(struct nft_batch *b);
#define _cleanup_batch_ __attribute__((cleanup(nft_batch_free)))

/*
 * Begin a message of TYPE (NFT_MSG_*) for FAMILY (NFPROTO_*). The caller adds attributes, then
 * calls nft_batch_next() before any other function of the batch.
 */
struct nlmsghdr *nft_batch_message(struct nft_batch *b, uint16_t type, uint16_t family,
				   uint16_t flags);
/* End the message that nft_batch_message() began. */
void nft_batch_next(struct nft_batch *b);
/* Give the batch up: nft_batch_commit() will return ERROR, a negative errno. */
void nft_batch_fail(struct nft_batch *b, int error);

/* Send the batch and read the answer to each message. Returns b->error: 0 or -errno. */
int nft_batch_commit(struct nft *nft, struct nft_batch *b);

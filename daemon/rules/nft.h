/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * nft.h - a conversation with nf_tables: batches of changes, each of which is one transaction of
 * the kernel's.
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
	uint32_t seq;	       /* the last one used */
	char answer[NFT_ANSWER_BYTES] __attribute__((aligned(8)));
};

/* Returns 0 or -errno: -EPROTONOSUPPORT when the kernel has no netlink for netfilter. */
int nft_open(struct nft *nft);
/* Also after nft_open() failed, and on zeroes. */
void nft_close(struct nft *nft);

/* Send, after what is left of an earlier conversation was thrown away. Returns 0 or -errno. */
int nft_send(struct nft *nft, struct iovec *iov, size_t n);
/*
 * Returns the bytes that are in nft->answer, or -errno; -ETIMEDOUT when nothing came. FLAGS are
 * recv()'s.
 */
ssize_t nft_receive(struct nft *nft, int flags);

struct nft_batch {
	struct nftnl_batch *pages; /* owned */
	uint32_t begin_seq;	   /* of BATCH_BEGIN; the messages' follow it */
	uint32_t messages;	   /* that ask for an acknowledgement */
	uint32_t answered;
	int error;	     /* the first one, while building or from the kernel */
	uint16_t error_type; /* the message it came for: NFT_MSG_*, NFNL_MSG_BATCH_* */
};

/* Returns 0 or -ENOMEM. */
int nft_batch_begin(struct nft_batch *b, const struct nft *nft);
void nft_batch_free(struct nft_batch *b);
#define _cleanup_batch_ __attribute__((cleanup(nft_batch_free)))

/*
 * Room for one message; nft_batch_next() must follow before anything else is done with the batch.
 */
struct nlmsghdr *nft_batch_message(struct nft_batch *b, uint16_t type, uint16_t family,
				   uint16_t flags);
/* The message that was built at the end of the batch is complete. */
void nft_batch_next(struct nft_batch *b);
/* It cannot be built: nft_batch_commit() returns ERROR. */
void nft_batch_fail(struct nft_batch *b, int error);

/* Send it and read the answer to each of its messages. Returns 0 or -errno, as b->error has it. */
int nft_batch_commit(struct nft *nft, struct nft_batch *b);

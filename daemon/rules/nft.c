// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <libnftnl/common.h>
#include <linux/netfilter/nfnetlink.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "nft.h"
#include "base/util.h"

#define PAGE_BYTES 16384
#define LONGEST_MESSAGE 4096 /* 64 names make 2 KiB, the longest rule 700 bytes */
#define ANSWER_SECONDS 2     /* normally the kernel has answered before send() returns */

ssize_t nft_receive(struct nft *nft, int flags)
{
	ssize_t len;

	do
		len = recv(mnl_socket_get_fd(nft->nl), nft->answer, sizeof(nft->answer), flags);
	while (len < 0 && errno == EINTR);

	if (len < 0)
		return errno == EAGAIN ? -ETIMEDOUT : -errno;
	return len;
}

/* Discard the answers to an earlier request that was given up. */
static void drain(struct nft *nft)
{
	ssize_t len;

	do
		len = nft_receive(nft, MSG_DONTWAIT);
	while (len > 0 || len == -ENOBUFS);
}

int nft_send(struct nft *nft, struct iovec *iov, size_t n)
{
	struct sockaddr_nl kernel = { .nl_family = AF_NETLINK };
	struct msghdr msg = {
		.msg_name = &kernel,
		.msg_namelen = sizeof(kernel),
		.msg_iov = iov,
		.msg_iovlen = n,
	};
	ssize_t len;

	drain(nft);
	do
		len = sendmsg(mnl_socket_get_fd(nft->nl), &msg, 0);
	while (len < 0 && errno == EINTR);

	return len < 0 ? -errno : 0;
}

void nft_batch_free(struct nft_batch *b)
{
	if (b->pages)
		nftnl_batch_free(b->pages);
}

static void fail_for(struct nft_batch *b, int error, uint16_t type)
{
	if (b->error)
		return;
	b->error = error;
	b->error_type = type;
}

void nft_batch_fail(struct nft_batch *b, int error)
{
	fail_for(b, error, 0);
}

void nft_batch_next(struct nft_batch *b)
{
	if (nftnl_batch_update(b->pages) < 0)
		nft_batch_fail(b, -ENOMEM);
}

int nft_batch_begin(struct nft_batch *b, const struct nft *nft)
{
	*b = (struct nft_batch){ .begin_seq = nft->seq + 1 };
	b->pages = nftnl_batch_alloc(PAGE_BYTES, LONGEST_MESSAGE);
	if (!b->pages)
		return -ENOMEM;

	nftnl_batch_begin(nftnl_batch_buffer(b->pages), b->begin_seq);
	nft_batch_next(b);
	return 0;
}

struct nlmsghdr *nft_batch_message(struct nft_batch *b, uint16_t type, uint16_t family,
				   uint16_t flags)
{
	return nftnl_nlmsg_build_hdr(nftnl_batch_buffer(b->pages), type, family, flags | NLM_F_ACK,
				     b->begin_seq + ++b->messages);
}

static void batch_answer(struct nft_batch *b, const struct nlmsghdr *nlh)
{
	const struct nlmsgerr *e = mnl_nlmsg_get_payload(nlh);

	if (nlh->nlmsg_type != NLMSG_ERROR || mnl_nlmsg_get_payload_len(nlh) < sizeof(*e) ||
	    nlh->nlmsg_seq - b->begin_seq > b->messages)
		return;

	if (e->error)
		fail_for(b, e->error, e->msg.nlmsg_type);
	/* An answer to BATCH_BEGIN refuses the whole batch: messages may get none of their own. */
	b->answered = nlh->nlmsg_seq == b->begin_seq ? b->messages : b->answered + 1;
}

static void batch_answers(struct nft_batch *b, const void *answer, int len)
{
	const struct nlmsghdr *nlh = answer;

	for (; nlmsg_fits(nlh, len); nlh = mnl_nlmsg_next(nlh, &len))
		batch_answer(b, nlh);
}

static void batch_receive(struct nft *nft, struct nft_batch *b)
{
	bool overrun = false;

	while (b->answered < b->messages) {
		ssize_t len = nft_receive(nft, overrun ? MSG_DONTWAIT : 0);

		if (len == -ENOBUFS) {
			overrun = true; /* answers were lost: do not wait for them */
			continue;
		}
		if (len < 0) {
			nft_batch_fail(b, overrun ? -ENOBUFS : (int)len);
			return;
		}
		batch_answers(b, nft->answer, (int)len);
	}
}

static void batch_exchange(struct nft *nft, struct nft_batch *b)
{
	size_t n = (size_t)nftnl_batch_iovec_len(b->pages);
	_cleanup_free_ struct iovec *iov = calloc(n, sizeof(*iov));
	int err;

	b->answered = 0;
	b->error = 0;
	if (!iov)
		return nft_batch_fail(b, -ENOMEM);
	nftnl_batch_iovec(b->pages, iov, (uint32_t)n);
	err = nft_send(nft, iov, n);
	if (err < 0)
		return nft_batch_fail(b, err);
	batch_receive(nft, b);
}

int nft_batch_commit(struct nft *nft, struct nft_batch *b)
{
	if (b->error)
		return b->error;

	nft->seq = b->begin_seq + b->messages + 1;
	nftnl_batch_end(nftnl_batch_buffer(b->pages), nft->seq);
	nft_batch_next(b);
	if (b->error)
		return b->error;

	/* EINTR: a signal came while the kernel loaded a module. Nothing was changed. */
	for (int i = 0; i < NFT_TRIES && (i == 0 || b->error == -EINTR); i++)
		batch_exchange(nft, b);
	return b->error;
}

static int open_socket(struct mnl_socket *nl)
{
	struct timeval timeout = { .tv_sec = ANSWER_SECONDS };
	int fd = mnl_socket_get_fd(nl);

	if (mnl_socket_bind(nl, 0, MNL_SOCKET_AUTOPID) < 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout)) < 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout)) < 0)
		return -errno;
	return 0;
}

int nft_open(struct nft *nft)
{
	nft->nl = mnl_socket_open2(NETLINK_NETFILTER, SOCK_CLOEXEC);
	return nft->nl ? open_socket(nft->nl) : -errno;
}

void nft_close(struct nft *nft)
{
	if (nft->nl)
		mnl_socket_close(nft->nl);
	nft->nl = NULL;
}

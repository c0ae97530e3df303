//go:build rdmacore

#include "shim.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define BATCH 32

static int positive(int err) { return err < 0 ? -err : err; }

static int last(int rc) {
	if (!rc)
		return 0;
	return errno ? errno : EIO;
}

// In the order of verbs.Opcode.
static const enum ibv_wr_opcode send_op[] = {
	IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_SEND_WITH_INV, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM,
	IBV_WR_RDMA_READ, IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_LOCAL_INV, IBV_WR_BIND_MW,
};

static void build_send(struct ibv_send_wr *w, const rc_send *s) {
	memset(w, 0, sizeof *w);
	w->wr_id = s->id;
	w->opcode = send_op[s->op];
	w->send_flags = s->flags;
	switch (w->opcode) {
	case IBV_WR_SEND_WITH_IMM:
		w->imm_data = htonl(s->imm);
		break;
	case IBV_WR_SEND_WITH_INV:
		w->invalidate_rkey = s->imm;
		w->wr.rdma.rkey = s->imm; // where siw's library looks for it
		break;
	case IBV_WR_LOCAL_INV:
		w->invalidate_rkey = s->imm;
		break;
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		w->imm_data = htonl(s->imm);
		// fall through
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_READ:
		w->wr.rdma.remote_addr = s->raddr;
		w->wr.rdma.rkey = s->rkey;
		break;
	case IBV_WR_BIND_MW:
		w->bind_mw.mw = (struct ibv_mw *)(uintptr_t)s->mw;
		w->bind_mw.rkey = s->bkey;
		w->bind_mw.bind_info.mr = (struct ibv_mr *)(uintptr_t)s->mr;
		w->bind_mw.bind_info.addr = s->baddr;
		w->bind_mw.bind_info.length = s->blen;
		w->bind_mw.bind_info.mw_access_flags = s->baccess;
		break;
	default:
		break;
	}
}

int rc_post_send(struct ibv_qp *qp, const rc_send *wr, int n, const struct ibv_sge *sge, const uint8_t *data, int *taken) {
	struct ibv_send_wr w[BATCH], *bad;
	struct ibv_sge in[BATCH];

	*taken = 0;
	while (n > 0) {
		int k = n < BATCH ? n : BATCH, err;

		for (int i = 0; i < k; i++) {
			build_send(&w[i], &wr[i]);
			w[i].num_sge = wr[i].nsge;
			if (wr[i].nsge == 0) {
				w[i].sg_list = NULL;
			} else if (wr[i].flags & IBV_SEND_INLINE) {
				in[i] = sge[0];
				in[i].addr += (uintptr_t)data;
				w[i].sg_list = &in[i];
			} else {
				w[i].sg_list = (struct ibv_sge *)sge;
			}
			sge += wr[i].nsge;
			w[i].next = i + 1 < k ? &w[i + 1] : NULL;
		}
		bad = NULL;
		err = positive(ibv_post_send(qp, w, &bad));
		if (err) {
			if (bad >= w && bad < w + k)
				*taken += bad - w;
			return err;
		}
		*taken += k;
		wr += k;
		n -= k;
	}
	return 0;
}

typedef int (*post_recv_fn)(void *q, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

static int post_recv(void *q, post_recv_fn post, const rc_recv *wr, int n, const struct ibv_sge *sge, int *taken) {
	struct ibv_recv_wr w[BATCH], *bad;

	*taken = 0;
	while (n > 0) {
		int k = n < BATCH ? n : BATCH, err;

		for (int i = 0; i < k; i++) {
			w[i].wr_id = wr[i].id;
			w[i].num_sge = wr[i].nsge;
			w[i].sg_list = wr[i].nsge ? (struct ibv_sge *)sge : NULL;
			w[i].next = i + 1 < k ? &w[i + 1] : NULL;
			sge += wr[i].nsge;
		}
		bad = NULL;
		err = positive(post(q, w, &bad));
		if (err) {
			if (bad >= w && bad < w + k)
				*taken += bad - w;
			return err;
		}
		*taken += k;
		wr += k;
		n -= k;
	}
	return 0;
}

static int post_recv_qp(void *q, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad) { return ibv_post_recv(q, wr, bad); }
static int post_recv_srq(void *q, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad) { return ibv_post_srq_recv(q, wr, bad); }

int rc_post_recv(struct ibv_qp *qp, const rc_recv *wr, int n, const struct ibv_sge *sge, int *taken) {
	return post_recv(qp, post_recv_qp, wr, n, sge, taken);
}

int rc_post_srq(struct ibv_srq *srq, const rc_recv *wr, int n, const struct ibv_sge *sge, int *taken) {
	return post_recv(srq, post_recv_srq, wr, n, sge, taken);
}

static uint8_t wc_op(enum ibv_wc_opcode op) {
	switch (op) {
	case IBV_WC_SEND: return 0;
	case IBV_WC_RDMA_WRITE: return 3;
	case IBV_WC_RDMA_READ: return 5;
	case IBV_WC_COMP_SWAP: return 6;
	case IBV_WC_FETCH_ADD: return 7;
	case IBV_WC_LOCAL_INV: return 8;
	case IBV_WC_BIND_MW: return 9;
	case IBV_WC_RECV: return 11;
	case IBV_WC_RECV_RDMA_WITH_IMM: return 12;
	default: return 255;
	}
}

int rc_poll(struct ibv_cq *cq, rc_wc *wc, int n, unsigned int inv) {
	struct ibv_wc w[BATCH];
	int got = 0;

	while (got < n) {
		int k = n - got < BATCH ? n - got : BATCH;
		int m = ibv_poll_cq(cq, k, w);

		if (m < 0)
			return got ? got : -EIO;
		for (int i = 0; i < m; i++) {
			rc_wc *o = &wc[got + i];

			memset(o, 0, sizeof *o);
			o->id = w[i].wr_id;
			o->qpn = w[i].qp_num;
			o->status = w[i].status <= IBV_WC_GENERAL_ERR ? w[i].status : IBV_WC_GENERAL_ERR;
			if (o->status != IBV_WC_SUCCESS)
				continue;
			o->op = wc_op(w[i].opcode);
			o->len = w[i].byte_len;
			if (w[i].wc_flags & IBV_WC_WITH_IMM) {
				o->flags = RC_WC_WITH_IMM;
				o->imm = ntohl(w[i].imm_data);
			} else if (w[i].wc_flags & inv) {
				o->flags = RC_WC_WITH_INV;
				o->inv = w[i].invalidated_rkey;
			}
		}
		got += m;
		if (m < k)
			break;
	}
	return got;
}

int rc_arm(struct ibv_cq *cq, int solicited) { return positive(ibv_req_notify_cq(cq, solicited)); }

int rc_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, uint64_t id, unsigned int flags, struct ibv_mr *mr, uint64_t addr, uint64_t len, unsigned int access) {
	struct ibv_mw_bind b;

	memset(&b, 0, sizeof b);
	b.wr_id = id;
	b.send_flags = flags;
	b.bind_info.mr = mr;
	b.bind_info.addr = addr;
	b.bind_info.length = len;
	b.bind_info.mw_access_flags = access;
	return positive(ibv_bind_mw(qp, mw, &b));
}

int rc_port(struct ibv_context *ctx, uint32_t *link_layer, uint32_t *state, uint32_t *mtu, uint32_t *max_msg, uint16_t *lid) {
	struct ibv_port_attr p;
	int err = positive(ibv_query_port(ctx, 1, &p));

	if (err)
		return err;
	*link_layer = p.link_layer;
	*state = p.state;
	*mtu = p.active_mtu;
	*max_msg = p.max_msg_sz;
	*lid = p.lid;
	return 0;
}

int rc_gid(struct ibv_context *ctx, const uint8_t *want, int *index) {
	struct ibv_port_attr p;
	int found = -1, err = positive(ibv_query_port(ctx, 1, &p));

	if (err)
		return err;
	for (int i = 0; i < p.gid_tbl_len; i++) {
		struct ibv_gid_entry e;

		if (ibv_query_gid_ex(ctx, 1, i, &e, 0) || memcmp(e.gid.raw, want, 16))
			continue;
		if (found < 0 || e.gid_type == IBV_GID_TYPE_ROCE_V2)
			found = i;
	}
	*index = found;
	return found < 0 ? ENOENT : 0;
}

int rc_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *a, struct ibv_cq *scq, struct ibv_cq *rcq, struct ibv_srq *srq, struct ibv_qp **qp) {
	a->send_cq = scq;
	a->recv_cq = rcq;
	a->srq = srq;
	a->qp_type = IBV_QPT_RC;
	errno = 0;
	*qp = ibv_create_qp(pd, a);
	return last(*qp == NULL);
}

int rc_get_cq_event(struct ibv_comp_channel *ch) {
	struct ibv_cq *cq;
	void *ctx;

	errno = 0;
	return last(ibv_get_cq_event(ch, &cq, &ctx));
}

int rc_get_async_event(struct ibv_context *ctx, int *type, uint64_t *element) {
	struct ibv_async_event e;

	errno = 0;
	if (ibv_get_async_event(ctx, &e))
		return last(1);
	*type = e.event_type;
	*element = 0;
	switch (e.event_type) {
	case IBV_EVENT_CQ_ERR:
		*element = (uintptr_t)e.element.cq;
		break;
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_PATH_MIG:
	case IBV_EVENT_PATH_MIG_ERR:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		*element = (uintptr_t)e.element.qp;
		break;
	case IBV_EVENT_SRQ_ERR:
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		*element = (uintptr_t)e.element.srq;
		break;
	default:
		break;
	}
	// At once: the object may be destroyed as soon as it is known to nobody.
	ibv_ack_async_event(&e);
	return 0;
}

int rc_get_event(struct rdma_event_channel *ch, rc_event *o) {
	struct rdma_cm_event *e;
	struct rdma_conn_param *p;

	errno = 0;
	if (rdma_get_cm_event(ch, &e))
		return last(1);
	memset(o, 0, offsetof(rc_event, private_data));
	o->type = e->event;
	o->status = e->status;
	o->id = e->id;
	o->ctx = (uintptr_t)e->id->context;
	if (e->event == RDMA_CM_EVENT_CONNECT_REQUEST && e->listen_id)
		o->listen_ctx = (uintptr_t)e->listen_id->context;
	p = &e->param.conn;
	switch (e->event) {
	case RDMA_CM_EVENT_CONNECT_REQUEST:
	case RDMA_CM_EVENT_CONNECT_RESPONSE:
	case RDMA_CM_EVENT_ESTABLISHED:
	case RDMA_CM_EVENT_REJECTED:
		o->qpn = p->qp_num;
		o->responder_resources = p->responder_resources;
		o->initiator_depth = p->initiator_depth;
		o->retry_count = p->retry_count;
		o->rnr_retry_count = p->rnr_retry_count;
		if (p->private_data) {
			o->private_len = p->private_data_len;
			memcpy(o->private_data, p->private_data, p->private_data_len);
		}
		break;
	default:
		break;
	}
	rdma_ack_cm_event(e);
	return 0;
}

void rc_set_ctx(struct rdma_cm_id *id, uint64_t ctx) { id->context = (void *)(uintptr_t)ctx; }

int rc_create_id(struct rdma_event_channel *ch, uint64_t ctx, struct rdma_cm_id **id) {
	errno = 0;
	return last(rdma_create_id(ch, id, (void *)(uintptr_t)ctx, RDMA_PS_TCP));
}

int rc_bind_addr(struct rdma_cm_id *id, const void *sa) {
	errno = 0;
	return last(rdma_bind_addr(id, (struct sockaddr *)sa));
}

int rc_resolve_addr(struct rdma_cm_id *id, const void *src, const void *dst, int timeout_ms) {
	errno = 0;
	return last(rdma_resolve_addr(id, (struct sockaddr *)src, (struct sockaddr *)dst, timeout_ms));
}

int rc_listen(struct rdma_cm_id *id, int backlog) {
	errno = 0;
	return last(rdma_listen(id, backlog));
}

int rc_resolve_route(struct rdma_cm_id *id, int timeout_ms) {
	errno = 0;
	return last(rdma_resolve_route(id, timeout_ms));
}

int rc_disconnect(struct rdma_cm_id *id) {
	errno = 0;
	return last(rdma_disconnect(id));
}

int rc_establish(struct rdma_cm_id *id) {
	errno = 0;
	return last(rdma_establish(id));
}

int rc_notify_established(struct rdma_cm_id *id) {
	errno = 0;
	return last(rdma_notify(id, IBV_EVENT_COMM_EST));
}

int rc_destroy_id(struct rdma_cm_id *id) {
	errno = 0;
	return last(rdma_destroy_id(id));
}

static void fill_param(struct rdma_conn_param *c, const rc_param *p) {
	memset(c, 0, sizeof *c);
	c->qp_num = p->qpn;
	c->srq = p->srq;
	c->responder_resources = p->responder_resources;
	c->initiator_depth = p->initiator_depth;
	c->retry_count = p->retry_count;
	c->rnr_retry_count = p->rnr_retry_count;
	c->private_data = p->private_data;
	c->private_data_len = p->private_len;
}

int rc_connect(struct rdma_cm_id *id, const rc_param *p) {
	struct rdma_conn_param c;

	fill_param(&c, p);
	errno = 0;
	return last(rdma_connect(id, &c));
}

int rc_accept(struct rdma_cm_id *id, const rc_param *p) {
	struct rdma_conn_param c;

	fill_param(&c, p);
	errno = 0;
	return last(rdma_accept(id, &c));
}

int rc_reject(struct rdma_cm_id *id, const uint8_t *data, int len) {
	errno = 0;
	return last(rdma_reject(id, data, len));
}

int rc_id_modify(struct rdma_cm_id *id, struct ibv_qp *qp, int state, int access, int rd_atomic, int retry) {
	struct ibv_qp_attr a;
	int mask;

	memset(&a, 0, sizeof a);
	a.qp_state = state;
	errno = 0;
	if (rdma_init_qp_attr(id, &a, &mask))
		return last(1);
	switch (state) {
	case IBV_QPS_INIT:
		a.qp_access_flags = access;
		break;
	case IBV_QPS_RTR:
		a.max_dest_rd_atomic = rd_atomic;
		break;
	case IBV_QPS_RTS:
		a.max_rd_atomic = rd_atomic;
		a.retry_cnt = retry;
		break;
	}
	return positive(ibv_modify_qp(qp, &a, mask));
}

void rc_id_addr(struct rdma_cm_id *id, int peer, uint8_t *sa) {
	struct sockaddr *a = peer ? rdma_get_peer_addr(id) : rdma_get_local_addr(id);

	memset(sa, 0, 128);
	if (a->sa_family == AF_INET)
		memcpy(sa, a, sizeof(struct sockaddr_in));
	else if (a->sa_family == AF_INET6)
		memcpy(sa, a, sizeof(struct sockaddr_in6));
}

// What the Go side calls: libibverbs' inline functions and unions, in flat
// structs without pointers to Go memory. Errors are errno values, never negative.

#ifndef NFSRDMA_RDMACORE_SHIM_H
#define NFSRDMA_RDMACORE_SHIM_H

#include <stdint.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

// A send work request, its SGEs in an array apart. With IBV_SEND_INLINE the
// address of its one SGE is an offset into the inline data.
typedef struct {
	uint64_t id, raddr;
	uint64_t mw, mr, baddr, blen; // BIND_MW
	uint32_t rkey;
	uint32_t imm; // immediate data, or the key to invalidate
	uint32_t op, flags;
	uint32_t nsge;
	uint32_t baccess, bkey; // BIND_MW
	uint32_t pad;
} rc_send;

typedef struct {
	uint64_t id;
	uint32_t nsge, pad;
} rc_recv;

// The layout of verbs.WC.
typedef struct {
	uint64_t id;
	uint8_t status, op, flags, pad;
	uint32_t len, imm, inv, qpn, pad2;
} rc_wc;

// rc_wc.flags, as in package verbs.
enum { RC_WC_WITH_IMM = 1, RC_WC_WITH_INV = 2 };

int rc_post_send(struct ibv_qp *qp, const rc_send *wr, int n, const struct ibv_sge *sge, const uint8_t *data, int *taken);
int rc_post_recv(struct ibv_qp *qp, const rc_recv *wr, int n, const struct ibv_sge *sge, int *taken);
int rc_post_srq(struct ibv_srq *srq, const rc_recv *wr, int n, const struct ibv_sge *sge, int *taken);
int rc_poll(struct ibv_cq *cq, rc_wc *wc, int n, unsigned int inv); // inv: flags of a completion with an invalidated key; how many, or -errno
int rc_arm(struct ibv_cq *cq, int solicited);
int rc_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, uint64_t id, unsigned int flags, struct ibv_mr *mr, uint64_t addr, uint64_t len, unsigned int access);

int rc_port(struct ibv_context *ctx, uint32_t *link_layer, uint32_t *state, uint32_t *mtu, uint32_t *max_msg, uint16_t *lid);
int rc_gid(struct ibv_context *ctx, const uint8_t *want, int *index); // of RoCE v2 if there is one
int rc_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *a, struct ibv_cq *scq, struct ibv_cq *rcq, struct ibv_srq *srq, struct ibv_qp **qp);
int rc_get_cq_event(struct ibv_comp_channel *ch);
int rc_get_async_event(struct ibv_context *ctx, int *type, uint64_t *element);

// A connection manager event, acknowledged.
typedef struct {
	int32_t type, status;
	struct rdma_cm_id *id;
	uint64_t ctx, listen_ctx;
	uint32_t qpn;
	uint8_t responder_resources, initiator_depth, retry_count, rnr_retry_count;
	uint32_t private_len;
	uint8_t private_data[256];
} rc_event;

typedef struct {
	uint32_t qpn;
	uint8_t responder_resources, initiator_depth, retry_count, rnr_retry_count, srq;
	uint8_t private_len;
	uint8_t private_data[256];
} rc_param;

int rc_get_event(struct rdma_event_channel *ch, rc_event *e);
void rc_set_ctx(struct rdma_cm_id *id, uint64_t ctx);
int rc_create_id(struct rdma_event_channel *ch, uint64_t ctx, struct rdma_cm_id **id);
int rc_bind_addr(struct rdma_cm_id *id, const void *sa);
int rc_listen(struct rdma_cm_id *id, int backlog);
int rc_resolve_route(struct rdma_cm_id *id, int timeout_ms);
int rc_disconnect(struct rdma_cm_id *id);
int rc_establish(struct rdma_cm_id *id);
int rc_notify_established(struct rdma_cm_id *id);
int rc_destroy_id(struct rdma_cm_id *id);
int rc_resolve_addr(struct rdma_cm_id *id, const void *src, const void *dst, int timeout_ms);
int rc_connect(struct rdma_cm_id *id, const rc_param *p);
int rc_accept(struct rdma_cm_id *id, const rc_param *p);
int rc_reject(struct rdma_cm_id *id, const uint8_t *data, int len);
// The attributes of the id's path for a transition; the others are the caller's.
int rc_id_modify(struct rdma_cm_id *id, struct ibv_qp *qp, int state, int access, int rd_atomic, int retry);
void rc_id_addr(struct rdma_cm_id *id, int peer, uint8_t *sa); // 128 bytes

#endif

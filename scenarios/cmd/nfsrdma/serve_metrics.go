package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"example.org/nfsrdma/internal/metrics"
	"example.org/nfsrdma/nfsserver"
	"example.org/nfsrdma/verbs"
)

// serveMetrics answers Prometheus at addr until stop is called.
func serveMetrics(e env, addr string, srv *nfsserver.Server, dev verbs.Device) (stop func() error, err error) {
	if addr == "" {
		return func() error { return nil }, nil
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("--metrics: %w", err)
	}
	start := time.Now()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		var b bytes.Buffer
		if err := metrics.WriteText(&b, serverMetrics(srv, dev, start)); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", metrics.ContentType)
		_, _ = w.Write(b.Bytes()) // who asked has gone
	})
	h := &http.Server{Handler: mux, ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10}
	done := make(chan error, 1)
	go func() { done <- h.Serve(l) }()
	host, port, _ := net.SplitHostPort(l.Addr().String())
	fmt.Fprintf(e.out, "metrics http://%s/metrics\n", net.JoinHostPort(reachable(host), port))
	return func() error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if h.Shutdown(ctx) != nil {
			_ = h.Close() // a scrape that does not end
		}
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("--metrics: %w", err)
		}
		return nil
	}, nil
}

// serverMetrics are a server's counters; dev may be nil.
func serverMetrics(srv *nfsserver.Server, dev verbs.Device, start time.Time) []metrics.Family {
	st := srv.Stats()
	single := func(name string, help string, v uint64) metrics.Family {
		return metrics.Single(name, metrics.Counter, help, float64(v))
	}
	all := []metrics.Family{
		metrics.Single("nfsrdma_start_time_seconds", metrics.Gauge, "When the server started, since the epoch.", float64(start.UnixMilli())/1e3),
		metrics.Single("nfsrdma_threads", metrics.Gauge, "nfsd threads.", float64(st.Threads)),
		metrics.Single("nfsrdma_calls_outstanding", metrics.Gauge, "Calls that have come and are not answered.", float64(srv.Outstanding())),
		{Name: "nfsrdma_calls_total", Help: "Calls executed, by procedure of NFSv3.", Type: metrics.Counter, Samples: procedures(&st)},
		single("nfsrdma_mount_calls_total", "Calls of the MOUNT program.", st.Mount),
		single("nfsrdma_read_bytes_total", "Payload of READs that succeeded.", st.ReadBytes),
		single("nfsrdma_write_bytes_total", "Payload of WRITEs that succeeded.", st.WriteBytes),
		{Name: "nfsrdma_zero_copy_calls_total", Help: "READs and WRITEs whose data moved from or to the file system's own memory.", Type: metrics.Counter,
			Samples: []metrics.Sample{metrics.Of("procedure", "READ", st.ZeroCopyReads), metrics.Of("procedure", "WRITE", st.ZeroCopyWrites)}},
		single("nfsrdma_nfs_errors_total", "Results with a status other than NFS3_OK.", st.NFSErrors),
		{Name: "nfsrdma_bad_calls_total", Help: "Calls that were refused, by reason.", Type: metrics.Counter, Samples: []metrics.Sample{
			metrics.Of("reason", "garbage_args", st.GarbageArgs), metrics.Of("reason", "bad_rpc", st.BadRPC),
			metrics.Of("reason", "rpc_mismatch", st.RPCMismatch), metrics.Of("reason", "auth_error", st.AuthError),
			metrics.Of("reason", "prog_unavail", st.ProgUnavail), metrics.Of("reason", "prog_mismatch", st.ProgMismatch),
			metrics.Of("reason", "proc_unavail", st.ProcUnavail), metrics.Of("reason", "bad_handle", st.BadHandle),
			metrics.Of("reason", "stale_handle", st.StaleHandle), metrics.Of("reason", "bad_read_chunk", st.BadReadChunk)}},
		{Name: "nfsrdma_drc_total", Help: "Calls that can be repeated only by the duplicate request cache, by what it did.", Type: metrics.Counter, Samples: []metrics.Sample{
			metrics.Of("result", "hit", st.DRCHits), metrics.Of("result", "miss", st.DRCMisses), metrics.Of("result", "in_progress", st.DRCInProgress),
			metrics.Of("result", "eviction", st.DRCEvictions), metrics.Of("result", "full", st.DRCFull)}},
	}
	all = append(all, connectionMetrics(srv, &st)...)
	if dev != nil {
		all = append(all, rdmaMetrics(&st)...)
		f := metrics.Family{Name: "nfsrdma_device_events", Help: "The RDMA device's own counters, under the names of its driver.", Type: metrics.Gauge}
		for _, c := range dev.Counters() {
			f.Samples = append(f.Samples, metrics.Of("counter", c.Name, c.Value))
		}
		all = append(all, f)
	}
	return append(all, tcpMetrics(&st)...)
}

// procedures are the calls by procedure.
func procedures(st *nfsserver.Stats) []metrics.Sample {
	var out []metrics.Sample
	for i, n := range st.Procs {
		out = append(out, metrics.Of("procedure", nfsserver.ProcName(i), n))
	}
	return out
}

func connectionMetrics(srv *nfsserver.Server, st *nfsserver.Stats) []metrics.Family {
	ready := map[string]uint64{}
	for _, c := range srv.Connections() {
		ready[c.Proto]++
	}
	r, t := &st.Transport, &st.TCP
	by := func(name string, typ metrics.Type, help string, rdma, tcp uint64) metrics.Family {
		return metrics.Family{Name: name, Type: typ, Help: help, Samples: []metrics.Sample{metrics.Of("transport", "rdma", rdma), metrics.Of("transport", "tcp", tcp)}}
	}
	return []metrics.Family{
		by("nfsrdma_connections", metrics.Gauge, "Connections that serve calls.", ready["rdma"], ready["tcp"]),
		by("nfsrdma_connections_accepted_total", metrics.Counter, "Connections accepted.", r.Accepted, t.Accepted),
		by("nfsrdma_connections_rejected_total", metrics.Counter, "Connections rejected.", r.Rejected, t.Rejected),
		by("nfsrdma_connections_ended_total", metrics.Counter, "Connections that have ended.", r.Ended, t.Ended),
		by("nfsrdma_received_messages_total", metrics.Counter, "Messages received: rdma_stat_recv, and records of TCP.", r.Recv, t.Recv),
		by("nfsrdma_sent_messages_total", metrics.Counter, "Replies sent.", r.Send, t.Send),
		by("nfsrdma_dropped_calls_total", metrics.Counter, "Calls that got no answer.", r.Dropped, t.Dropped),
		by("nfsrdma_memory_waits_total", metrics.Counter, "Requests that waited for payload memory.", r.MemoryWait, t.MemoryWait),
	}
}

func rdmaMetrics(st *nfsserver.Stats) []metrics.Family {
	r := &st.Transport
	return []metrics.Family{
		{Name: "nfsrdma_rdma_work_requests_total", Help: "RDMA READs and WRITEs of the server (rdma_stat_read, rdma_stat_write).", Type: metrics.Counter,
			Samples: []metrics.Sample{metrics.Of("op", "read", r.Read), metrics.Of("op", "write", r.Write)}},
		metrics.Single("nfsrdma_rdma_sq_starve_total", metrics.Counter, "Waits for a send queue slot (rdma_stat_sq_starve).", float64(r.SQStarve)),
		metrics.Single("nfsrdma_rdma_sends_with_invalidate_total", metrics.Counter, "Replies that invalidated a key of the client.", float64(r.SendWithInv)),
		{Name: "nfsrdma_rdma_nomsg_total", Help: "RDMA_NOMSG messages, by direction.", Type: metrics.Counter,
			Samples: []metrics.Sample{metrics.Of("direction", "call", r.NomsgCall), metrics.Of("direction", "reply", r.NomsgReply)}},
		{Name: "nfsrdma_rdma_bad_messages_total", Help: "Messages that were refused, by reason.", Type: metrics.Counter, Samples: []metrics.Sample{
			metrics.Of("reason", "short", r.Short), metrics.Of("reason", "version", r.BadVers), metrics.Of("reason", "header", r.BadHeader),
			metrics.Of("reason", "msgp", r.MSGP), metrics.Of("reason", "done", r.Done), metrics.Of("reason", "rdma_error", r.RDMAError),
			metrics.Of("reason", "xid", r.BadXID), metrics.Of("reason", "chunk", r.BadChunk), metrics.Of("reason", "reverse", r.Reverse),
			metrics.Of("reason", "no_room", r.NoRoom)}},
	}
}

func tcpMetrics(st *nfsserver.Stats) []metrics.Family {
	t := &st.TCP
	return []metrics.Family{
		metrics.Single("nfsrdma_tcp_received_bytes_total", metrics.Counter, "Bytes of records received.", float64(t.RecvBytes)),
		metrics.Single("nfsrdma_tcp_sent_bytes_total", metrics.Counter, "Bytes of records sent.", float64(t.SendBytes)),
		{Name: "nfsrdma_tcp_bad_records_total", Help: "Records that were refused, by reason.", Type: metrics.Counter, Samples: []metrics.Sample{
			metrics.Of("reason", "too_long", t.TooLong), metrics.Of("reason", "fragments", t.Fragments), metrics.Of("reason", "truncated", t.Truncated),
			metrics.Of("reason", "stalled", t.Stalled), metrics.Of("reason", "short", t.Short), metrics.Of("reason", "reverse", t.Reverse),
			metrics.Of("reason", "item", t.BadItem)}},
	}
}

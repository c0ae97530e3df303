# The two commands of a newcomer: `make run` (the main job) and `make test`.
GO          ?= go
SEED        ?= 1
FUZZTIME    ?= 30s
SEEDS       ?= 1000
XPRT         = ./internal/rpcrdma ./internal/xprt/clnt ./internal/xprt/svc ./internal/xprt/svcrdma ./internal/xprt/xprtrdma
STATICCHECK ?= honnef.co/go/tools/cmd/staticcheck@v0.8.2

.PHONY: help run test test-rxe test-device guest-shell guest-bench kernel-table test-report sweep-1000 vet lint race tree fuzz chaos mutants bench cover cover-xprt clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: ## print the reported-against-measured table of MAX_DATA_SEGS (segments)
	@$(GO) run ./scenarios/cmd/nfsrdma run segments -seed $(SEED)

test: ## vet, every test on the embedded device, gofmt
	$(GO) vet ./...
	$(GO) test ./...
	@test -z "$$(gofmt -l .)" || { echo "gofmt these:"; gofmt -l .; exit 1; }

test-rxe: ## the device suites in a guest: rxe and siw of a real kernel, which is also the peer (Debian 12; the first run fetches packages)
	@$(GO) run ./internal/guest test $(if $(DEV),-dev $(DEV)) $(if $(SUITE),-suite $(SUITE))

test-device: ## the device suites on this machine's own RDMA device: NFSRDMA_DEVICE=NAME make test-device
	@$(GO) run ./internal/guest direct -dev "$(NFSRDMA_DEVICE)" $(if $(SUITE),-suite $(SUITE))

guest-bench: ## in one guest a device: this client and server beside the kernel's, and perftest
	@$(GO) build -tags rdmacore -o bin/perf ./internal/guest/perf
	@for d in $(or $(DEV),rxe siw); do $(GO) run ./internal/guest exec -dev $$d -timeout 5m bin/perf || exit 1; done

guest-shell: ## a prompt in the guest, with DEV (rxe, siw or none)
	@$(GO) run ./internal/guest shell -dev $(or $(DEV),rxe)

kernel-table: ## the kernel's NFS server and client beside ours, rule by rule: scenarios/conformance/kernel.md, from runs in the guest
	@mkdir -p bin && $(GO) test -c -tags rdmacore -o bin/conformance.test ./scenarios/conformance && $(GO) build -tags rdmacore -o bin/nfsrdma ./scenarios/cmd/nfsrdma
	@for d in rxe siw; do $(GO) run ./internal/guest exec -dev $$d -kernel-nfsd bin/nfsrdma conformance -faults -known linux-6.1 \
	  -server rdma://10.9.0.1/export -mountport 20048 -format json >bin/linux-6.1.$$d.json || exit 1; \
	  $(GO) run ./internal/guest exec -dev $$d bin/conformance.test -test.run '^TestKernelClient$$' -print >bin/client.out || exit 1; \
	  sed -n '/^\[/,/^]/p' bin/client.out >bin/linux-6.1-client.$$d.json; done
	@NFSRDMA_TABLE=$(CURDIR)/bin $(GO) test -count=1 -run '^TestKernelTable$$' ./scenarios/conformance

test-report: ## the report of sweeps in headless Chromium, which is installed if it is missing (Debian)
	@command -v chromium >/dev/null || { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core >/dev/null; }
	$(GO) test -count=1 -v -run 'Browser' ./internal/report

sweep-1000: ## 1,000 cells, twice and in four shards, which must give the same bytes
	NFSRDMA_SWEEP_1000=1 $(GO) test -count=1 -v -timeout 30m -run '^TestSweep1000$$' ./scenarios/cmd/nfsrdma

lint: ## staticcheck
	$(GO) run $(STATICCHECK) ./...

race: ## every test under the race detector
	$(GO) test -race -timeout 30m ./...

tree: ## all of GOROOT/src through a mount in each mode: virtual, then live under the race detector
	NFSRDMA_FULL_TREE=1 $(GO) test -count=1 -v -timeout 30m -run '^TestTree$$/^virtual$$' ./fabric
	NFSRDMA_FULL_TREE=1 $(GO) test -count=1 -v -race -timeout 30m -run '^TestTree$$/^live$$' ./fabric

fuzz: ## every fuzz target for FUZZTIME each, and generated calls and replies against their oracles
	@set -e; for p in $$($(GO) list ./...); do \
	  for f in $$($(GO) test -list '^Fuzz' $$p | grep '^Fuzz' || true); do \
	    echo "== $$p $$f"; $(GO) test -run '^$$' -fuzz "^$$f$$" -fuzztime $(FUZZTIME) $$p; \
	  done; done
	NFSRDMA_LONG=$(FUZZTIME) $(GO) test -count=1 -v -timeout 24h -run '^TestLong' ./fabric/chunkfuzz ./fabric/verbsfuzz ./fabric/packetfuzz

chaos: ## SEEDS random mixes of faults under a load that is checked, each twice; SEED=N is the first
	$(GO) run ./scenarios/cmd/nfsrdma chaos -seeds $(SEEDS) -seed $(SEED)

mutants: ## takes each mend of a field fault out, in a copy, and wants its test to fail; ONLY=F01,C46 for some
	NFSRDMA_MUTANTS=$(or $(ONLY),all) $(GO) test -count=1 -v -timeout 60m -run '^TestMutants$$' ./internal/mutants

bench: ## live throughput against the bounds of this machine
	@$(GO) run ./scenarios/cmd/nfsrdma bench

cover: ## coverage by package
	$(GO) test -cover ./...

cover-xprt: ## how much of RPC-over-RDMA and its two transports the tests reach, all together, and hostile chunks alone
	@mkdir -p bin; P=$$($(GO) list $(XPRT) | paste -sd,); \
	  $(GO) test -count=1 -coverpkg=$$P -coverprofile=bin/chunks.cover ./fabric/chunkfuzz >/dev/null && \
	  $(GO) test -count=1 -coverpkg=$$P -coverprofile=bin/xprt.cover ./internal/rpcrdma ./internal/xprt/... ./nfsclient ./nfsserver ./fabric/... ./scenarios/conformance >/dev/null && \
	  for f in chunks xprt; do echo "$$f $$($(GO) tool cover -func=bin/$$f.cover | tail -1)"; done

clean:
	$(GO) clean -testcache
	rm -rf bin

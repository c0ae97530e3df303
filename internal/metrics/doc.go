// Package metrics writes counters as text that Prometheus scrapes (exposition format 0.0.4).
package metrics

// Package scenarios reproduces throughput limits that people have reported for
// NFS/RDMA, each as a scenario: the figures of the report, the mechanism, and a
// run of the fabric in virtual time that shows both side by side.
//
// A figure comes out of queues, windows, locks and work requests that exist and
// are counted. The constants of each model stand in one table with their source.
package scenarios

package fabric

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync/atomic"

	"example.org/nfsrdma/fabric/faults"
	"example.org/nfsrdma/internal/sched"
	"example.org/nfsrdma/verbs"
	"example.org/nfsrdma/verbs/rdmacore"
	"example.org/nfsrdma/verbs/softroce"
)

// Softroce is the Params.Device of the soft-RoCE in this process, also where NFSRDMA_DEVICE names another.
const Softroce = "softroce"

// devices are the ends of a fabric.
type devices struct {
	client, server verbs.Device
	addr           string            // of the server
	net            *softroce.Network // nil: a device of rdma-core
}

// nextPort keeps the fabrics of a process apart on one address.
var nextPort atomic.Uint32

const (
	nfsPort  = 20049
	portSpan = 10000
)

// onDevice says whether the fabric uses a device of rdma-core.
func (p *Params) onDevice() bool { return p.Device != Softroce }

// setDevice decides on the device, and on what follows from it.
func (p *Params) setDevice() error {
	fromEnv := false
	if p.Device == "" {
		p.Device = Softroce
		if e := os.Getenv("NFSRDMA_DEVICE"); e != "" {
			p.Device, fromEnv = e, e != Softroce
		}
	}
	if p.onDevice() {
		if !fromEnv && (p.Link != nil || p.Personality.Name != "") {
			return fmt.Errorf("fabric: Device %s has a wire and a personality of its own: Link and Personality are for %s", p.Device, Softroce)
		}
		p.Live, p.Link, p.Personality = true, nil, Personality{}
		return nil
	}
	if p.Personality.Name == "" {
		p.Personality = softroce.RoCE
	}
	if p.Link != nil {
		if err := p.Link.Validate(); err != nil {
			return fmt.Errorf("fabric: Link: %w", err)
		}
		l := *p.Link
		p.Link = &l
	}
	return nil
}

// open opens both ends. A device of rdma-core talks to itself.
func (p *Params) open(s *sched.Sched, x *faults.Injector) (d devices, err error) {
	if !p.onDevice() {
		d.addr = net.JoinHostPort("server", strconv.Itoa(nfsPort))
		cfg := softroce.NetConfig{Link: p.Link}
		if x != nil {
			cfg.Tap, cfg.CMTap = x.Tap, x.CMTap
		}
		d.net = softroce.NewNetwork(s, cfg)
		for _, end := range []struct {
			name string
			dev  *verbs.Device
		}{{"server", &d.server}, {"client", &d.client}} {
			x, err := d.net.NewDevice(end.name, p.Personality)
			if err != nil {
				return d, err
			}
			*end.dev = x
		}
		return d, nil
	}
	if d.server, err = rdmacore.Open(p.Device); err != nil {
		return d, fmt.Errorf("fabric: Device: %w", err)
	}
	a, ok := d.server.(interface{ Addr() string })
	if !ok || a.Addr() == "" {
		return d, fmt.Errorf("fabric: device %s has no IP address: %w", p.Device, verbs.ErrUnreachable)
	}
	d.addr = net.JoinHostPort(a.Addr(), strconv.Itoa(nfsPort+int(nextPort.Add(1)-1)%portSpan))
	if d.client, err = rdmacore.Open(p.Device); err != nil {
		return d, fmt.Errorf("fabric: Device: %w", err)
	}
	return d, nil
}

func (d *devices) close() error {
	var errs []error
	for _, x := range []verbs.Device{d.client, d.server} {
		if x == nil {
			continue
		}
		if r := x.Resources(); r != (verbs.Resources{}) {
			errs = append(errs, fmt.Errorf("objects left on device %s: %+v", x.Name(), r))
		} else if err := x.Close(); err != nil {
			errs = append(errs, err)
		}
	}
	if d.net != nil && len(errs) == 0 {
		errs = append(errs, d.net.Close())
	}
	return errors.Join(errs...)
}

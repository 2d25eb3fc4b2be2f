// Package cluster runs a Kubernetes control plane as plain processes, for tests. The programs are those that
// test/kubernetes/programs builds; test/kubernetes/node adds a node.
//
// Everything listens on 127.0.0.1 at ports that were free, and is gone after Stop. It needs no privilege.
package cluster

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"mysql-broker/test/limits"
)

// Config says what to start.
type Config struct {
	Programs string // directory with etcd, kube-apiserver and kube-controller-manager
	Dir      string // for state and logs; it is kept when the cluster stops
	Address  string // at which nodes and pods reach the API server; 127.0.0.1 where there are none

	// Controllers lists those that run, separated by commas; "" for all. Each one costs requests for every object.
	Controllers string
}

// Cluster is a control plane that runs.
type Cluster struct {
	URL        string // of the API server
	Kubeconfig string // path of a file for an administrator
	CA         []byte // PEM, of the API server's certificate

	cfg    Config
	ca     *authority
	client *http.Client

	background context.Context // until Stop
	cancel     context.CancelFunc
	loops      sync.WaitGroup

	mu        sync.Mutex
	processes []*process

	provides bool // startProvisioner has been called
}

type process struct {
	name string
	cmd  *exec.Cmd
	done chan struct{}
	err  error
}

const serviceRange = "10.96.0.0/16"

// Start returns when the control plane is ready.
func Start(ctx context.Context, cfg Config) (_ *Cluster, err error) {
	cfg.Address = cmp.Or(cfg.Address, "127.0.0.1")
	cfg.Controllers = cmp.Or(cfg.Controllers, "*")
	c := &Cluster{cfg: cfg}
	c.background, c.cancel = context.WithCancel(context.Background())
	defer func() {
		if err != nil {
			c.Stop()
		}
	}()
	for _, dir := range []string{"pki", "log", "etcd", "volumes"} {
		if err := os.MkdirAll(filepath.Join(cfg.Dir, dir), 0o755); err != nil {
			return nil, err
		}
	}
	for _, step := range []func(context.Context) error{c.makeKeys, c.startControlPlane, c.startProvisioner} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func (c *Cluster) makeKeys(context.Context) (err error) {
	if c.ca, err = newAuthority(filepath.Join(c.cfg.Dir, "pki")); err != nil {
		return err
	}
	if c.CA, err = os.ReadFile(c.ca.path("ca.crt")); err != nil {
		return err
	}
	return errors.Join(
		c.ca.issue("apiserver", "kube-apiserver", "", "127.0.0.1", "localhost", "10.96.0.1", "kubernetes.default.svc",
			c.cfg.Address),
		c.ca.issue("apiserver-kubelet", "kube-apiserver", "system:masters"),
		c.ca.issue("admin", "admin", "system:masters"),
		c.ca.issue("controller-manager", "system:kube-controller-manager", "system:masters"),
		c.ca.issue("accounts", "service-accounts", ""),
	)
}

func (c *Cluster) startControlPlane(ctx context.Context) error {
	ports, err := freePorts(4)
	if err != nil {
		return err
	}
	listen := "127.0.0.1"
	if c.cfg.Address != listen {
		listen = "0.0.0.0"
	}
	etcd := fmt.Sprintf("http://127.0.0.1:%d", ports[0])
	c.URL = fmt.Sprintf("https://127.0.0.1:%d", ports[2])
	pki := c.ca.path
	if err := c.Run("etcd", "--data-dir="+filepath.Join(c.cfg.Dir, "etcd"), "--log-level=warn", "--unsafe-no-fsync",
		"--listen-client-urls="+etcd, "--advertise-client-urls="+etcd,
		fmt.Sprintf("--listen-peer-urls=http://127.0.0.1:%d", ports[1])); err != nil {
		return err
	}
	if err := c.Run("kube-apiserver", "--etcd-servers="+etcd,
		"--bind-address="+listen, "--advertise-address="+c.cfg.Address, fmt.Sprintf("--secure-port=%d", ports[2]),
		"--tls-cert-file="+pki("apiserver.crt"), "--tls-private-key-file="+pki("apiserver.key"),
		"--client-ca-file="+pki("ca.crt"), "--service-cluster-ip-range="+serviceRange,
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file="+pki("accounts.crt"), "--service-account-signing-key-file="+pki("accounts.key"),
		"--kubelet-certificate-authority="+pki("ca.crt"), "--kubelet-preferred-address-types=InternalIP",
		"--kubelet-client-certificate="+pki("apiserver-kubelet.crt"), "--kubelet-client-key="+pki("apiserver-kubelet.key"),
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
		"--enable-priority-and-fairness=false", "--profiling=false"); err != nil {
		return err
	}
	if c.Kubeconfig, err = c.ca.kubeconfig("admin", c.URL); err != nil {
		return err
	}
	if err := c.makeClient(); err != nil {
		return err
	}
	config, err := c.ca.kubeconfig("controller-manager", c.URL)
	if err != nil {
		return err
	}
	// Started earlier, it gives up after ten seconds, which may be too soon on a busy host.
	if err := c.await(ctx, "/readyz"); err != nil {
		return err
	}
	if err := c.Run("kube-controller-manager", "--kubeconfig="+config, "--leader-elect=false",
		"--controllers="+c.cfg.Controllers, "--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", ports[3]),
		"--service-account-private-key-file="+pki("accounts.key"), "--root-ca-file="+pki("ca.crt"),
		"--profiling=false"); err != nil {
		return err
	}
	// The controllers run when they have made a new namespace's service account.
	return c.await(ctx, "/api/v1/namespaces/default/serviceaccounts/default")
}

// Run runs a program of Config.Programs, or of $PATH, until Stop; its output goes to log/NAME.log.
func (c *Cluster) Run(name string, args ...string) error {
	log, err := os.OpenFile(filepath.Join(c.cfg.Dir, "log", name+".log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	program := filepath.Join(c.cfg.Programs, name)
	if _, err := os.Stat(program); err != nil {
		program = name
	}
	cmd := exec.Command(program, args...)
	cmd.Env = append(os.Environ(), "GOGC=400") // memory is there, and processors are what tests wait for
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	p := &process{name: name, cmd: cmd, done: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		close(p.done)
	}()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.processes = append(c.processes, p)
	return nil
}

// Pid is the process of the program of that name, 0 if there is none.
func (c *Cluster) Pid(name string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.processes {
		if p.name == name {
			return p.cmd.Process.Pid
		}
	}
	return 0
}

// Login issues a certificate for both ends of connections, and returns the path of a kubeconfig that logs in with it.
func (c *Cluster) Login(name, commonName, organization string, hosts ...string) (kubeconfig string, err error) {
	if err := c.ca.issue(name, commonName, organization, hosts...); err != nil {
		return "", err
	}
	return c.ca.kubeconfig(name, c.URL)
}

// Stop ends all programs in the reverse order of their start.
func (c *Cluster) Stop() {
	c.cancel()
	c.loops.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range slices.Backward(c.processes) {
		_ = p.cmd.Process.Kill() // it fails for one that has ended
		<-p.done
	}
	c.processes = nil
	if c.provides {
		c.removeVolumes()
	}
}

// ended says which process has ended by itself.
func (c *Cluster) ended() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.processes {
		select {
		case <-p.done:
			return fmt.Errorf("%s has ended, %v: see %s", p.name, p.err, filepath.Join(c.cfg.Dir, "log", p.name+".log"))
		default:
		}
	}
	return nil
}

func (c *Cluster) makeClient() error {
	pair, err := tls.LoadX509KeyPair(c.ca.path("admin.crt"), c.ca.path("admin.key"))
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(c.CA)
	c.client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100,
		TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}}}}
	return nil
}

// await asks for a path until it is there, or until a process has ended.
func (c *Cluster) await(ctx context.Context, path string) error {
	ctx, cancel := context.WithTimeout(ctx, limits.Stuck)
	defer cancel()
	for {
		status, _, err := c.Call(ctx, http.MethodGet, path, nil)
		if err == nil && status == http.StatusOK {
			return nil
		}
		if err := c.ended(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the control plane was not ready in time: %s: status %d, %w", path, status,
				errors.Join(err, ctx.Err()))
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// contentType of a PATCH is that of a merge patch, or of an apply.
func contentType(method, path string) string {
	switch {
	case method != http.MethodPatch:
		return "application/json"
	case strings.Contains(path, "fieldManager="):
		return "application/apply-patch+yaml"
	}
	return "application/merge-patch+json"
}

// Call sends a request to the API server as an administrator. body is sent as JSON unless it is nil.
func (c *Cluster) Call(ctx context.Context, method, path string, body any) (status int, answer []byte, err error) {
	var content []byte
	if body != nil {
		if content, err = json.Marshal(body); err != nil {
			return 0, nil, err
		}
	}
	request, err := http.NewRequestWithContext(ctx, method, c.URL+path, bytes.NewReader(content))
	if err != nil {
		return 0, nil, err
	}
	request.Header.Set("Content-Type", contentType(method, path))
	response, err := c.client.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	answer, err = io.ReadAll(response.Body)
	return response.StatusCode, answer, err
}

// send is Call for requests that may be repeated: "already exists" and "not found" are not errors.
func (c *Cluster) send(ctx context.Context, method, path string, body any) error {
	status, answer, err := c.Call(ctx, method, path, body)
	if err != nil {
		return err
	}
	if status >= 300 && status != http.StatusConflict && status != http.StatusNotFound {
		return fmt.Errorf("%s %s: status %d: %s", method, path, status, answer)
	}
	return nil
}

// freePorts returns ports that are free now. If another program takes one before it is used, a process ends.
func freePorts(n int) ([]int, error) {
	var ports []int
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

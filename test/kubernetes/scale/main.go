// Command scale measures the Kubernetes launcher with many servers in a real control plane without a node: their pods
// wait for one. It prints how long calls take with each of the numbers given, and the memory of the process.
//
//	KUBERNETES_PROGRAMS=/opt/kubernetes-programs go run ./test/kubernetes/scale 100 1000 10000
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/launcher/kubernetes"
	"mysql-broker/test/kubernetes/cluster"
)

const (
	namespace = "servers"
	creators  = 8 // calls at the same time
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		log.Fatal(err)
	}
}

func run(numbers []string) (err error) {
	dir, err := os.MkdirTemp("", "kubernetes")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	ctx := context.Background()
	c, err := cluster.Start(ctx, cluster.Config{Programs: os.Getenv(cluster.ProgramsVar), Dir: dir, Logf: log.Printf})
	if err != nil {
		return err
	}
	defer c.Stop()
	if err := post(ctx, c, "/api/v1/namespaces", map[string]any{"apiVersion": "v1", "kind": "Namespace",
		"metadata": map[string]any{"name": namespace}}); err != nil {
		return err
	}
	credentials, err := kubernetes.ReadKubeconfig(c.Kubeconfig)
	if err != nil {
		return err
	}
	l, err := kubernetes.New(kubernetes.Config{Credentials: credentials, Namespace: namespace,
		Images: []kubernetes.Image{{Flavour: "mysql", Version: "9.7", Name: "mysql:9.7"}}, User: 999})
	if err != nil {
		return err
	}
	defer l.Close()
	fmt.Println("servers  create ms  list ms  troubles ms  heap MiB")
	made := 0
	for _, text := range numbers {
		n, err := strconv.Atoi(text)
		if err != nil {
			return err
		}
		if err := create(ctx, l, made, n); err != nil {
			return err
		}
		made = n
		if err := measure(ctx, l, n); err != nil {
			return err
		}
	}
	return nil
}

func post(ctx context.Context, c *cluster.Cluster, path string, body any) error {
	status, answer, err := c.Call(ctx, http.MethodPost, path, body)
	if err != nil || status >= 300 {
		return fmt.Errorf("POST %s: %d %s %w", path, status, answer, err)
	}
	return nil
}

// begin makes the objects of a server.
func begin(ctx context.Context, l *kubernetes.Launcher, n int) error {
	spec := launcher.Spec{ID: fmt.Sprintf("d_%d", n), MemoryMB: 256, StorageMB: 1024, AdminUser: "admin",
		AdminPassword: "password"}
	_, err := l.Launch(ctx, spec, func(string) {})
	if notYet, ok := errors.AsType[*launcher.Error](err); ok && notYet.Action == launcher.Wait {
		return nil
	}
	return fmt.Errorf("launch: %w", err)
}

func create(ctx context.Context, l *kubernetes.Launcher, from, to int) error {
	var next atomic.Int64
	next.Store(int64(from))
	var creating sync.WaitGroup
	var failed atomic.Value
	for range creators {
		creating.Go(func() {
			for n := int(next.Add(1)); n <= to && failed.Load() == nil; n = int(next.Add(1)) {
				if err := begin(ctx, l, n); err != nil {
					failed.Store(err)
				}
			}
		})
	}
	creating.Wait()
	err, _ := failed.Load().(error)
	return err
}

// measure prints a line.
func measure(ctx context.Context, l *kubernetes.Launcher, n int) error {
	const again = 20
	start := time.Now()
	for i := range again {
		if err := begin(ctx, l, 1_000_000+n+i); err != nil {
			return err
		}
	}
	created := time.Since(start) / again
	start = time.Now()
	ids, err := l.List(ctx)
	if err != nil {
		return err
	}
	listed := time.Since(start)
	start = time.Now()
	if _, err := l.Troubles(ctx); err != nil {
		return err
	}
	asked := time.Since(start)
	for i := range again {
		if err := l.Destroy(ctx, fmt.Sprintf("d_%d", 1_000_000+n+i)); err != nil {
			return err
		}
	}
	runtime.GC()
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	fmt.Printf("%7d  %9.1f  %7.1f  %11.1f  %8.1f\n", len(ids)-again, ms(created), ms(listed), ms(asked),
		float64(memory.HeapInuse)/(1<<20))
	return nil
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// bareCatalog is the variable that turns this program into the raw reference for requests. Its value is the path of the
// response to a request for the catalog.
const bareCatalog = "BENCH_BARE_CATALOG"

// serveBare answers requests for the catalog, and for the status of a task, with nothing around net/http and pgx.
func serveBare(ctx context.Context) error {
	catalog, err := os.ReadFile(os.Getenv(bareCatalog))
	if err != nil {
		return err
	}
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL")+"&pool_max_conns=14") // the broker has the same number
	if err != nil {
		return err
	}
	defer pool.Close()
	length := strconv.Itoa(len(catalog))
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			if r.URL.Path == "/v2/catalog" {
				w.Header().Set("Content-Length", length)
				_, _ = w.Write(catalog) // the client notices
				return
			}
			body, err := bareStatus(r, pool)
			if err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			_, _ = w.Write(body) // the client notices
		})}
	listener, err := net.Listen("tcp", "[::]:0")
	if err != nil {
		return err
	}
	fmt.Printf(`{"msg":"ready","address":%q}`+"\n", listener.Addr())
	context.AfterFunc(ctx, func() { server.Close() })
	if err := server.Serve(listener); err != http.ErrServerClosed {
		return err
	}
	return nil
}

func bareStatus(r *http.Request, pool *pgxpool.Pool) ([]byte, error) {
	id, err := strconv.ParseInt(strings.TrimPrefix(r.URL.RawQuery, "operation=task_"), 10, 64)
	if err != nil {
		return nil, err
	}
	var status struct {
		State       string `json:"state"`
		Description string `json:"description"`
	}
	if err := pool.QueryRow(r.Context(), "SELECT state, description FROM task WHERE id = $1", id).
		Scan(&status.State, &status.Description); err != nil {
		return nil, err
	}
	return json.Marshal(status)
}

// startBare runs this program as the raw reference in the environment of a broker.
func (b *bench) startBare(ctx context.Context, environment map[string]string, catalog []byte) (*broker, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	path := filepath.Join(b.dir, "catalog.json")
	if err := os.WriteFile(path, catalog, 0o600); err != nil {
		return nil, err
	}
	cmd := exec.Command(self)
	cmd.Env = []string{bareCatalog + "=" + path}
	return b.launch(ctx, cmd, environment)
}

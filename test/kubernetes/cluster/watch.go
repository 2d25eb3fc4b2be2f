package cluster

import (
	"context"
	"encoding/json"
	"net/http"
	"time"
)

// event is a line of a watch.
type event[T any] struct {
	Type   string // ADDED, MODIFIED, DELETED, BOOKMARK or ERROR
	Object T
}

// watch calls do with every object at a path, and with each again when it changes or is deleted, until the cluster
// stops. Where a watch ends, the next one begins with all objects again.
func watch[T any](c *Cluster, path string, do func(ctx context.Context, what string, object T)) {
	c.loops.Go(func() {
		for c.background.Err() == nil {
			watchOnce(c, path, do)
			select {
			case <-c.background.Done():
			case <-time.After(100 * time.Millisecond):
			}
		}
	})
}

func watchOnce[T any](c *Cluster, path string, do func(ctx context.Context, what string, object T)) {
	request, err := http.NewRequestWithContext(c.background, http.MethodGet, c.URL+path+"?watch=1&resourceVersion=0", nil)
	if err != nil {
		c.cfg.Logf("watch %s: %v", path, err)
		return
	}
	response, err := c.client.Do(request)
	if err != nil {
		return
	}
	defer response.Body.Close()
	for lines := json.NewDecoder(response.Body); ; {
		var e event[T]
		if lines.Decode(&e) != nil {
			return
		}
		if e.Type == "ADDED" || e.Type == "MODIFIED" || e.Type == "DELETED" {
			do(c.background, e.Type, e.Object)
		}
	}
}

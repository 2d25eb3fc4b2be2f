package s3_test

import (
	"net/http"
	"testing"

	"mysql-broker/test/s3"
	"mysql-broker/test/servers"
)

func TestMain(m *testing.M) { servers.Main(m) }

// The service refuses who has no key, and its bucket is empty.
func TestService(t *testing.T) {
	t.Parallel()
	service := s3.Start(t)
	r, err := http.Get("http://" + service.Address + "/" + s3.Bucket)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if r.StatusCode != http.StatusForbidden {
		t.Errorf("whoever has no key is answered %s", r.Status)
	}
	if all := service.Objects(t); len(all) > 0 {
		t.Errorf("a new bucket has %q", all)
	}
}

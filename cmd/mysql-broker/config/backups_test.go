package config

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestBackups reads where backups are kept.
func TestBackups(t *testing.T) {
	t.Parallel()
	const secret = "do-not-quote"
	service := func(credentials string) map[string]string {
		return map[string]string{"VCAP_SERVICES": `{"user-provided":[{"name":"s3","tags":["mysql-backups"],"credentials":` +
			credentials + `}]}`}
	}
	for name, test := range map[string]struct {
		env        map[string]string
		want, says string
	}{
		"none":      {nil, "none", ""},
		"directory": {map[string]string{"BACKUP_STORE": "file:///srv/backups/"}, "file:///srv/backups", ""},
		"bucket": {map[string]string{"BACKUP_STORE": "https://s3.example.com:9000/b/a/c/", "BACKUP_ACCESS_KEY": "k",
			"BACKUP_SECRET_KEY": secret}, "https://s3.example.com:9000/b/a/c", ""},
		"service": {service(`{"endpoint":"s3.example.com","bucket_name":"b","access_key_id":"k","secret_access_key":"s"}`),
			"https://s3.example.com/b", ""},
		"service of AWS": {service(`{"region":"eu-west-1","bucket":"b","prefix":"/p/","access_key_id":"k",
			"secret_access_key":"s"}`), "https://s3.eu-west-1.amazonaws.com/b/p", ""},
		"no keys":   {map[string]string{"BACKUP_STORE": "https://s3.example.com/b"}, "", "no access key"},
		"no bucket": {map[string]string{"BACKUP_STORE": "https://s3.example.com/"}, "", "not the URL of a bucket"},
		"secret in the URL": {map[string]string{"BACKUP_STORE": "https://k:" + secret + "@s3.example.com/b"}, "",
			"not the URL of a bucket"},
		"relative directory": {map[string]string{"BACKUP_STORE": "file://backups"}, "", "https://"},
		"plain HTTP": {map[string]string{"BACKUP_STORE": "http://s3.example.com/b", "BACKUP_ACCESS_KEY": "k",
			"BACKUP_SECRET_KEY": secret}, "", "https://"},
		"wrong CA": {map[string]string{"BACKUP_STORE": "https://s3.example.com/b", "BACKUP_ACCESS_KEY": "k",
			"BACKUP_SECRET_KEY": secret, "BACKUP_CA_CERTIFICATE": "x"}, "", "no PEM certificate"},
		"wrong credentials": {service(`{"access_key":["` + secret + `"]}`), "", "not an object of strings"},
	} {
		r, services := newReader(func(name string) string { return test.env[name] })
		got := "none"
		if b := r.backups(services); b.bucket != nil {
			s, err := b.Open()
			require.NoError(t, err)
			got = s.String()
		} else if b.directory != "" {
			got = "file://" + b.directory
		}
		problems := ""
		for _, err := range r.problems {
			problems += err.Error()
		}
		if test.says == "" && got != test.want || (problems == "") != (test.says == "") ||
			!strings.Contains(problems, test.says) || strings.Contains(problems, secret) {
			t.Errorf("%s: %s, %q", name, got, problems)
		}
	}
}

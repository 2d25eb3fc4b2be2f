package config

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const secret = "do-not-quote"

// expectProblems expects that problems were found that say that, or none if that is "". They do not quote the secret.
func expectProblems(t *testing.T, name string, r *reader, says string) {
	problems := errors.Join(r.problems...)
	if says == "" {
		assert.NoError(t, problems, name)
		return
	}
	require.ErrorContains(t, problems, says, name)
	assert.NotContains(t, problems.Error(), secret, name)
}

// userProvided has a user-provided service, whose description ends with its credentials.
func userProvided(description, credentials string) map[string]string {
	return map[string]string{"VCAP_SERVICES": `{"user-provided":[{` + description + `,"credentials":` + credentials + `}]}`}
}

// TestBackups reads where backups are kept.
func TestBackups(t *testing.T) {
	t.Parallel()
	service := func(credentials string) map[string]string {
		return userProvided(`"name":"s3","tags":["mysql-backups"]`, credentials)
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
		if b := r.backups(services); b.Configured() {
			s, err := b.Open()
			require.NoError(t, err)
			got = s.String()
		}
		if test.says == "" {
			assert.Equal(t, test.want, got, name)
		}
		expectProblems(t, name, r, test.says)
	}
}

// TestCredHub reads where CredHub is, and who the broker is there.
func TestCredHub(t *testing.T) {
	t.Parallel()
	const url = "https://credhub.service.cf.internal:8844"
	cas := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(cas, "platform.crt"), []byte("no certificate"), 0o600))
	service := func(credentials string) map[string]string {
		return userProvided(`"name":"mysql-credhub-1"`, credentials)
	}
	client := map[string]string{"CREDHUB_CLIENT": "c", "CREDHUB_CLIENT_SECRET": secret}
	identity := map[string]string{"CF_INSTANCE_CERT": "/certificate", "CF_INSTANCE_KEY": "/key"}
	set := func(pairs ...string) map[string]string {
		env := maps.Clone(client)
		for i := 0; i < len(pairs); i += 2 {
			env[pairs[i]] = pairs[i+1]
		}
		return env
	}
	platform := service(`{"url":"` + url + `/"}`)
	maps.Copy(platform, identity)
	wrongCA := maps.Clone(platform)
	wrongCA["CF_SYSTEM_CERT_PATH"] = cas
	for name, test := range map[string]struct {
		env        map[string]string
		want, says string
	}{
		"none":            {identity, "none", ""},
		"client":          {set("CREDHUB_URL", url), url + " c  /c/mysql-broker", ""},
		"path":            {set("CREDHUB_URL", url, "CREDHUB_PATH", "/c/zone-1"), url + " c  /c/zone-1", ""},
		"certificate":     {platform, url + "  /certificate /c/mysql-broker", ""},
		"service":         {service(`{"url":"` + url + `","client":"c","client_secret":"s","path":"/c/p"}`), url + " c  /c/p", ""},
		"no identity":     {service(`{"url":"` + url + `"}`), "", "CF_INSTANCE_CERT"},
		"no secret":       {service(`{"url":"` + url + `","client":"c"}`), "", "a client and its secret"},
		"plain HTTP":      {set("CREDHUB_URL", "http://credhub"), "", "https://"},
		"secret in URL":   {set("CREDHUB_URL", "https://c:"+secret+"@credhub"), "", "https://"},
		"path in URL":     {set("CREDHUB_URL", url+"/api"), "", "a host alone"},
		"wrong path":      {set("CREDHUB_URL", url, "CREDHUB_PATH", "/c//a"), "", "CREDHUB_PATH"},
		"relative path":   {set("CREDHUB_URL", url, "CREDHUB_PATH", "c/a"), "", "CREDHUB_PATH"},
		"pattern":         {set("CREDHUB_URL", url, "CREDHUB_PATH", "/c/*"), "", "CREDHUB_PATH"},
		"wrong CA":        {set("CREDHUB_URL", url, "CREDHUB_CA_CERTIFICATE", "x"), "", "no PEM certificate"},
		"platform's CA":   {wrongCA, "", "no PEM certificate"},
		"debug":           {set("CREDHUB_URL", url, "CREDHUB_DEBUG", "true"), "", "CREDHUB_DEBUG"},
		"not strings":     {service(`{"url":["` + secret + `"]}`), "", "as strings"},
		"no user's":       {map[string]string{"VCAP_SERVICES": `{"other":[{"name":"mysql-credhub"}]}`}, "none", ""},
		"two of the kind": {map[string]string{"VCAP_SERVICES": `{"user-provided":[{"name":"mysql-credhub","credentials":{}},{"name":"mysql-credhub-2","credentials":{}}]}`}, "", "second one"},
	} {
		r, services := newReader(func(name string) string { return test.env[name] })
		got := "none"
		if c := r.credHub(services).client; c != nil {
			got = c.URL + " " + c.ClientID + " " + c.Certificate + " " + c.Path
		}
		if test.says == "" {
			assert.Equal(t, test.want, got, name)
		}
		expectProblems(t, name, r, test.says)
	}
}

package config

import (
	"cmp"
	"errors"
	"net/url"
	"path/filepath"
	"strings"

	"mysql-broker/outbound"
	"mysql-broker/provisioner/backup/objectstore"
)

// Backups says where backups are kept.
type Backups struct {
	open func() (objectstore.Store, error)
}

// Open prepares the use of the object store. It returns nil if none is configured.
func (b Backups) Open() (objectstore.Store, error) {
	if b.open == nil {
		return nil, nil
	}
	return b.open()
}

// Configured reports whether backups are kept.
func (b Backups) Configured() bool { return b.open != nil }

// In keeps backups in an object store that is open.
func In(store objectstore.Store) Backups {
	return Backups{func() (objectstore.Store, error) { return store, nil }}
}

var backupVariables = []Variable{
	{"BACKUP_STORE", "", "where backups are kept: the URL of a bucket of an S3 service, such as " +
		"https://s3.example.com/my-bucket/mysql, or a directory that all brokers share, such as file:///srv/backups; the " +
		"default is the bound service tagged mysql-backups or named mysql-backups…, or else no backups"},
	{"BACKUP_ACCESS_KEY", "", "access key of the S3 service"},
	{"BACKUP_SECRET_KEY", "", "that key's secret"},
	{"BACKUP_REGION", "", "region of the bucket, if the S3 service does not report it"},
	{"BACKUP_CA_CERTIFICATE", "", "CA of the S3 service, in PEM; default: those of the system"},
	{"ARCHIVE_INTERVAL", "1m", "how often the binary logs of dedicated servers are copied there, from 1s to 10m; if a " +
		"server is lost, the changes of the last interval are lost too"},
}

// backupsMark is the tag or name prefix of the bound service that has the bucket.
const backupsMark = "mysql-backups"

// bucketService are the credentials of a bound S3 service, under the names that brokers of such services use.
type bucketService struct {
	URL             string `json:"url"` // of the bucket
	Endpoint        string `json:"endpoint"`
	Host            string `json:"host"`
	Bucket          string `json:"bucket"`
	BucketName      string `json:"bucket_name"`
	Prefix          string `json:"prefix"`
	Region          string `json:"region"`
	AccessKey       string `json:"access_key"`
	AccessKeyID     string `json:"access_key_id"`
	SecretKey       string `json:"secret_key"`
	SecretAccessKey string `json:"secret_access_key"`
	CA              string `json:"ca_certificate"`
}

func (b bucketService) store() string {
	if b.URL != "" {
		return b.URL
	}
	endpoint := cmp.Or(b.Endpoint, b.Host)
	if endpoint == "" && b.Region != "" {
		endpoint = "s3." + b.Region + ".amazonaws.com"
	}
	if !strings.Contains(endpoint, "://") {
		endpoint = "https://" + endpoint
	}
	return strings.TrimSuffix(endpoint, "/") + "/" + cmp.Or(b.Bucket, b.BucketName) + "/" + strings.Trim(b.Prefix, "/")
}

func (r *reader) backups(bound services) Backups {
	service := bucketService{URL: r.value("BACKUP_STORE"), AccessKey: r.value("BACKUP_ACCESS_KEY"),
		SecretKey: r.value("BACKUP_SECRET_KEY"), Region: r.value("BACKUP_REGION"), CA: r.value("BACKUP_CA_CERTIFICATE")}
	what := "BACKUP_STORE"
	if service.URL == "" {
		found, err := only[bucketService](bound, backupsMark, "backups", "an object of strings")
		r.fail(err)
		if found == nil {
			return Backups{}
		}
		service, what = *found, "the bound service for backups"
	}
	b, err := service.read()
	r.fail(prefixed(what, err))
	return b
}

var errNoBucket = errors.New("it is not the URL of a bucket, such as https://s3.example.com/my-bucket, nor of a " +
	"directory, such as file:///srv/backups")

func (b bucketService) read() (Backups, error) {
	u, err := url.Parse(b.store())
	if err != nil || u.User != nil || u.RawQuery != "" || u.Fragment != "" { // the error could quote a secret
		return Backups{}, errNoBucket
	}
	if u.Scheme == "file" && u.Host == "" && filepath.IsAbs(u.Path) {
		return In(objectstore.OpenDirectory(filepath.Clean(u.Path))), nil
	}
	bucket, prefix, _ := strings.Cut(strings.Trim(u.Path, "/"), "/")
	c := objectstore.S3Config{Endpoint: u.Host, Insecure: u.Scheme == "http", Bucket: bucket, Region: b.Region,
		AccessKey: cmp.Or(b.AccessKey, b.AccessKeyID), SecretKey: cmp.Or(b.SecretKey, b.SecretAccessKey)}
	if prefix != "" {
		c.Prefix = prefix + "/"
	}
	if b.CA != "" {
		c.CA = []byte(b.CA)
	}
	switch {
	case !outbound.Safe(u):
		return Backups{}, errors.New("it does not begin with https://, which only one on a loopback address may do")
	case bucket == "":
		return Backups{}, errNoBucket
	case c.AccessKey == "" || c.SecretKey == "":
		return Backups{}, errors.New("it has no access key or no secret key")
	}
	if _, err := objectstore.OpenS3(c); err != nil { // without I/O
		return Backups{}, err
	}
	return Backups{func() (objectstore.Store, error) { return objectstore.OpenS3(c) }}, nil
}

package objectstore

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"mysql-broker/outbound"
)

// S3Config says where a bucket is, and who may use it.
type S3Config struct {
	Endpoint  string // host, and port if it is not the usual one
	Insecure  bool   // HTTP instead of HTTPS
	Bucket    string
	Prefix    string // of all names, "" or ending with a slash
	Region    string // "" if the service can tell
	AccessKey string
	SecretKey string
	CA        []byte // PEM; nil for the system's
}

// S3 is a bucket of an S3 service.
type S3 struct {
	config S3Config
	client *minio.Client
}

const (
	// retries is how often the client sends a request that failed, with pauses of up to a second in between. Tasks try
	// again after that.
	retries = 4
	// responseTime limits the wait for the response to a request that was sent.
	responseTime = 30 * time.Second
	// partSize is for objects that are larger, which are sent in parts.
	partSize = 16 << 20
	// maxList limits a response other than an object, in bytes. A page of a listing has up to 1,000 names.
	maxList = 4 << 20
)

// OpenS3 prepares the use of a bucket, without I/O.
func OpenS3(c S3Config) (*S3, error) {
	secure := &tls.Config{}
	if c.CA != nil {
		secure.RootCAs = x509.NewCertPool()
		if !secure.RootCAs.AppendCertsFromPEM(c.CA) {
			return nil, errors.New("the CA certificate of the object store is no PEM certificate")
		}
	}
	transport := outbound.New(outbound.Options{URL: c.url(), TLS: secure, Time: responseTime, Bytes: maxList}).Transport
	client, err := minio.New(c.Endpoint, &minio.Options{Creds: credentials.NewStaticV4(c.AccessKey, c.SecretKey, ""),
		Secure: !c.Insecure, Region: c.Region, Transport: transport, MaxRetries: retries})
	if err != nil {
		return nil, fmt.Errorf("object store %s: %w", c.Endpoint, err)
	}
	return &S3{c, client}, nil
}

func (c S3Config) url() string {
	if c.Insecure {
		return "http://" + c.Endpoint
	}
	return "https://" + c.Endpoint
}

func (s *S3) String() string {
	return strings.TrimSuffix(s.config.url()+"/"+s.config.Bucket+"/"+s.config.Prefix, "/")
}

func (s *S3) Put(ctx context.Context, name string, data []byte) error {
	return explain(s, "write", name, s.put(ctx, name, data, minio.PutObjectOptions{}))
}

func (s *S3) Create(ctx context.Context, name string, data []byte) error {
	var o minio.PutObjectOptions
	o.SetMatchETagExcept("*") // If-None-Match
	o.DisableMultipart = true // the completion of an upload in parts would not carry it
	err := s.put(ctx, name, data, o)
	if code := status(err); err != nil && (code == http.StatusPreconditionFailed || code == 0 && s.exists(ctx, name)) {
		err = ErrExists
	}
	return explain(s, "create", name, err)
}

// exists reports whether there is an object of that name, after a request to create it had no response: a service may
// refuse one before it has read all of it, and end the connection.
func (s *S3) exists(ctx context.Context, name string) bool {
	_, err := s.client.StatObject(ctx, s.config.Bucket, s.config.Prefix+name, minio.StatObjectOptions{})
	return err == nil
}

func (s *S3) put(ctx context.Context, name string, data []byte, o minio.PutObjectOptions) error {
	o.PartSize, o.ContentType = partSize, "application/octet-stream"
	_, err := s.client.PutObject(ctx, s.config.Bucket, s.config.Prefix+name, bytes.NewReader(data), int64(len(data)), o)
	return err
}

func (s *S3) Get(ctx context.Context, name string, max int64) (data []byte, err error) {
	for range retries { // the client does not retry what is cut off after the response has begun
		if data, err = s.get(ctx, name, max); err == nil || ctx.Err() != nil || status(err) != 0 {
			break
		}
	}
	if missing(err) {
		err = ErrNotFound
	}
	return data, explain(s, "read", name, err)
}

func (s *S3) get(ctx context.Context, name string, max int64) ([]byte, error) {
	object, err := s.client.GetObject(outbound.Allow(ctx, max+1), s.config.Bucket, s.config.Prefix+name,
		minio.GetObjectOptions{})
	if err != nil {
		return nil, err
	}
	defer object.Close()
	return readAll(object, max)
}

func (s *S3) List(ctx context.Context, prefix string, fn func(name string) error) error {
	ctx, cancel := context.WithCancel(ctx) // ends the listing if fn fails
	defer cancel()
	for object := range s.client.ListObjectsIter(ctx, s.config.Bucket, minio.ListObjectsOptions{
		Prefix: s.config.Prefix + prefix, Recursive: true}) {
		err := object.Err
		if err == nil {
			err = fn(strings.TrimPrefix(object.Key, s.config.Prefix))
		}
		if err != nil {
			return explain(s, "list", prefix, err)
		}
	}
	return nil
}

func (s *S3) Delete(ctx context.Context, name string) error {
	err := s.client.RemoveObject(ctx, s.config.Bucket, s.config.Prefix+name, minio.RemoveObjectOptions{})
	if missing(err) {
		err = nil
	}
	return explain(s, "delete", name, err)
}

// missing reports whether a service said that there is no such object. It may answer 404 for other reasons, too.
func missing(err error) bool {
	refusal, ok := errors.AsType[minio.ErrorResponse](err)
	return ok && refusal.Code == minio.NoSuchKey
}

// skewed reports whether a service refused a signature because of its time.
func skewed(err error) bool {
	refusal, ok := errors.AsType[minio.ErrorResponse](err)
	return ok && refusal.Code == minio.RequestTimeTooSkewed
}

// status is the HTTP status of a refusal, 0 for any other error.
func status(err error) int {
	if refusal, ok := errors.AsType[minio.ErrorResponse](err); ok {
		return refusal.StatusCode
	}
	return 0
}

// Refused reports whether a service refused what was asked: trying again does not help.
func Refused(err error) bool {
	code := status(err)
	return code >= 400 && code < 500 && code != http.StatusRequestTimeout && code != http.StatusTooManyRequests
}

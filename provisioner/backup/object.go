package backup

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
	"github.com/tink-crypto/tink-go/v2/streamingaead/subtle"

	"mysql-broker/provisioner/backup/objectstore"
)

const (
	keyBytes     = 32
	segmentBytes = 1 << 20 // of what is encrypted at a time
	// objectBytes is about how large objects are. Each worker has one in memory.
	objectBytes = 4 << 20
	// plainBytes limits what an object holds, however well it compresses.
	plainBytes = 32 << 20
	// longStatement is a length: three statements of it take more than the memory that every worker has.
	longStatement = 2 << 20
	// partBytes is how much SQL a part has at least, except the last one of a worker.
	partBytes = 16 << 20
	// windowBytes is how far back compression looks.
	windowBytes = 1 << 20
)

func newKey() []byte {
	key := make([]byte, keyBytes)
	rand.Read(key) // never fails
	return key
}

// newCipher returns Tink's AES256-GCM-HKDF-1MB.
// https://developers.google.com/tink/streaming-aead/aes_gcm_hkdf_streaming
func newCipher(key []byte) (*subtle.AESGCMHKDF, error) {
	return subtle.NewAESGCMHKDF(key, "SHA256", keyBytes, segmentBytes, 0)
}

// place binds an object to its backup: it cannot be decrypted under another name.
func place(instanceID, id, object string) []byte {
	return fmt.Appendf(nil, "%q %q %q", instanceID, id, object)
}

// sealer compresses and encrypts one object after the other.
type sealer struct {
	cipher     *subtle.AESGCMHKDF
	compressor *zstd.Encoder
	buffer     bytes.Buffer
	encrypted  io.WriteCloser // of the present object, nil for none
	plain      int64          // bytes in it
}

func newSealer(key []byte) (*sealer, error) {
	cipher, err := newCipher(key)
	if err != nil {
		return nil, err
	}
	compressor, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
		zstd.WithWindowSize(windowBytes), zstd.WithLowerEncoderMem(true))
	return &sealer{cipher: cipher, compressor: compressor}, err
}

func (s *sealer) begin(place []byte) (err error) {
	s.buffer.Reset()
	s.plain = 0
	if s.encrypted, err = s.cipher.NewEncryptingWriter(&s.buffer, place); err != nil {
		return err
	}
	s.compressor.Reset(s.encrypted)
	return nil
}

func (s *sealer) Write(p []byte) (int, error) {
	s.plain += int64(len(p))
	return s.compressor.Write(p)
}

// full reports whether the object is large enough.
func (s *sealer) full() bool { return s.buffer.Len() >= objectBytes || s.plain >= plainBytes }

// end completes the object. The data is valid until the next one begins.
func (s *sealer) end() ([]byte, error) {
	err := errors.Join(s.compressor.Close(), s.encrypted.Close())
	s.encrypted = nil
	return s.buffer.Bytes(), err
}

// sealAll compresses and encrypts v as JSON, as one object.
func sealAll(key, place []byte, v any) ([]byte, error) {
	s, err := newSealer(key)
	if err != nil {
		return nil, err
	}
	if err := s.begin(place); err != nil {
		return nil, err
	}
	err = json.NewEncoder(s).Encode(v)
	data, ending := s.end()
	return data, errors.Join(err, ending)
}

func describe(name string, data []byte) object {
	sum := sha256.Sum256(data)
	return object{Name: name, Bytes: int64(len(data)), SHA256: hex.EncodeToString(sum[:])}
}

// read reads an object of a backup and calls fn with what was written.
func (v Vault) read(ctx context.Context, m Manifest, o object, fn func(io.Reader) error) error {
	name := folder(m.InstanceID, m.ID) + o.Name
	data, err := v.Objects.Get(ctx, name, o.Bytes)
	if errors.Is(err, objectstore.ErrNotFound) {
		return v.missing(ctx, m, name)
	}
	if errors.Is(err, objectstore.ErrTooLarge) {
		return &DamagedError{name, err}
	}
	if err != nil {
		return err
	}
	if found := describe(o.Name, data); found.Bytes != o.Bytes || found.SHA256 != o.SHA256 {
		return &DamagedError{name, errors.New("its checksum is not that of the manifest")}
	}
	return v.decrypt(data, m.key, name, place(m.InstanceID, m.ID, o.Name), fn)
}

// missing explains that an object is not there: the backup is damaged, unless it has been deleted meanwhile.
func (v Vault) missing(ctx context.Context, m Manifest, name string) error {
	if _, err := v.Manifest(ctx, m.InstanceID, m.ID); err != nil {
		return err
	}
	return &DamagedError{name, errors.New("it is missing")}
}

// decrypt calls fn with what was written to an object of that name and place.
func (v Vault) decrypt(data, key []byte, name string, place []byte, fn func(io.Reader) error) error {
	cipher, err := newCipher(key)
	if err != nil {
		return err
	}
	decrypted, err := cipher.NewDecryptingReader(bytes.NewReader(data), place)
	if err != nil {
		return &DamagedError{name, err}
	}
	plain, err := zstd.NewReader(decrypted, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(8*windowBytes))
	if err != nil {
		return &DamagedError{name, err}
	}
	defer plain.Close()
	return fn(plain)
}

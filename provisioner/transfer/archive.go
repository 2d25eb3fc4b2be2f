package transfer

import "context"

// Schema is all of a database but its rows. It can be encoded as JSON.
type Schema struct {
	Version string  `json:"version,omitempty"` // of the server
	Tables  []table `json:"tables"`            // and sequences
	programSet
}

// Chunk is a part of a table, in a dump: the rows whose key is greater than one literal and not greater than another.
type Chunk struct {
	Table string `json:"table"`
	From  string `json:"from,omitempty"` // "" for no limit
	To    string `json:"to,omitempty"`
	Sum   string `json:"sum"` // the number of its rows, a space, and their checksum
}

// Part is some chunks of a dump.
type Part struct {
	Chunks []Chunk

	// Read calls fn with the statements that insert rows, chunk after chunk. It may be called again. A chunk without rows
	// has none. The bytes are valid until fn returns.
	Read func(ctx context.Context, fn func(chunk int, statement []byte) error) error
}

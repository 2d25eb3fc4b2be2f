package transfer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// Schema is all of a database but its rows. It can be encoded as JSON.
type Schema struct {
	Version  string // of the server
	tables   []table
	programs programSet
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

type schemaDocument struct {
	Version   string            `json:"version,omitempty"`
	Database  string            `json:"database,omitempty"`
	Collation string            `json:"collation"`
	Comment   string            `json:"comment,omitempty"`
	Tables    []tableDocument   `json:"tables"`
	Views     []programDocument `json:"views"`
	Libraries []programDocument `json:"libraries,omitempty"`
	Routines  []programDocument `json:"routines"`
	Triggers  []programDocument `json:"triggers"`
	Events    []programDocument `json:"events"`
}

type tableDocument struct {
	Name      string           `json:"name"`
	Create    string           `json:"create"`
	Sequence  bool             `json:"sequence,omitempty"`
	Next      string           `json:"next,omitempty"`
	Round     string           `json:"round,omitempty"`
	Versioned bool             `json:"versioned,omitempty"`
	Columns   []columnDocument `json:"columns"`
	Key       string           `json:"key,omitempty"`
	Bytes     uint64           `json:"bytes"`
}

type columnDocument struct {
	Name     string `json:"name"`
	Kind     string `json:"kind"`
	Charset  string `json:"charset,omitempty"`
	Nullable bool   `json:"nullable,omitempty"`
	Numbered bool   `json:"numbered,omitempty"`
	Stored   bool   `json:"stored,omitempty"`
}

type programDocument struct {
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	Text       []byte `json:"text"` // in the character set in which it was created
	SQLMode    string `json:"sql_mode"`
	Client     string `json:"character_set_client"`
	Connection string `json:"collation_connection"`
	Database   string `json:"collation_database"`
	TimeZone   string `json:"time_zone,omitempty"`
	Broken     string `json:"broken,omitempty"` // why the server cannot open the view
}

// MarshalJSON implements json.Marshaler.
func (s Schema) MarshalJSON() ([]byte, error) {
	p := s.programs
	d := schemaDocument{Version: s.Version, Database: p.database, Collation: p.collation, Comment: p.comment,
		Views: documents(p.views), Libraries: documents(p.libraries), Routines: documents(p.routines),
		Triggers: documents(p.triggers), Events: documents(p.events)}
	for _, t := range s.tables {
		td := tableDocument{Name: t.name, Create: t.create, Sequence: t.sequence, Next: t.next, Round: t.round,
			Versioned: t.versioned, Bytes: t.bytes}
		if t.key != nil {
			td.Key = t.key.name
		}
		for _, c := range t.columns {
			td.Columns = append(td.Columns, columnDocument{c.name, c.kind, c.charset, c.nullable, c.numbered, c.stored})
		}
		d.Tables = append(d.Tables, td)
	}
	return json.Marshal(d)
}

// UnmarshalJSON implements json.Unmarshaler.
func (s *Schema) UnmarshalJSON(raw []byte) error {
	var d schemaDocument
	if err := json.Unmarshal(raw, &d); err != nil {
		return err
	}
	*s = Schema{Version: d.Version, programs: programSet{views: programs(d.Views), libraries: programs(d.Libraries),
		routines: programs(d.Routines), triggers: programs(d.Triggers), events: programs(d.Events), database: d.Database,
		collation: d.Collation, comment: d.Comment}}
	for _, td := range d.Tables {
		t := table{name: td.Name, create: td.Create, sequence: td.Sequence, next: td.Next, round: td.Round,
			versioned: td.Versioned, bytes: td.Bytes}
		for _, c := range td.Columns {
			t.columns = append(t.columns, column{name: c.Name, kind: c.Kind, charset: c.Charset, nullable: c.Nullable,
				numbered: c.Numbered, stored: c.Stored})
		}
		if td.Key != "" {
			at := slices.IndexFunc(t.columns, func(c column) bool { return c.name == td.Key })
			if at < 0 {
				return fmt.Errorf("table %q has no column %q", td.Name, td.Key)
			}
			t.key = &t.columns[at]
		}
		s.tables = append(s.tables, t)
	}
	return nil
}

func documents(list []program) (all []programDocument) {
	for _, p := range list {
		d := programDocument{p.kind, p.name, p.text, p.sqlMode, p.client, p.connection, p.database, p.timeZone, ""}
		if p.broken != nil {
			d.Broken = p.broken.Error()
		}
		all = append(all, d)
	}
	return all
}

func programs(list []programDocument) (all []program) {
	for _, d := range list {
		p := program{kind: d.Kind, name: d.Name, text: d.Text, sqlMode: d.SQLMode, client: d.Client,
			connection: d.Connection, database: d.Database, timeZone: d.TimeZone}
		if d.Broken != "" {
			p.broken = errors.New(d.Broken)
		}
		all = append(all, p)
	}
	return all
}

// Tables is the number of tables and sequences.
func (s Schema) Tables() int { return len(s.tables) }

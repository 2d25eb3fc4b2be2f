package kubernetes

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A note that is too long for a Secret is divided into parts, which have Secrets of their own. Each time it is written,
// they are a new set. The set before stays until the next time, for brokers that are reading it.

// Keys of a note that is or was divided, and of a part.
const (
	partsKey = "parts" // noteParts
	partKey  = "part"
)

// noteParts says where the parts of a note are.
type noteParts struct {
	Writes  int       `json:"writes"`            // how often the note was written, so that no two writes are the same
	Current string    `json:"current,omitempty"` // the set that has the content; "" if the note itself has it
	Sum     string    `json:"sum,omitempty"`     // SHA-256 of that content, compressed
	Sets    []partSet `json:"sets,omitempty"`    // all that may be there
}

type partSet struct {
	ID    string `json:"id"`
	Parts int    `json:"parts"`
}

var errDamaged = errors.New("its parts do not fit together")

// readParts returns the zero value if a note is not divided.
func readParts(note secret) (p noteParts, err error) {
	if text, ok := note.Data[partsKey]; ok {
		if err := json.Unmarshal(text, &p); err != nil {
			return p, fmt.Errorf("the Secret %s: %w", note.Metadata.Name, err)
		}
	}
	return p, nil
}

func partName(note, set string, part int) string { return fmt.Sprintf("%s.%s.%d", note, set, part) }

func sumOf(compressed []byte) string { return fmt.Sprintf("%x", sha256.Sum256(compressed)) }

// writeParts replaces a note that is divided, or is to be. data is what the note itself has then, and rest what is
// divided. It records a set before it writes the first part, so that the next write removes what a broker left behind
// that was killed. If two brokers write at the same time, one of them fails.
func (l *Launcher) writeParts(ctx context.Context, name string, former secret, before noteParts, data map[string][]byte,
	rest []byte) error {
	next := noteParts{Writes: before.Writes + 2}
	var added []partSet
	if rest != nil {
		next.Current, next.Sum = strings.ToLower(rand.Text()[:10]), sumOf(rest)
		added = []partSet{{ID: next.Current, Parts: (len(rest) + notePart - 1) / notePart}}
	}
	version := former.Metadata.ResourceVersion
	if version != "" {
		begun := before
		begun.Writes, begun.Sets = before.Writes+1, slices.Concat(before.Sets, added)
		var err error
		if version, err = l.replaceNote(ctx, name, version, former.Data, begun); err != nil {
			return err
		}
	}
	for _, set := range before.Sets {
		if set.ID == before.Current {
			next.Sets = append(next.Sets, set)
		} else if err := l.deleteParts(ctx, name, set); err != nil {
			return err
		}
	}
	next.Sets = append(next.Sets, added...)
	part := 0
	for chunk := range slices.Chunk(rest, notePart) {
		of := partName(name, next.Current, part)
		err := l.api.create(ctx, l.api.path(secrets), noteSecret(of, map[string][]byte{partKey: chunk}), nil)
		if err != nil && !isConflict(err) { // else the response to a first attempt was lost
			return err
		}
		part++
	}
	_, err := l.replaceNote(ctx, name, version, data, next)
	if isConflict(err) {
		return errors.Join(err, l.dropParts(ctx, name, added))
	}
	return err
}

// dropParts removes sets that another broker does not know, because it has replaced the note.
func (l *Launcher) dropParts(ctx context.Context, name string, sets []partSet) error {
	var note secret
	if err := l.api.get(ctx, notePath(l.api, name), &note); err != nil {
		return err
	}
	known, err := readParts(note)
	if err != nil {
		return err
	}
	for _, set := range sets {
		if !slices.Contains(known.Sets, set) {
			err = errors.Join(err, l.deleteParts(ctx, name, set))
		}
	}
	return err
}

// replaceNote replaces the Secret of a note if it still has that version, and returns the next one.
func (l *Launcher) replaceNote(ctx context.Context, name, version string, data map[string][]byte,
	parts noteParts) (string, error) {
	data = maps.Clone(data)
	delete(data, partsKey)
	if len(parts.Sets) > 0 {
		text, err := json.Marshal(parts)
		if err != nil {
			return "", err
		}
		data[partsKey] = text
	}
	note := noteSecret(name, data)
	note.Metadata.ResourceVersion = version
	var replaced secret
	if err := l.api.apply(ctx, notePath(l.api, name), note, &replaced); err != nil {
		return "", err
	}
	return replaced.Metadata.ResourceVersion, nil
}

func (l *Launcher) deleteParts(ctx context.Context, name string, set partSet) error {
	for part := range set.Parts {
		err := l.api.delete(ctx, notePath(l.api, partName(name, set.ID, part)), deleteOptions{})
		if err != nil && !isNotFound(err) {
			return err
		}
	}
	return nil
}

// readRest returns what is divided of a note, or errDamaged.
func (l *Launcher) readRest(ctx context.Context, name string, note secret) ([]byte, error) {
	parts, err := readParts(note)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(parts.Sets, func(s partSet) bool { return s.ID == parts.Current })
	if i < 0 {
		return nil, errDamaged
	}
	var all []byte
	for number := range parts.Sets[i].Parts {
		var part secret
		err := l.api.get(ctx, notePath(l.api, partName(name, parts.Current, number)), &part)
		if isNotFound(err) {
			return nil, errDamaged
		}
		if err != nil {
			return nil, err
		}
		all = append(all, part.Data[partKey]...)
	}
	if sumOf(all) != parts.Sum {
		return nil, errDamaged
	}
	return all, nil
}

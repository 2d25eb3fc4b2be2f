package dedicated

import (
	"context"
	"fmt"
	"time"
)

// answerTimeout bounds how long Answers waits.
const answerTimeout = 5 * time.Second

// List names every server that was launched, or begun to be, and is not destroyed.
func (s *Servers) List(ctx context.Context) ([]string, error) {
	ids, err := s.launcher.List(ctx)
	if err != nil {
		return nil, fmt.Errorf("list the dedicated servers: %w", err)
	}
	return ids, nil
}

// Starting says whether the server is being started, so that it need not answer yet.
func (s *Servers) Starting(id string) bool { return s.launcher.Starting(id) }

// Answers reports an error if the server does not let its administrator in soon.
func (s *Servers) Answers(ctx context.Context, id, adminPassword string) error {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	admin, err := s.Open(ctx, id, adminPassword)
	if err != nil {
		return err
	}
	defer admin.Close()
	return admin.Ping(ctx)
}

// WriteNote keeps a note beside the servers: see launcher.Launcher.
func (s *Servers) WriteNote(ctx context.Context, name string, content []byte) error {
	return s.launcher.WriteNote(ctx, name, content)
}

// ReadNote returns a note, or nil if there is none of that name.
func (s *Servers) ReadNote(ctx context.Context, name string) ([]byte, error) {
	return s.launcher.ReadNote(ctx, name)
}

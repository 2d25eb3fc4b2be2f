// Package logging is the log of a broker that serves: JSON lines that cost a request next to nothing.
package logging

import (
	"context"
	"io"
	"log/slog"
)

// New returns a logger of JSON lines. Those below slog.LevelWarn are written in the background, without delay but
// possibly after the call; the others are written, and all before them, when the call returns, so that they are not
// lost if the process dies of what they tell. finish has to be called before the process ends: it returns when
// everything is written. Lines logged after it are written at once.
func New(to io.Writer, level slog.Leveler) (log *slog.Logger, finish func()) {
	w := newWriter(to)
	json := slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level})
	return slog.New(handler{json, w}), w.close
}

type handler struct {
	slog.Handler
	lines *writer
}

// Handle implements slog.Handler.
func (h handler) Handle(ctx context.Context, r slog.Record) error {
	err := h.Handler.Handle(ctx, r)
	if r.Level >= slog.LevelWarn {
		h.lines.flush()
	}
	return err
}

// WithAttrs implements slog.Handler.
func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return handler{h.Handler.WithAttrs(attrs), h.lines}
}

// WithGroup implements slog.Handler.
func (h handler) WithGroup(name string) slog.Handler {
	return handler{h.Handler.WithGroup(name), h.lines}
}

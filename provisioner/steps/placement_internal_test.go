package steps

import (
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"mysql-broker/provisioner/engine"
	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/provisioner/plan"
)

// Why no server took a database, from the reason that helps most.
func TestNoPlacement(t *testing.T) {
	t.Parallel()
	down := errors.New("connection refused")
	foreign := &FlavourError{Of: mysqladmin.Flavour{}}
	charset := &mysqladmin.CharsetError{Parameter: "charset", Reason: "is unknown"}
	full := 0
	on := New(&engine.Engine{Log: slog.New(slog.DiscardHandler)}, nil, func() { full++ }, false)
	for what, test := range map[string]struct {
		Search
		code  engine.Code
		words string
	}{
		"all are full":                     {Search{}, engine.Full, "no room"},
		"all of an exclusive plan":         {Search{Plan: plan.Plan{Exclusive: true}}, engine.Full, "Every server of this plan is taken"},
		"the rest cannot be used":          {Search{unusable: down}, engine.Unavailable, "just now"},
		"the rest is of another flavour":   {Search{foreign: foreign}, engine.Invalid, "Choose another plan. From MySQL to MariaDB, or back, load a dump of mysqldump"},
		"one is down, one another flavour": {Search{foreign: foreign, unusable: down}, engine.Unavailable, "just now"},
		"none has the character set":       {Search{refused: charset, unusable: down, foreign: foreign}, engine.Invalid, `"charset" is unknown.`},
	} {
		test.Servers = on
		err := test.Failure()
		refusal, refused := errors.AsType[*engine.Error](err)
		assert.True(t, refused && refusal.Code == test.code && strings.Contains(refusal.Sentence, test.words),
			"%s: %v", what, err)
	}
	assert.Equal(t, 2, full, "full servers were counted %d times", full)
	err := (&Search{failed: down}).Failure()
	assert.True(t, err == down, "PostgreSQL does not answer: %v", err)
}

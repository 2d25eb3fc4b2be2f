package app

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"mysql-broker/provisioner/doctor"
)

// Records are deleted without an order of an operator, so the log says when.
func TestExaminationsTellOfDeletedRecords(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	e := &examinations{log: slog.New(slog.NewTextHandler(&log, nil))}
	e.record(doctor.Report{})
	assert.True(t, log.Len() <= 0, "with none deleted, the log has %q", &log)
	e.record(doctor.Report{Forgotten: 3})
	line := log.String()
	assert.True(t, strings.Contains(line, "level=INFO") && strings.Contains(line, "count=3"),
		"with 3 deleted, the log has %q", line)
}

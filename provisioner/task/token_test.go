package task_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"mysql-broker/provisioner/task"
)

// A token is refused, or is the one that Token makes for its task.
func FuzzParseToken(f *testing.F) {
	for _, seed := range []string{
		"", "task_", "task_0", "task_1", "task_-1", "task_+1", "task_01", "task_1 ", "Task_1", "task_9223372036854775807",
		"task_9223372036854775808", "task_1\x00", "task_\u0661", "provision", "task_1e1", "task_0x1",
	} {
		f.Add(seed, int64(1))
	}
	f.Fuzz(func(t *testing.T, token string, id int64) {
		parsed, ok := task.ParseToken(token)
		assert.False(t, ok && (parsed <= 0 || task.Token(parsed) != token), "%q was taken for task %d", token, parsed)
		parsed, ok = task.ParseToken(task.Token(id))
		assert.False(t, ok != (id > 0) || ok && parsed != id, "task %d came back as %d, %t", id, parsed, ok)
	})
}

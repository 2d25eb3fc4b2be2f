package task

import (
	"strconv"
	"strings"
)

const tokenPrefix = "task_"

// Token returns the name by which platforms know a task: the operation of an asynchronous response. It is safe in a
// URL.
func Token(id int64) string { return tokenPrefix + strconv.FormatInt(id, 10) }

// ParseToken is the reverse of Token.
func ParseToken(token string) (id int64, ok bool) {
	digits, ok := strings.CutPrefix(token, tokenPrefix)
	if !ok {
		return 0, false
	}
	id, err := strconv.ParseInt(digits, 10, 64)
	return id, err == nil && id > 0 && Token(id) == token
}

package binlog

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestZoned has expressions as servers print them.
func TestZoned(t *testing.T) {
	t.Parallel()
	c := columns{"A": "TIME", "B": "TIME", "D": "DATETIME", "DAY": "DATE", "S": "TIMESTAMP", "N": "INT", "DATE": "INT"}
	for expression, want := range map[string]bool{
		"VARCHAR concat(`a`,`day`)":                                       false,
		"VARCHAR concat(year(`day`),_utf8mb4' ',`a`)":                     false,
		"VARCHAR concat_ws(' ',`day`,`a`)":                                false,
		"DATETIME timestamp(`day`,`a`)":                                   false,
		"DATETIME timestamp(`day`,coalesce(`a`,'01:00'))":                 false,
		"DATETIME addtime(cast(`day` as datetime),`a`)":                   false,
		"DATETIME if((`a` is null),`day`,timestamp(`day`,`a`))":           false,
		"DATETIME if(`a` is null,`day`,timestamp(`day`,`a`))":             false,
		"DATETIME (`day` + interval `a` hour_second)":                     false,
		"DATETIME `day` + interval time_to_sec(`a`) second":               false,
		"DATETIME str_to_date(concat(`day`,' ',`a`),'%Y-%m-%d %H:%i:%s')": false,
		"INT extract(hour from `a`) + year(`day`)":                        false,
		"INT timestampdiff(MINUTE,`a`,`b`)":                               false,
		"INT ((to_days(`day`) * 24) + hour(`a`))":                         false,
		"INT if(`a` < '12:00',`date`,`n`)":                                false,
		"VARCHAR cast(`a` as char charset utf8mb3)":                       false,
		"TIME addtime(`a`,`b`)":                                           false,
		"VARCHAR concat('a',`day`)":                                       false,
		"DATE `a`":                                                        true,
		"DATETIME coalesce(`a`,`b`)":                                      true,
		"DATETIME coalesce(`a`,`d`)":                                      true,
		"INT `a` < `d`":                                                   true,
		"INT if(`a` < `d`,1,2)":                                           true,
		"INT hour(`a` + interval 1 day)":                                  true,
		"VARCHAR concat(`a` < `d`)":                                       true,
		"VARCHAR concat(cast(`a` as date))":                               true,
		"VARCHAR concat('x\\'y',cast(addtime(`a`,`b`) as datetime))":      true,
		"INT dayofmonth(`a`)":                                             true,
		"INT dayofmonth((`a`))":                                           true,
		"INT extract(day from `a`)":                                       true,
		"INT timestampdiff(DAY,`a`,`b`)":                                  true,
		"INT timestampdiff(MINUTE,`a`,`d`)":                               true,
		"DATETIME timestamp(`a`,`b`)":                                     true,
		"DATETIME convert_tz(`a`,'+00:00','+01:00')":                      true,
		"DATETIME (`a` + interval 1 day)":                                 true,
		"VARCHAR concat(`a`,date_format(`b`,'%Y'))":                       true,
		"VARCHAR concat(\"day\",\" \",year(\"a\"))":                       true,
		"TIMESTAMP `d`":                                                   true,
		"INT hour(`s`)":                                                   true,
		"INT unix_timestamp(`d`)":                                         true,
	} {
		kind, rest, _ := strings.Cut(expression, " ")
		assert.Equal(t, want, c.zoned(kind, tokens(rest, 0, 0)), expression)
	}
}

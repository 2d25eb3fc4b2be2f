package launchers_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"mysql-broker/provisioner/launcher/launchers"
	"mysql-broker/provisioner/launcher/process"
)

func TestConfigure(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		chosen string
		env    map[string]string
		want   string // names and kinds
		says   []string
	}{
		"none": {chosen: "none"},
		"one":  {chosen: "process", want: "process=process 13400-13999"},
		"one with a variable": {chosen: "process", env: map[string]string{"LAUNCHER_PORTS": "1000-1001"},
			want: "process=process 1000-1001"},
		"one with a name": {chosen: " zone-1=process ", env: map[string]string{"LAUNCHER_PORTS": "1000-1001"},
			want: "zone-1=process 1000-1001"},
		"two": {chosen: "near=process, far-away=process", want: "near=process 1-2, far-away=process 3-4",
			env: map[string]string{"LAUNCHER_NEAR_PORTS": "1-2", "LAUNCHER_FAR_AWAY_PORTS": "3-4", "LAUNCHER_FAR_AWAY_DIR": "/far"}},
		"nothing":          {chosen: "", says: []string{`there is no kind ""`}},
		"an unknown kind":  {chosen: "near=docker", says: []string{`there is no kind "docker"`, "none, process, kubernetes"}},
		"a name too long":  {chosen: "z" + strings.Repeat("o", 32) + "=process", says: []string{"up to 32"}},
		"a name too short": {chosen: "=process", says: []string{`the name ""`}},
		"upper case":       {chosen: "Near=process", says: []string{`the name "Near"`}},
		"twice the same": {chosen: "process,process", want: "process=process 13400-13999",
			says: []string{`two launchers "process"`}},
		"all mistakes at once": {chosen: "near=process,far=process,1=process", env: map[string]string{"LAUNCHER_NEAR_PORTS": "x",
			"LAUNCHER_FAR_PORTS": "y", "LAUNCHER_PORTS": "1-2"}, want: "near=process 0-0, far=process 0-0",
			says: []string{"LAUNCHER_NEAR_PORTS is not a range", "LAUNCHER_FAR_PORTS is not a range", `the name "1"`,
				"LAUNCHER_PORTS has no effect", "LAUNCHER_ZONE_1_PORTS"}},
		"the same ports": {chosen: "near=process,far=process", want: "near=process 13400-13999, far=process 13400-13999",
			says: []string{"the launchers near and far cannot be used side by side"}},
	} {
		all, err := launchers.Configure(test.chosen, func(name string) string { return test.env[name] })
		var got []string
		for _, n := range all {
			c, _ := n.Configured.(process.Config)
			got = append(got, fmt.Sprintf("%s=%s %d-%d", n.Name, n.Kind, c.PortMin, c.PortMax))
		}
		assert.Equal(t, test.want, strings.Join(got, ", "), "%s: %q", name, got)
		assert.Equal(t, test.says != nil, err != nil, "%s: %v", name, err)
		for _, says := range test.says {
			assert.ErrorContains(t, err, says, name)
		}
	}
}

package catalog

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/plan"
)

func TestPlacement(t *testing.T) {
	t.Parallel()
	c, err := Parse("c.yml", []byte(replaceLine(31, `      memory_mb: 192
      milli_cpu: 250
      node: own
      storage_class: fast.example.com
      tolerations: [{key: mysql, value: own, effect: NoSchedule}, {operator: Exists}]
      labels: {example.com/team: data}
      annotations: {note: any text}`)))
	require.NoError(t, err)
	got := c.Plans().Get("q")
	want := &plan.Placement{OwnNode: true, StorageClass: "fast.example.com",
		Tolerations: []plan.Toleration{{Key: "mysql", Operator: "Equal", Value: "own", Effect: "NoSchedule"},
			{Operator: "Exists"}},
		Labels: map[string]string{"example.com/team": "data"}, Annotations: map[string]string{"note": "any text"}}
	assert.True(t, got.MilliCPU == 250 && reflect.DeepEqual(got.Placement, want),
		"the plan has %+v, %+v", got, got.Placement)
	p := c.Plans().Get("p")
	assert.Nil(t, p.Placement, "a plan that says nothing has %+v", p.Placement)
}

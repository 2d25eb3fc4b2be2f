package catalog

import (
	"reflect"
	"testing"

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
	if err != nil {
		t.Fatal(err)
	}
	got := c.Plans().Get("q")
	want := &plan.Placement{OwnNode: true, StorageClass: "fast.example.com",
		Tolerations: []plan.Toleration{{Key: "mysql", Operator: "Equal", Value: "own", Effect: "NoSchedule"},
			{Operator: "Exists"}},
		Labels: map[string]string{"example.com/team": "data"}, Annotations: map[string]string{"note": "any text"}}
	if got.MilliCPU != 250 || !reflect.DeepEqual(got.Placement, want) {
		t.Errorf("the plan has %+v, %+v", got, got.Placement)
	}
	if p := c.Plans().Get("p"); p.Placement != nil {
		t.Errorf("a plan that says nothing has %+v", p.Placement)
	}
}

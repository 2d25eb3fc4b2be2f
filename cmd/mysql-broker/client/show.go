package client

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	"code.cloudfoundry.org/brokerapi/v13/domain"
)

// view is an instance in the output of --json.
type view struct {
	Name string `json:"name"`
	*instance
	Storage     storage `json:"storage,omitzero"`
	Bindings    int     `json:"bindings,omitempty"`
	MaxBindings int     `json:"max_bindings,omitempty"`
}

func (s *session) services(ctx context.Context, _ []string) error {
	all, err := s.inventory.all()
	if err != nil {
		return err
	}
	views := []view{}
	rows := [][]string{{"name", "offering", "plan", "keys", "last operation", "message"}}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		in := all[name]
		gone, err := s.refresh(ctx, name, in)
		if err != nil {
			return err
		}
		if gone {
			continue
		}
		views = append(views, view{Name: name, instance: in})
		keys := strconv.Itoa(len(in.Keys))
		rows = append(rows, []string{name, in.Plan.Offering, in.Plan.Name, keys, in.Last.String(), in.Last.Description})
	}
	if s.json {
		return s.printJSON(views)
	}
	if len(views) == 0 {
		return s.report("No service instances at "+s.inventory.url, nil)
	}
	return s.printTable(rows)
}

func (s *session) service(ctx context.Context, args []string) error {
	name := args[0]
	in, err := s.inventory.instance(name)
	if err != nil {
		return err
	}
	gone, err := s.refresh(ctx, name, in)
	if err != nil {
		return err
	}
	if gone {
		return s.report("Service instance "+name+" is deleted", view{Name: name, instance: in})
	}
	reported, err := s.attributes(ctx, in)
	if err != nil {
		return err
	}
	if s.json {
		return s.printJSON(view{Name: name, instance: in, Storage: reported.storage, Bindings: reported.Bindings,
			MaxBindings: reported.MaxBindings})
	}
	rows := [][]string{
		{"name:", name},
		{"guid:", in.GUID},
		{"offering:", in.Plan.Offering},
		{"plan:", in.Plan.Name},
		{"last operation:", in.Last.String()},
		{"message:", in.Last.Description},
		{"storage:", reported.storage.String()},
		{"", reported.Message},
		{"bindings:", reported.bindings()},
		{"dashboard:", in.Dashboard},
		{"keys:", strings.Join(slices.Sorted(maps.Keys(in.Keys)), ", ")},
	}
	return s.printTable(slices.DeleteFunc(rows, func(row []string) bool { return row[1] == "" }))
}

// refresh polls operations that an earlier run of the client left, and stores their states. If a delete has succeeded,
// the instance is removed.
func (s *session) refresh(ctx context.Context, name string, in *instance) (gone bool, err error) {
	for keyName, k := range in.Keys {
		if err := s.pollOnce(ctx, s.keyWork("", name, keyName, in, k)); err != nil {
			return false, err
		}
	}
	if err := s.pollOnce(ctx, s.work("", name, in)); err != nil {
		return false, err
	}
	return in.Last.Kind == remove && in.Last.State == domain.Succeeded, nil
}

func (s *session) pollOnce(ctx context.Context, w work) error {
	if w.op.State != domain.InProgress {
		return nil
	}
	asked := *w.op
	if _, _, err := s.poll(ctx, w); err != nil {
		return err
	}
	return s.inventory.lock(func() error {
		stored, err := s.inventory.operation(w.path)
		switch {
		case err != nil || stored == nil:
			return err
		case *stored != asked: // by the client that sent the request, which may not have had a response yet
			*w.op = *stored
			return nil
		}
		return w.save()
	})
}

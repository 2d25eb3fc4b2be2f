package fair_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"

	"mysql-broker/provisioner/fair"
)

// One organization takes all that it can get, and asks for more. Another one gets a slot at once, and the next free one
// goes to who has the fewest.
func TestSlotsGoRoundByOrganization(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancel(t.Context())
		slots, holding := fair.NewSlots(4), map[string][]func(){}
		given := make(chan string, 20)
		take := func(organization string) {
			go func() {
				free, err := slots.Take(ctx, organization)
				if err != nil {
					given <- "nothing: " + err.Error()
					return
				}
				holding[organization] = append(holding[organization], free)
				given <- organization
			}()
			synctest.Wait()
		}
		got := func(want ...string) {
			t.Helper()
			synctest.Wait()
			for _, w := range want {
				select {
				case g := <-given:
					assert.Equal(t, w, g, "%q got a slot", g)
				default:
					t.Errorf("nobody got a slot, want %q", w)
				}
			}
			if len(given) > 0 {
				t.Errorf("%q got a slot, too", <-given)
			}
		}
		free := func(organization string) {
			release := holding[organization][0]
			holding[organization] = holding[organization][1:] // before who gets the slot is recorded
			release()
		}
		for range 10 {
			take("greedy")
		}
		got("greedy", "greedy", "greedy")
		take("other")
		got("other")
		take("other")
		take("third")
		take("")
		got()
		free("greedy")
		got("third") // not one of those that came first
		free("greedy")
		got("")
		free("")
		got("greedy") // which holds as many as the others, and has waited longest
		end()
		synctest.Wait()
		for range 7 {
			assert.Equal(t, "nothing: "+context.Canceled.Error(), <-given)
		}
		_, err := slots.Take(ctx, "late")
		assert.ErrorIs(t, err, context.Canceled)
	})
}

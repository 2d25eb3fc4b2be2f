package model

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/assert"
)

// phase is where an instance is in its life.
type phase string

const (
	absent   phase = "absent"
	creating phase = "creating"
	ready    phase = "ready"
	updating phase = "updating"
	backing  phase = "being backed up"
	changing phase = "being restored in place"
	deleting phase = "deleting"
	failed   phase = "failed" // its creation or its deletion
)

type request string

const (
	create      request = "provision"
	createOther request = "provision otherwise" // with the id of one that is there
	update      request = "update"
	remove      request = "deprovision"
	fetch       request = "fetch"
	bind        request = "bind"
	bindAgain   request = "bind again"     // as it was bound before
	bindOther   request = "bind otherwise" // with the id of a binding that is there
	fetchOne    request = "fetch a binding"
	unbind      request = "unbind"
	poll        request = "poll"
	backUp      request = "back up"
	restore     request = "restore in place"
)

// rules say what a request may be answered in each phase, and in which phase the instance is then. Other answers are
// wrong. OSB API 2.17, "Provisioning" to "Deprovisioning"; "Blocking Operations" wants the 422.
var rules = map[request]map[phase]map[int]phase{
	create: {
		absent:   {201: ready, 202: creating},
		creating: {200: ready, 202: creating},
		ready:    {200: ready},
		updating: {200: updating},
		backing:  {200: backing},
		changing: {200: changing},
		deleting: {422: deleting},
		failed:   {201: ready, 202: creating, 400: failed},
	},
	createOther: {
		creating: {409: creating},
		ready:    {409: ready},
		updating: {409: updating},
		backing:  {409: backing},
		changing: {409: changing},
		failed:   {409: failed},
	},
	update: {
		absent:   {404: absent},
		creating: {422: creating},
		ready:    {200: ready, 202: updating},
		updating: {200: ready, 202: updating, 422: updating},
		backing:  {422: backing},
		changing: {422: changing},
		deleting: {422: deleting},
		failed:   {400: failed},
	},
	backUp:  background(backing),
	restore: background(changing),
	remove: {
		absent:   {410: absent},
		creating: {200: absent, 202: deleting},
		ready:    {200: absent, 202: deleting},
		updating: {200: absent, 202: deleting},
		backing:  {200: absent, 202: deleting},
		changing: {200: absent, 202: deleting, 422: changing}, // 422: its data is to be kept, and is half restored
		deleting: {200: absent, 202: deleting},
		failed:   {200: absent, 202: deleting},
	},
	fetch: {
		absent:   {404: absent},
		creating: {404: creating},
		ready:    {200: ready},
		updating: {422: updating},
		backing:  {200: backing},
		changing: {422: changing},
		deleting: {404: deleting, 422: deleting}, // 404: it had never been there
		failed:   {200: failed, 404: failed},
	},
	bind:      binding(201),
	bindAgain: binding(200),
	bindOther: binding(409),
	fetchOne: {
		absent:   {404: absent},
		creating: {404: creating},
		ready:    {200: ready},
		updating: {200: updating},
		backing:  {200: backing},
		changing: {200: changing},
		deleting: {200: deleting, 404: deleting, 422: deleting}, // 422: its server is gone already
		failed:   {200: failed, 404: failed},
	},
	unbind: {
		absent:   {410: absent},
		creating: {410: creating},
		ready:    {200: ready},
		updating: {422: updating},
		backing:  {200: backing},
		changing: {422: changing},
		deleting: {422: deleting},
		failed:   {200: failed, 410: failed},
	},
}

// binding are the rules of a bind that a ready instance answers so.
func binding(status int) map[phase]map[int]phase {
	return map[phase]map[int]phase{
		absent:   {404: absent},
		creating: {422: creating},
		ready:    {status: ready},
		updating: {422: updating},
		backing:  {status: backing},
		changing: {422: changing},
		deleting: {422: deleting},
		failed:   {400: failed},
	}
}

// background are the rules of a request that begins work on a ready instance, and joins it if it is sent again.
func background(working phase) map[phase]map[int]phase {
	all := map[phase]map[int]phase{
		absent:   {404: absent},
		creating: {422: creating},
		ready:    {202: working},
		updating: {422: updating},
		backing:  {422: backing},
		changing: {422: changing},
		deleting: {422: deleting},
		failed:   {400: failed},
	}
	all[working] = map[int]phase{202: working}
	return all
}

// phases are those that an instance may be in, as far as the platform can know. None has the value false.
type phases map[phase]bool

func only(p phase) phases { return phases{p: true} }

func (ps phases) is(p phase) bool { return len(ps) == 1 && ps[p] }

// withProgress adds the phases that operations in progress may have come to meanwhile.
func (ps phases) withProgress() phases {
	all := maps.Clone(ps)
	for p := range ps {
		switch p {
		case creating:
			all[ready], all[failed] = true, true
		case updating, backing, changing:
			all[ready] = true
		case deleting:
			all[absent], all[failed] = true, true
		}
	}
	return all
}

// after are the phases that a response leaves possible; none if it breaks the rules.
func (ps phases) after(q request, status int) phases {
	left := phases{}
	for p := range ps {
		if next, permitted := rules[q][p][status]; permitted {
			left[next] = true
		}
	}
	return left
}

// between are the phases through which a request may lead an instance, or in which it may leave one.
var between = map[request][]phase{
	create:  {creating, failed},
	update:  {updating},
	backUp:  {backing},
	restore: {changing},
	remove:  {deleting, failed},
}

// afterSilence adds to the phases all to which a request may have led, or may lead yet, that was not answered.
func (ps phases) afterSilence(q request) phases {
	all := maps.Clone(ps)
	for p := range ps {
		for status, next := range rules[q][p] {
			if status >= 300 {
				continue
			}
			all[next] = true
			if q == create && status == 200 { // it was there already
				continue
			}
			for _, p := range between[q] {
				all[p] = true
			}
		}
	}
	return all
}

// A phase that is not possible is none of the keys, over which the rules go.
func TestPhases(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name      string
		got, want phases
	}{
		{"ready", (&instance{phases: only(ready)}).possible(), only(ready)},
		{"ready, with a late update", (&instance{phases: only(ready), latePlans: []string{"shared-small"}}).possible(),
			phases{ready: true, updating: true}},
		{"deleting", (&instance{phases: only(deleting)}).possible(), phases{deleting: true, absent: true, failed: true}},
		{"a backup of what is ready", only(ready).afterSilence(backUp), phases{ready: true, backing: true}},
		{"a create of what is there", only(ready).afterSilence(create), only(ready)},
		{"a create of what is absent", only(absent).afterSilence(create),
			phases{absent: true, creating: true, ready: true, failed: true}},
		{"an update of what is being deleted", only(deleting).afterSilence(update), only(deleting)},
		{"a deletion of what is ready", only(ready).afterSilence(remove),
			phases{ready: true, deleting: true, absent: true, failed: true}},
	} {
		assert.Equal(t, test.want, test.got, test.name)
	}
}

package catalog

import (
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"mysql-broker/provisioner/plan"
)

// InstanceParameters checks the parameters of a provision request; raw is empty if the request has none. The error
// is a *ParameterError, or ErrUnknownPlan.
func (c *Catalog) InstanceParameters(planID string, raw json.RawMessage) (q plan.InstanceParameters, err error) {
	p, err := c.plan(planID)
	if err != nil {
		return q, err
	}
	given, err := p.create.check(raw)
	if err != nil {
		return q, err
	}
	const sameCharset = "a copy has the character set of its source"
	if err := cmp.Or(given.exclude("a service instance has one source", "clone_from", restoreFrom),
		given.exclude(sameCharset, "clone_from", "charset", "collation"),
		given.exclude(sameCharset, restoreFrom, "charset", "collation"),
		given.exclude("the data comes back as it was", undelete, "charset", "collation", "clone_from", restoreFrom,
			"bootstrap")); err != nil {
		return q, err
	}
	if len(given.texts["bootstrap"]) > maxBootstrap {
		return q, parameterErrorf("Parameter %q must be at most 64 KiB.", "bootstrap")
	}
	until, err := given.time(restoreToTime)
	if err != nil {
		return q, err
	}
	if !until.IsZero() && given.texts[restoreFrom] == "" {
		return q, parameterErrorf("Parameter %q needs %q, the service instance or the backup.", restoreToTime, restoreFrom)
	}
	days, err := given.days(keepDeletedDays)
	if err != nil {
		return q, err
	}
	return plan.InstanceParameters{Charset: given.texts["charset"], Collation: given.texts["collation"],
		CloneFrom: given.texts["clone_from"], Bootstrap: given.texts["bootstrap"], Undelete: given.texts[undelete],
		RestoreFrom: given.texts[restoreFrom], RestoreToTime: until, KeepDeletedDays: days}, p.keeps(days)
}

// maxBootstrap is how many bytes of SQL a request may have.
const maxBootstrap = 64 << 10

// Parameters of a provision or an update.
const (
	undelete        = "undelete"
	keepDeletedDays = "keep_deleted_days"
	restoreFrom     = "restore_from"
	restoreToTime   = "restore_to_time"
	backUp          = "backup"
	restoreBackup   = "restore_backup"
	confirm         = "confirm"
)

// bindingTTL is a parameter of a bind.
const bindingTTL = "ttl"

// UpdateParameters checks the parameters of an update request, as InstanceParameters does.
func (c *Catalog) UpdateParameters(planID string, raw json.RawMessage) (q plan.UpdateParameters, err error) {
	p, err := c.plan(planID)
	if err != nil {
		return q, err
	}
	given, err := p.update.check(raw)
	if err != nil {
		return q, err
	}
	if q.KeepDeletedDays, err = given.days(keepDeletedDays); err != nil {
		return q, err
	}
	if q.Backup = given.texts[backUp]; q.Backup != "" && q.Backup != plan.BackupNow {
		return q, parameterErrorf("Parameter %q must be %q.", backUp, plan.BackupNow)
	}
	q.RestoreBackup, q.Confirm = given.texts[restoreBackup], given.texts[confirm]
	if err := cmp.Or(given.exclude("send two requests", backUp, keepDeletedDays, restoreBackup),
		given.exclude("send two requests", keepDeletedDays, restoreBackup)); err != nil {
		return q, err
	}
	if q.Confirm != "" && q.RestoreBackup == "" {
		return q, parameterErrorf("Parameter %q is only for %q.", confirm, restoreBackup)
	}
	return q, p.keeps(q.KeepDeletedDays)
}

// keeps refuses more days than the plan keeps deleted data for.
func (p entry) keeps(asked plan.Days) error {
	switch {
	case !asked.Named || asked.N <= p.KeepDeletedDays:
		return nil
	case p.KeepDeletedDays == 0:
		return parameterErrorf("Parameter %q must be 0: plan %s keeps no deleted data.", keepDeletedDays, p.Name)
	}
	return parameterErrorf("Parameter %q must be at most %d, the days of plan %s.", keepDeletedDays, p.KeepDeletedDays,
		p.Name)
}

// BindingParameters checks the parameters of a bind request, as InstanceParameters does. The role is read-write unless
// the request names another one; TLS is "" unless the request sets it.
func (c *Catalog) BindingParameters(planID string, raw json.RawMessage) (q plan.BindingParameters, err error) {
	p, err := c.plan(planID)
	if err != nil {
		return q, err
	}
	given, err := p.bind.check(raw)
	if err != nil {
		return q, err
	}
	q = plan.BindingParameters{Role: plan.Role(given.texts["role"]), TLS: plan.TLS(given.texts["tls"]),
		RoleNamed: given.texts["role"] != ""}
	switch q.Role {
	case "":
		q.Role = plan.ReadWrite
	case plan.ReadOnly, plan.ReadWrite, plan.Admin:
	default:
		return q, parameterErrorf("Parameter %q must be one of %s, %s, %s.", "role", plan.ReadOnly, plan.ReadWrite,
			plan.Admin)
	}
	if text, named := given.texts[bindingTTL]; named {
		if q.TTL, err = plan.ParseTTL(text); err != nil {
			return q, parameterErrorf("Parameter %q must be %v.", bindingTTL, err)
		}
	}
	if p.MaxBindingTTL > 0 && q.TTL > p.MaxBindingTTL {
		return q, parameterErrorf("Parameter %q must be at most %s, the maximum of plan %s.", bindingTTL, p.MaxBindingTTL,
			p.Name)
	}
	switch q.TLS {
	case "", plan.TLSOptional, plan.TLSRequired:
	default:
		return q, parameterErrorf("Parameter %q must be one of %s, %s.", "tls", plan.TLSOptional, plan.TLSRequired)
	}
	return q, nil
}

// parameters are the values of a request by the parameters' names.
type parameters struct {
	texts   map[string]string
	numbers map[string]json.Number
}

func (given parameters) has(name string) bool {
	_, number := given.numbers[name]
	return number || given.texts[name] != ""
}

// exclude refuses a request that has a parameter and one of the others.
func (given parameters) exclude(why, one string, others ...string) error {
	for _, other := range others {
		if given.has(one) && given.has(other) {
			return parameterErrorf("Parameters %q and %q exclude each other: %s.", one, other, why)
		}
	}
	return nil
}

// time returns the parameter of that name as a time in UTC.
func (given parameters) time(name string) (at time.Time, err error) {
	text := given.texts[name]
	if text == "" {
		return at, nil
	}
	at, err = time.Parse(time.RFC3339Nano, text)
	if err != nil || at.UTC().Year() > 9999 { // which has no form in RFC 3339
		return at, parameterErrorf("Parameter %q must be a time with its zone, such as 2026-11-22T18:30:00Z or "+
			"2026-11-22T19:30:00+01:00 (RFC 3339).", name)
	}
	return at.UTC(), nil
}

// days returns the parameter of that name, a number of days.
func (given parameters) days(name string) (plan.Days, error) {
	number, named := given.numbers[name]
	if !named {
		if _, text := given.texts[name]; text {
			return plan.Days{}, parameterErrorf("Parameter %q must be a number.", name)
		}
		return plan.Days{}, nil
	}
	n, err := strconv.Atoi(number.String())
	if err != nil || n < 0 {
		return plan.Days{}, parameterErrorf("Parameter %q must be a whole number of days.", name)
	}
	return plan.InDays(n), nil
}

// check returns the parameters in raw. All are strings, except numbers of days.
func (s parameterSchema) check(raw json.RawMessage) (parameters, error) {
	if len(raw) == 0 {
		raw = json.RawMessage("{}")
	}
	given, err := decodeParameters(raw)
	if err != nil {
		return parameters{}, err
	}
	if err := s.checkNames(given); err != nil {
		return parameters{}, err
	}
	if err := checkNumbers(given); err != nil {
		return parameters{}, err
	}
	var violation *jsonschema.ValidationError
	if err := s.compiled.Validate(given); errors.As(err, &violation) {
		return parameters{}, violated(firstCause(violation))
	}
	found := parameters{texts: map[string]string{}, numbers: map[string]json.Number{}}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		number, isNumber := given[name].(json.Number)
		text, isText := given[name].(string)
		switch {
		case isNumber && name == keepDeletedDays:
			found.numbers[name] = number
		case isText:
			found.texts[name] = text
		default:
			return parameters{}, parameterErrorf("Parameter %q must be a string.", name)
		}
	}
	return found, nil
}

// maxNumber is how many characters a number may have.
const maxNumber = 20

// checkNumbers refuses numbers with many digits, or with an exponent: the validation calculates with all their digits,
// which takes seconds for a million of them.
func checkNumbers(given map[string]any) error {
	for _, name := range slices.Sorted(maps.Keys(given)) {
		number, _ := given[name].(json.Number)
		if len(number) > maxNumber || strings.ContainsAny(number.String(), "eE") {
			return parameterErrorf("Parameter %q must have at most %d digits and no exponent.", name, maxNumber)
		}
	}
	return nil
}

// checkNames refuses names that are not properties of the schema, even if it allows additional ones: a parameter
// without an effect would mislead the developer.
func (s parameterSchema) checkNames(given map[string]any) error {
	for _, name := range slices.Sorted(maps.Keys(given)) {
		switch {
		case slices.Contains(s.accepts, name):
		case len(s.accepts) == 0:
			return parameterErrorf("Parameter %q is not accepted. This plan takes no parameters here.", name)
		default:
			return parameterErrorf("Parameter %q is not known. This plan accepts %s.", name,
				strings.Join(s.accepts, ", "))
		}
	}
	return nil
}

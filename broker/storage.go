package broker

import (
	"context"
	"fmt"
	"time"

	"code.cloudfoundry.org/brokerapi/v13/domain"

	"mysql-broker/provisioner/plan"
	"mysql-broker/provisioner/quota"
	"mysql-broker/provisioner/steps"
	"mysql-broker/store"
)

// metadata is what users read about an instance's bindings, storage and move. The specification lets brokers define
// these attributes: OSB API 2.16, "Service Instance Metadata".
func (b *Broker) metadata(ctx context.Context, i store.Instance) (domain.InstanceMetadata, error) {
	attributes, err := b.storage(ctx, i)
	if err != nil {
		return domain.InstanceMetadata{}, apiError(err)
	}
	bindings, allowed, err := b.provisioner.CountBindings(ctx, i)
	if err != nil {
		return domain.InstanceMetadata{}, apiError(err)
	}
	if allowed > 0 {
		attributes["bindings"], attributes["max_bindings"] = bindings, allowed
	}
	if i.Former() {
		former, err := b.provisioner.FormerPlace(ctx, i)
		if err != nil {
			return domain.InstanceMetadata{}, apiError(err)
		}
		attributes["moved_at"] = i.Other.Moved.UTC().Format(time.RFC3339)
		attributes["former_address_until"] = former.Until.UTC().Format(time.RFC3339)
		attributes["bindings_to_renew"], attributes["to_do"] = former.Bindings, former.ToDo
	}
	return domain.InstanceMetadata{Attributes: attributes}, nil
}

// storage are the attributes about an instance's storage. There are none before the first measurement, and while quotas
// are off.
func (b *Broker) storage(ctx context.Context, i store.Instance) (map[string]any, error) {
	s, found, err := b.provisioner.Storage(ctx, i)
	if err != nil || !found {
		return map[string]any{}, err
	}
	return storageAttributes(s), nil
}

func storageAttributes(s steps.Storage) map[string]any {
	if s.Quota == 0 {
		return map[string]any{}
	}
	attributes := map[string]any{
		"storage_bytes":       s.Bytes,
		"storage_quota_bytes": s.Quota,
		"storage_measured_at": s.MeasuredAt.UTC().Format(time.RFC3339),
		"storage_state":       "ok",
	}
	if s.OverSince != nil {
		attributes["storage_state"] = "over quota"
		attributes["storage_over_quota_since"] = s.OverSince.UTC().Format(time.RFC3339)
		attributes["storage_message"] = overSentence(s)
	} else if level := quota.Level(s.Bytes, s.Quota, 0); level > 0 {
		attributes["storage_state"] = "nearly full"
		attributes["storage_message"] = fmt.Sprintf("%s, %d %% or more. At %d %%, accounts will not be able to add "+
			"data. Delete data, or update the service instance to a larger plan.", held(s), level, quota.Over)
	}
	return attributes
}

// overSentence says why MySQL refuses statements, because its own errors cannot.
func overSentence(s steps.Storage) string {
	return fmt.Sprintf("%s. Until it holds less than %d %%, the server refuses what adds data, such as INSERT, UPDATE, "+
		"CREATE and ALTER (errors 1142 and 1044); SELECT, DELETE, TRUNCATE and DROP work. Delete data, or update the "+
		"service instance to a larger plan; accounts may write again within minutes, and their connections have to be "+
		"opened again.",
		held(s), plan.RestoreBelow)
}

func held(s steps.Storage) string {
	return fmt.Sprintf("The database holds %.1f of %d MiB", float64(s.Bytes)/(1<<20), s.Quota>>20)
}

package app

import (
	"context"

	"mysql-broker/cmd/mysql-broker/tracing"
)

func (a *App) startTraces(ctx context.Context) (end ending, err error) {
	if !a.cfg.Tracing {
		return end, nil
	}
	if a.traces, err = tracing.Start(ctx, a.cfg.Traces, a.log); err != nil {
		return end, err
	}
	a.tracer = a.traces.Tracer("mysql-broker")
	return ending{last: func() {
		ctx, cancel := context.WithTimeout(context.Background(), flushTime)
		defer cancel()
		if err := a.traces.Shutdown(ctx); err != nil {
			a.log.Warn("the last traces could not be sent", "error", err)
		}
	}}, nil
}

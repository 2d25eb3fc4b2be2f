package testdrive

// Begin sends a request and does not wait. The channel yields the response. It is closed without one if none came, for
// example because the broker was killed.
func (b *Broker) Begin(method, path string, body any) <-chan Response {
	answers := make(chan Response, 1)
	go func() {
		defer close(answers)
		if r, err := b.Send(method, path, body, nil); err == nil {
			answers <- r
		}
	}()
	return answers
}

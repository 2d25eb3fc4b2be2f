package testdrive

// Begin sends a request and does not wait. The channel yields the answer, or nothing but its end if none came: the
// broker was killed, say.
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

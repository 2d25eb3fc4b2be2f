package transfer

// Restart makes it look as if the target had been restarted.
func (k *Known) Restart() { k.server.started -= 10 }

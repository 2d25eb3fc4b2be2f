package mysqladmin

// Settings lists the settings of a shared server of the flavour with that name.
func Settings(flavour string) []Setting { return settings[flavour] }

module mysql-broker/deploy/release

go 1.26.0

require (
	github.com/google/licensecheck v0.3.1
	golang.org/x/crypto/x509roots/fallback v0.0.0-20261030153154-30a33513ff6d
)

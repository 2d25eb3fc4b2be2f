// Package mysqldimage has what makes the image of mysqld for dedicated servers on Kubernetes.
package mysqldimage

import _ "embed"

// Initialise makes the data directory of a new server, see the file's head. Pods whose image has none run it too.
//
//go:embed initialise.sh
var Initialise []byte

// DataDir is where the image has a data directory to copy.
const DataDir = "/usr/local/share/mysql-broker/data"

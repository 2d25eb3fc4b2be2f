// Package fault names the points at which tests hold, kill or fail the broker. In a broker that was built without the
// tag "faults", as every one for use is, they do nothing and cost nothing.
package fault

// Package stage kills, pauses and fails brokers at every point that their work passes, in the test's own process: one
// broker after the other is started, killed and replaced by an heir, and audits compare what is left. That costs a tenth
// of what processes cost. It needs the build tag "faults".
//
// A kill is what the databases see when a process dies: all connections are reset, and nothing is done any more, with
// the databases, with dedicated servers, or with backups. What only the kernel does to a killed process, such as the
// release of locks on files, is left to test/chaos and the launchers' own tests, which kill processes.
package stage

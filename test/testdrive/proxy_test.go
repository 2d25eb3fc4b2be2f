package testdrive_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

func TestMain(m *testing.M) { servers.Main(m) }

// patience bounds what must happen, glance is how long what must not happen is looked out for.
const (
	patience = time.Minute
	glance   = 100 * time.Millisecond
)

// echo is a server that answers each line with the same line, and tells which it has read.
func echo(t *testing.T) (addr string, read <-chan string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	lines := make(chan string, 10)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				for r := bufio.NewReader(c); ; {
					line, err := r.ReadString('\n')
					if err != nil {
						return
					}
					lines <- line
					io.WriteString(c, line)
				}
			}()
		}
	}()
	return l.Addr().String(), lines
}

func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// ask sends a line and returns what comes back within limit.
func ask(c net.Conn, line string, limit time.Duration) (string, error) {
	io.WriteString(c, line)
	c.SetReadDeadline(time.Now().Add(limit))
	return bufio.NewReader(c).ReadString('\n')
}

func expectEcho(t *testing.T, c net.Conn) {
	t.Helper()
	if got, err := ask(c, "hello\n", patience); got != "hello\n" || err != nil {
		t.Errorf("the answer is %q, %v", got, err)
	}
}

func TestProxyFreezesAndCuts(t *testing.T) {
	t.Parallel()
	addr, _ := echo(t)
	p := testdrive.NewProxy(t, addr)
	old := dial(t, p.Addr())
	expectEcho(t, old)
	p.Freeze()
	if got, err := ask(old, "held back\n", glance); err == nil {
		t.Errorf("a frozen connection answered %q", got)
	}
	expectEcho(t, dial(t, p.Addr()))
	p.Release()
	old.SetReadDeadline(time.Now().Add(patience))
	if got, err := bufio.NewReader(old).ReadString('\n'); got != "held back\n" || err != nil {
		t.Errorf("after the release comes %q, %v", got, err)
	}
	p.Freeze()
	p.Cut()
	if got, err := ask(old, "hello\n", patience); err == nil {
		t.Errorf("a connection that was cut answered %q", got)
	}
	p.Refuse(true)
	if got, err := ask(dial(t, p.Addr()), "hello\n", patience); err == nil {
		t.Errorf("a refused connection answered %q", got)
	}
	p.Refuse(false)
	expectEcho(t, dial(t, p.Addr()))
}

func TestProxyCutsAnAnswer(t *testing.T) {
	t.Parallel()
	addr, read := echo(t)
	p := testdrive.NewProxy(t, addr)
	c := dial(t, p.Addr())
	done := p.CutAnswer("hello", 1)
	expectEcho(t, c)
	if got, err := ask(c, "hello 2\n", patience); err == nil {
		t.Errorf("the lost answer came: %q", got)
	}
	<-done
	if first, second := <-read, <-read; first != "hello\n" || second != "hello 2\n" {
		t.Errorf("the server read %q and %q", first, second)
	}
	expectEcho(t, dial(t, p.Addr()))
}

// A commit that goes through such a proxy takes effect, and its client learns of a lost connection.
func TestProxyCutsACommit(t *testing.T) {
	t.Parallel()
	direct := servers.Postgres(t)
	p, through := testdrive.ProxyURL(t, direct)
	conn := open(t, through)
	if _, err := conn.Exec(t.Context(), "CREATE TABLE commits (n text)"); err != nil {
		t.Fatal(err)
	}
	done := p.CutAnswer(testdrive.Parameter("lost"), 0)
	_, err := conn.Exec(t.Context(), "INSERT INTO commits VALUES ($1)", "lost")
	if err == nil {
		t.Error("the commit was answered")
	}
	<-done
	var n int
	if err := open(t, direct).QueryRow(t.Context(), "SELECT count(*) FROM commits").Scan(&n); err != nil || n != 1 {
		t.Errorf("the commit took no effect: %d rows, %v", n, err)
	}
}

func open(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

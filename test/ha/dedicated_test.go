package ha

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/google/uuid"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/launcher/mysqld"
	"mysql-broker/test/audit"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// writableTime is how long a dedicated-ha instance may accept no writes after its primary was killed or frozen.
const writableTime = 30 * time.Second

// The servers of an instance with three members are killed, frozen and deleted while applications write. Nothing that
// was acknowledged is lost, and afterwards there are three again.
func TestDedicatedHA(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, s servers.MySQL) {
		w := newGroupWorld(t, s)
		var killed, frozen []time.Duration
		w.makeEvents(t)
		for range rounds(10) {
			killed = append(killed, w.loses(t, "killed", func(primary int) { w.signal(t, primary, syscall.SIGKILL) }))
			frozen = append(frozen, w.loses(t, "frozen", func(primary int) {
				w.signal(t, primary, syscall.SIGSTOP)
				t.Cleanup(func() { w.signal(t, primary, syscall.SIGCONT) })
			}))
		}
		for what, took := range map[string][]time.Duration{"killed": killed, "frozen": frozen} {
			slices.Sort(took)
			t.Logf("the primary was %s: writable after %v; median %v, worst %v", what, took, took[len(took)/2],
				took[len(took)-1])
		}
		w.measure(t)
		w.isShown(t)
		w.isResized(t)
		w.backsUp(t)
		w.isAudited(t)
		w.replaces(t)
		w.losesSeveral(t, 2)
		w.losesSeveral(t, 3)
		w.beginsAgain(t)
		w.delete(t)
	})
}

// groupWorld is a broker with one instance that has three members, and applications that write to it.
type groupWorld struct {
	flavour           string
	env               map[string]string
	broker            *testdrive.Broker
	serviceID, planID string
	instance, binding string
	app               application
	dir               string   // of the launcher
	members           string   // directory
	events            []string // what they are like
	stop              func()
	acknowledged      sync.Map // rows
	count             atomic.Int64
	slowly            atomic.Bool // applications write few rows
}

// application is what an app reads from its credentials.
type application struct {
	audit.Credentials
	Hosts   []string `json:"hosts"`
	JDBCURL string   `json:"jdbcUrl"`
}

// groupPlans are the keys of the dedicated plans and, with three members, what takes their place. The members of the
// large plan have more memory only in the long form: each member that is restarted for that takes ten seconds.
func groupPlans() map[string]string {
	memory := "512"
	if long() {
		memory = "640"
	}
	return map[string]string{
		"{provisioner: dedicated, async: required, memory_mb: 256,":  "{provisioner: dedicated, members: 3, async: required, memory_mb: 512,",
		"{provisioner: dedicated, async: required, memory_mb: 1024,": "{provisioner: dedicated, members: 3, async: required, memory_mb: " + memory + ",",
	}
}

// groupEnvironment is that of a broker whose dedicated plans have three members.
func groupEnvironment(t *testing.T, s servers.MySQL) map[string]string {
	t.Helper()
	env := testdrive.Environment(t, s)
	text, err := os.ReadFile(env["CATALOG"])
	if err != nil {
		t.Fatal(err)
	}
	env["CATALOG"] = filepath.Join(t.TempDir(), "catalog.yml")
	edited := string(text)
	for single, three := range groupPlans() {
		if !strings.Contains(edited, single) {
			t.Fatalf("the catalog has no %s", single)
		}
		edited = strings.Replace(edited, single, three, 1)
	}
	if err := os.WriteFile(env["CATALOG"], []byte(edited), 0o600); err != nil {
		t.Fatal(err)
	}
	return env
}

func newGroupWorld(t *testing.T, s servers.MySQL) *groupWorld {
	t.Helper()
	env := groupEnvironment(t, s)
	env["BACKUP_STORE"] = "file://" + t.TempDir()
	w := &groupWorld{flavour: s.Flavour, env: env, instance: uuid.NewString(), binding: uuid.NewString(), dir: env["LAUNCHER_DIR"]}
	w.broker = testdrive.Start(t, env)
	w.serviceID, w.planID = testdrive.Plan(t, "dedicated-small")
	began := time.Now()
	w.await(t, w.broker.Do(t, "PUT", "/v2/service_instances/"+w.instance+"?accepts_incomplete=true",
		map[string]any{"service_id": w.serviceID, "plan_id": w.planID, "organization_guid": "organization",
			"space_guid": "space"}))
	t.Logf("the instance was ready after %.1f s", time.Since(began).Seconds())
	found, err := filepath.Glob(filepath.Join(w.dir, "instances", "*", "members"))
	if err != nil || len(found) != 1 {
		t.Fatalf("there is no group: %v, %v", found, err)
	}
	w.members = found[0]
	w.app = w.bind(t, w.binding)
	if len(w.app.Hosts) != 3 || !strings.Contains(w.app.JDBCURL, strings.Join(w.app.Hosts, ",")) {
		t.Fatalf("the credentials name the hosts %v, and %s", w.app.Hosts, w.app.JDBCURL)
	}
	if err := persist(t.Context(), func() error {
		return w.onPrimary(func(ctx context.Context, db *sql.DB) error {
			_, err := db.ExecContext(ctx, "CREATE TABLE acknowledged (id varchar(40) PRIMARY KEY)")
			return err
		})
	}); err != nil {
		t.Fatal(err)
	}
	w.write(t)
	return w
}

// await waits until an operation has succeeded.
func (w *groupWorld) await(t *testing.T, accepted testdrive.Response) {
	t.Helper()
	accepted.Expect(t, http.StatusAccepted)
	if state, shown := w.broker.AwaitOperation(t, w.instance, accepted.String("operation")); state != "succeeded" {
		t.Fatalf("%s: %q: %s", state, shown, w.broker.Log())
	}
}

func (w *groupWorld) bind(t *testing.T, binding string) (a application) {
	t.Helper()
	var raw []byte
	testdrive.Eventually(t, patience, "a binding", func() bool {
		r := w.broker.Do(t, "PUT", bindingPath(w.instance, binding), map[string]any{"service_id": w.serviceID,
			"plan_id": w.planID})
		raw, _ = json.Marshal(r.Body["credentials"])
		return r.Status == http.StatusCreated || r.Status == http.StatusOK
	})
	if err := json.Unmarshal(raw, &a); err != nil {
		t.Fatal(err)
	}
	return a
}

func (w *groupWorld) unbind(t *testing.T, binding string) {
	t.Helper()
	testdrive.Eventually(t, patience, "no binding", func() bool {
		r := w.broker.Do(t, "DELETE", bindingPath(w.instance, binding)+"?service_id="+w.serviceID+"&plan_id="+w.planID, nil)
		return r.Status == http.StatusOK || r.Status == http.StatusGone
	})
}

// onPrimary runs fn on the first host of the application's list that lets it in, as a driver does.
func (w *groupWorld) onPrimary(fn func(context.Context, *sql.DB) error) error {
	var errs []error
	for _, host := range w.app.Hosts {
		err := w.on(host, fn)
		if err == nil {
			return nil
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (w *groupWorld) on(host string, fn func(context.Context, *sql.DB) error) error {
	at := w.app.Credentials
	name, port, _ := net.SplitHostPort(host)
	at.Host = name
	at.Port, _ = strconv.Atoi(port)
	db, err := at.Open()
	if err != nil {
		return err
	}
	defer db.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	return fn(ctx, db)
}

// write has applications write rows until the test ends, or stop is called, and keeps those that were acknowledged.
func (w *groupWorld) write(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	var writing sync.WaitGroup
	for range 4 {
		writing.Go(func() {
			for ctx.Err() == nil {
				_ = w.onPrimary(func(limited context.Context, db *sql.DB) error {
					for ctx.Err() == nil {
						row := uuid.NewString()
						own, cancel := context.WithTimeout(ctx, 2*time.Second)
						_, err := db.ExecContext(own, "INSERT INTO acknowledged VALUES ('"+row+"')")
						cancel()
						if err != nil {
							return err
						}
						w.acknowledged.Store(row, nil)
						w.count.Add(1)
						pause := 5 * time.Millisecond // so that a busy machine has time for the servers
						if w.slowly.Load() {
							pause = 200 * time.Millisecond
						}
						time.Sleep(pause)
					}
					return nil
				})
			}
		})
	}
	w.stop = sync.OnceFunc(func() { cancel(); writing.Wait() })
	t.Cleanup(w.stop)
}

// pid returns that of a member, counted from 0.
func (w *groupWorld) pid(member int) int {
	settings := "--defaults-file=" + filepath.Join(w.members, strconv.Itoa(member+1), "mysqld.cnf")
	found, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range found {
		if text, err := os.ReadFile(file); err == nil && slices.Contains(strings.Split(string(text), "\x00"), settings) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			return pid
		}
	}
	return 0
}

func (w *groupWorld) signal(t *testing.T, member int, s syscall.Signal) {
	t.Helper()
	if pid := w.pid(member); pid != 0 {
		_ = syscall.Kill(pid, s) // it may have ended
	}
}

// openMember connects to a member as the launcher does.
func (w *groupWorld) openMember(member int) (*sql.DB, error) {
	key, err := os.ReadFile(filepath.Join(w.members, strconv.Itoa(member+1), "tls", "server-key.pem"))
	if err != nil {
		return nil, err
	}
	sum := hmac.New(sha256.New, key)
	sum.Write([]byte("password of broker_group"))
	cfg := mysql.NewConfig()
	cfg.User, cfg.Passwd, cfg.Net = "broker_group", hex.EncodeToString(sum.Sum(nil)[:16]), "unix"
	cfg.Addr = filepath.Join(w.members, strconv.Itoa(member+1), "data", "mysqld.sock")
	cfg.Logger, cfg.Timeout, cfg.ReadTimeout = &mysql.NopLogger{}, time.Second, time.Second
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(connector), nil
}

// look returns which member is the primary, as a member sees it, and how many are online.
func (w *groupWorld) look(member int) (primary, online int, err error) {
	db, err := w.openMember(member)
	if err != nil {
		return -1, 0, err
	}
	defer db.Close()
	if w.flavour == mysqld.MariaDB {
		return w.lookAtGalera(db)
	}
	var port int
	err = db.QueryRow(`SELECT COALESCE(MAX(IF(member_role = 'PRIMARY', member_port, 0)), 0),
		COALESCE(SUM(member_state = 'ONLINE'), 0) FROM performance_schema.replication_group_members`).Scan(&port, &online)
	primary = slices.IndexFunc(w.app.Hosts, func(host string) bool { return strings.HasSuffix(host, fmt.Sprint(":", port)) })
	return primary, online, err
}

// lookAtGalera returns the first member that applications reach as the primary, because they go through their list.
func (w *groupWorld) lookAtGalera(db *sql.DB) (primary, online int, err error) {
	err = db.QueryRow(`SELECT variable_value FROM information_schema.global_status
		WHERE variable_name = 'wsrep_cluster_size' AND EXISTS (SELECT * FROM information_schema.global_status
			WHERE variable_name = 'wsrep_local_state' AND variable_value IN ('2', '4'))`).Scan(&online)
	return slices.IndexFunc([]int{0, 1, 2}, func(n int) bool { return w.pid(n) != 0 }), online, err
}

// explain logs what each member of MySQL says of itself.
func (w *groupWorld) explain(t *testing.T) {
	t.Helper()
	for n := range 3 {
		if db, err := w.openMember(n); err == nil && w.flavour == mysqld.MySQL {
			testdrive.LogMember(t, fmt.Sprint("member ", n+1), db)
			_ = db.Close()
		}
	}
}

// awaitComplete waits until every member says that all three are online, and returns the primary. Meanwhile, applications
// write few rows: on a busy machine, MySQL lets a member that joins lag as far as it does, which then is never online.
func (w *groupWorld) awaitComplete(t *testing.T, when string) (primary int) {
	t.Helper()
	w.slowly.Store(true)
	defer w.slowly.Store(false)
	var last error
	defer func() {
		if t.Failed() {
			t.Logf("%s: %v: %s", when, last, w.broker.Log())
			w.explain(t)
		}
	}()
	testdrive.Eventually(t, patience, when+": three members are online", func() bool {
		for n := range 3 {
			var online int
			if primary, online, last = w.look(n); last != nil || online != 3 || primary < 0 {
				last = cmpError(last, n, online)
				return false
			}
		}
		return true
	})
	return primary
}

func cmpError(err error, member, online int) error {
	return fmt.Errorf("member %d sees %d online: %w", member+1, online, err)
}

// loses has something happen to the primary. It returns how long no row was acknowledged. Meanwhile, the broker makes
// and ends a binding.
func (w *groupWorld) loses(t *testing.T, what string, happen func(primary int)) time.Duration {
	t.Helper()
	primary := w.awaitComplete(t, "before a primary is "+what)
	before := w.count.Load()
	testdrive.Eventually(t, patience, "rows are written", func() bool { return w.count.Load() > before+20 })
	began := time.Now()
	happen(primary)
	time.Sleep(100 * time.Millisecond) // responses that were on their way
	before = w.count.Load()
	testdrive.Eventually(t, patience, "rows are written again", func() bool { return w.count.Load() > before+20 })
	took := time.Since(began)
	if took > writableTime {
		t.Errorf("the primary was %s: writable again only after %v", what, took)
	}
	binding := uuid.NewString()
	w.bind(t, binding)
	w.unbind(t, binding)
	t.Logf("the primary was %s: writable after %.1f s, bound and unbound after %.1f s", what, took.Seconds(),
		time.Since(began).Seconds())
	if what == "frozen" {
		w.awaitMembers(t, map[launcher.MemberState]int{launcher.MemberOnline: 2, launcher.MemberMissing: 1})
	}
	w.signal(t, primary, syscall.SIGCONT)
	w.awaitComplete(t, "after a primary was "+what)
	t.Logf("three members again after %.1f s", time.Since(began).Seconds())
	w.compare(t)
	w.expectEvents(t, "after a primary was "+what)
	return took
}

// awaitMembers waits until the metrics count members like that.
func (w *groupWorld) awaitMembers(t *testing.T, wanted map[launcher.MemberState]int) {
	t.Helper()
	testdrive.Eventually(t, patience, fmt.Sprint("metrics of ", wanted), func() bool {
		there := w.broker.Scrape(t)
		for _, state := range launcher.AllMemberStates() {
			series := fmt.Sprintf("mysql_broker_dedicated_members{launcher=%q,state=%q}", w.env["LAUNCHER"], state)
			if there.Int(t, series) != wanted[state] {
				return false
			}
		}
		return there.Int(t, fmt.Sprintf("mysql_broker_dedicated_groups_without_primary{launcher=%q}", w.env["LAUNCHER"])) == 0
	})
}

// isShown expects that operators see the members.
func (w *groupWorld) isShown(t *testing.T) {
	t.Helper()
	primary := w.awaitComplete(t, "before members are shown")
	w.awaitMembers(t, map[launcher.MemberState]int{launcher.MemberOnline: 3})
	command := testdrive.Launch(t, w.env, "servers", "--dedicated", "--json")
	if code := command.Wait(t); code != 0 {
		t.Fatalf("servers --dedicated ended with %d: %s", code, command.Log())
	}
	type member struct {
		Address, State string
		Primary        bool
	}
	var listed []struct{ Members []member }
	if err := json.Unmarshal([]byte(command.Log()), &listed); err != nil || len(listed) != 1 {
		t.Fatalf("%v: %s", err, command.Log())
	}
	for n, m := range listed[0].Members {
		writable := n == primary || w.flavour == mysqld.MariaDB
		if want := (member{w.app.Hosts[n], string(launcher.MemberOnline), writable}); m != want {
			t.Errorf("member %d is shown as %v, want %v", n+1, m, want)
		}
	}
	t.Logf("members: %v", listed[0].Members)
}

// isResized gives the instance the large plan while applications write.
func (w *groupWorld) isResized(t *testing.T) {
	t.Helper()
	primary := w.awaitComplete(t, "before a resize")
	began := time.Now()
	_, w.planID = testdrive.Plan(t, "dedicated-large")
	w.await(t, w.broker.Do(t, "PATCH", "/v2/service_instances/"+w.instance+"?accepts_incomplete=true",
		map[string]any{"service_id": w.serviceID, "plan_id": w.planID}))
	t.Logf("resized after %.1f s", time.Since(began).Seconds())
	if now := w.awaitComplete(t, "after a resize"); now != primary {
		t.Errorf("after a resize, the primary is member %d instead of %d", now+1, primary+1)
	}
	w.compare(t)
}

// backsUp backs the instance up, while another member than the first is the primary, and expects that a secondary is
// read.
func (w *groupWorld) backsUp(t *testing.T) {
	t.Helper()
	primary := w.awaitComplete(t, "before a backup")
	began := time.Now()
	w.await(t, w.broker.Do(t, "PATCH", "/v2/service_instances/"+w.instance+"?accepts_incomplete=true",
		map[string]any{"service_id": w.serviceID, "plan_id": w.planID, "parameters": map[string]any{"backup": "now"}}))
	_, rest, found := strings.Cut(w.broker.Log(), "a backup is read from a secondary")
	line, _, _ := strings.Cut(rest, "\n")
	if !found || strings.Contains(line, w.app.Hosts[primary]) {
		t.Errorf("the primary is %s, and a backup was read from another member: %v, %s", w.app.Hosts[primary], found, line)
	}
	t.Logf("backed up after %.1f s; the primary is member %d", time.Since(began).Seconds(), primary+1)
}

// isAudited compares the members with what is recorded. Other brokers use the shared server.
func (w *groupWorld) isAudited(t *testing.T) {
	t.Helper()
	w.awaitComplete(t, "before the audit")
	shared, err := audit.Credentials{Host: "127.0.0.1", Port: 1, Username: "nobody"}.Open() // whose errors are overlooked
	if err != nil {
		t.Fatal(err)
	}
	defer shared.Close()
	for _, sentence := range audit.Check(t.Context(), audit.World{PostgresURL: w.env["DATABASE_URL"],
		Keyset: w.env["ENCRYPTION_KEYSET"], Shared: shared, Launchers: testdrive.Inspectors(w.env),
		Plans: testdrive.Plans(t), Reported: audit.Reported{
			Instances: []audit.Instance{{ID: w.instance, PlanID: w.planID, State: audit.Exists}},
			Bindings:  []audit.Binding{{InstanceID: w.instance, ID: w.binding, State: audit.Exists}}}}) {
		if !strings.Contains(sentence, "shared server") {
			t.Error(sentence)
		}
	}
}

// replaces deletes the files of a member that is not the primary. On MySQL, the others have deleted binary logs before.
func (w *groupWorld) replaces(t *testing.T) {
	t.Helper()
	victim := (w.awaitComplete(t, "before files are deleted") + 1) % 3
	if w.flavour == mysqld.MySQL {
		w.deleteLogs(t)
	}
	pid := w.pid(victim)
	// The member runs on and still writes, so a directory that is deleted in its place may be found not empty.
	elsewhere := filepath.Join(t.TempDir(), "member")
	if err := os.Rename(filepath.Join(w.members, strconv.Itoa(victim+1)), elsewhere); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	testdrive.Eventually(t, patience, "another process for the member", func() bool {
		now := w.pid(victim)
		return now != 0 && now != pid
	})
	w.awaitComplete(t, "after files were deleted")
	w.expectEvents(t, "after files were deleted")
	if text, err := os.ReadFile(filepath.Join(w.members, strconv.Itoa(victim+1), "mysqld.log")); w.flavour == mysqld.MySQL &&
		(err != nil || !strings.Contains(string(text), "Cloning from a remote group donor")) {
		t.Errorf("the member did not get a copy of the files of another one: %v, %s", err, text)
	}
	t.Logf("the files of a member were deleted: three members again after %.1f s", time.Since(began).Seconds())
	w.compare(t)
}

// losesSeveral kills the primary and other members while applications write. What is left has no majority, so the group
// begins again. On both flavours, the member that is left is started again too.
func (w *groupWorld) losesSeveral(t *testing.T, count int) {
	t.Helper()
	primary := w.awaitComplete(t, "before several members are killed")
	last := (primary + 2) % 3
	pid, began := w.pid(last), time.Now()
	for n := range count {
		w.signal(t, (primary+n)%3, syscall.SIGKILL)
	}
	time.Sleep(100 * time.Millisecond) // responses that were on their way
	before := w.count.Load()
	testdrive.Eventually(t, patience, "rows are written again", func() bool { return w.count.Load() > before+20 })
	t.Logf("%d members were killed: writable after %.1f s", count, time.Since(began).Seconds())
	w.awaitComplete(t, "after several members were killed")
	before = w.count.Load()
	testdrive.Eventually(t, patience, "rows are still written", func() bool { return w.count.Load() > before+20 })
	t.Logf("%d members were killed: three members again after %.1f s", count, time.Since(began).Seconds())
	if w.pid(last) == pid {
		t.Error("the member that was left without a majority was not started again, so it joined half a minute later")
	}
	w.compare(t)
	w.expectEvents(t, fmt.Sprint("after ", count, " members were killed"))
}

// measure prints the resident memory of each member.
func (w *groupWorld) measure(t *testing.T) {
	t.Helper()
	w.awaitComplete(t, "before memory is measured")
	for n := range 3 {
		status, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(w.pid(n)), "status"))
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(status), "VmRSS:")
		line, _, _ := strings.Cut(rest, "\n")
		t.Logf("resident memory of member %d: %s", n+1, strings.TrimSpace(line))
	}
}

// deleteLogs has all members delete binary logs, which applications fill meanwhile.
func (w *groupWorld) deleteLogs(t *testing.T) {
	t.Helper()
	for n := range 3 {
		db, err := w.openMember(n)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		for _, statement := range []string{"SET GLOBAL binlog_expire_logs_seconds = 1", "SET GLOBAL max_binlog_size = 4096"} {
			if _, err := db.ExecContext(t.Context(), statement); err != nil {
				t.Fatal(err)
			}
		}
		testdrive.Eventually(t, patience, "binary logs are deleted", func() bool {
			var deleted bool
			err := db.QueryRowContext(t.Context(), "SELECT @@GLOBAL.gtid_purged <> ''").Scan(&deleted)
			return err == nil && deleted
		})
		if _, err := db.ExecContext(t.Context(), "SET GLOBAL max_binlog_size = DEFAULT"); err != nil {
			t.Fatal(err)
		}
	}
}

// beginsAgain kills all members, and expects that they form the group again by themselves. Nobody writes meanwhile.
func (w *groupWorld) beginsAgain(t *testing.T) {
	t.Helper()
	w.awaitComplete(t, "before all members are killed")
	w.stop()
	for n := range 3 {
		w.signal(t, n, syscall.SIGKILL)
	}
	began := time.Now()
	w.awaitComplete(t, "after all members were killed")
	t.Logf("all members were killed: three members again after %.1f s", time.Since(began).Seconds())
	w.compare(t)
}

// compare expects every row that was acknowledged.
func (w *groupWorld) compare(t *testing.T) {
	t.Helper()
	var wanted []string
	w.acknowledged.Range(func(row, _ any) bool {
		wanted = append(wanted, row.(string))
		return true
	})
	there := map[string]bool{}
	if err := persist(t.Context(), func() error {
		return w.onPrimary(func(ctx context.Context, db *sql.DB) error {
			conn, err := db.Conn(ctx)
			if err != nil {
				return err
			}
			defer conn.Close()
			if w.flavour == mysqld.MariaDB { // what another member has committed, this one may not have applied yet
				if _, err := conn.ExecContext(ctx, "SET SESSION wsrep_sync_wait = 1"); err != nil {
					return err
				}
			}
			rows, err := conn.QueryContext(ctx, "SELECT id FROM acknowledged")
			if err != nil {
				return err
			}
			defer rows.Close()
			for rows.Next() {
				var row string
				if err := rows.Scan(&row); err != nil {
					return err
				}
				there[row] = true
			}
			return rows.Err()
		})
	}); err != nil {
		t.Fatal(err)
	}
	lost := 0
	for _, row := range wanted {
		if !there[row] {
			lost++
		}
	}
	t.Logf("%d of %d acknowledged rows are lost", lost, len(wanted))
	if lost > 0 {
		t.FailNow()
	}
}

// delete deletes the binding and the instance, and expects that nothing is left of them.
func (w *groupWorld) delete(t *testing.T) {
	t.Helper()
	w.unbind(t, w.binding)
	w.await(t, w.broker.Do(t, "DELETE", "/v2/service_instances/"+w.instance+"?accepts_incomplete=true&service_id="+
		w.serviceID+"&plan_id="+w.planID, nil))
	t.Logf("%d rows were acknowledged", w.count.Load())
	for n := range 3 {
		if pid := w.pid(n); pid != 0 {
			t.Errorf("member %d is still there, as process %d", n+1, pid)
		}
	}
	for _, dir := range []string{"instances", "trash"} {
		if left, err := os.ReadDir(filepath.Join(w.dir, dir)); err != nil || len(left) > 0 {
			t.Errorf("in %s there are %v, %v", dir, left, err)
		}
	}
}

package testdrive

import "testing"

// UseAsApplication does what applications and their migrations do.
func UseAsApplication(t *testing.T, c Credentials) {
	t.Helper()
	db := c.Open(t)
	Exec(t, db,
		"CREATE TABLE fruit (id INT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(20), noted VARCHAR(20))",
		"CREATE TRIGGER note BEFORE INSERT ON fruit FOR EACH ROW SET NEW.noted = UPPER(NEW.name)",
		"INSERT INTO fruit (name) VALUES ('apple'), ('pear')",
		"CREATE VIEW apples AS SELECT * FROM fruit WHERE name LIKE 'apple%'",
		"CREATE PROCEDURE add_fruit (n VARCHAR(20)) INSERT INTO fruit (name) VALUES (n)",
		"CALL add_fruit('apple tart')")
	if got := Read[string](t, db, "SELECT GROUP_CONCAT(noted ORDER BY id) FROM apples"); got != "APPLE,APPLE TART" {
		t.Errorf("the view shows %q", got)
	}
}

// MakeObjects makes these in an instance.
func MakeObjects(t *testing.T, i Instance) Credentials {
	t.Helper()
	_, c := i.Bound(t, nil)
	MakeObjectsAs(t, c)
	return c
}

func MakeObjectsAs(t *testing.T, c Credentials) {
	t.Helper()
	Exec(t, c.Open(t), "CREATE TABLE items (id INT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(20))",
		"INSERT INTO items (name) VALUES ('one'), ('two')", "CREATE VIEW names AS SELECT name FROM items",
		"CREATE PROCEDURE add_item() INSERT INTO items (name) VALUES ('added')",
		"CREATE TRIGGER loud BEFORE INSERT ON items FOR EACH ROW SET NEW.name = UPPER(NEW.name)")
}

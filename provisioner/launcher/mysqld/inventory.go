package mysqld

const systemSchemas = `('mysql', 'sys', 'information_schema', 'performance_schema')`

// InventoryDatabase is the default database for InventoryQueries: without one, MySQL lists no events.
const InventoryDatabase = "mysql"

// InventoryQueries list what an upgrade must keep, apart from rows: names in the first column, and what must not change
// in the second one.
var InventoryQueries = []string{
	`SELECT CONCAT('database ', schema_name), default_collation_name FROM information_schema.schemata
		WHERE schema_name NOT IN ` + systemSchemas,
	`SELECT CONCAT(LOWER(table_type), ' ', table_schema, '.', table_name), '' FROM information_schema.tables
		WHERE table_schema NOT IN ` + systemSchemas,
	`SELECT CONCAT(LOWER(routine_type), ' ', routine_schema, '.', routine_name), SHA2(routine_definition, 256)
		FROM information_schema.routines WHERE routine_schema NOT IN ` + systemSchemas,
	`SELECT CONCAT('trigger ', trigger_schema, '.', trigger_name), SHA2(action_statement, 256)
		FROM information_schema.triggers WHERE trigger_schema NOT IN ` + systemSchemas,
	`SELECT CONCAT('event ', event_schema, '.', event_name), SHA2(event_definition, 256)
		FROM information_schema.events WHERE event_schema NOT IN ` + systemSchemas,
	`SELECT CONCAT('account ', user, '@', host), SHA2(CONCAT_WS(' ', plugin, authentication_string), 256) FROM mysql.user
		WHERE user NOT LIKE 'mysql.%' AND user <> 'mariadb.sys'`,
	`SELECT CONCAT('privileges ', user, '@', host, ' on ', db), '' FROM mysql.db`,
}

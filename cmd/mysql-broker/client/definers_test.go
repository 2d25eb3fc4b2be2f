package client

import (
	"strings"
	"testing"
	"testing/iotest"
)

func TestCopyWithoutDefiners(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 3*maxHead)
	for _, test := range []struct{ name, dump, want string }{
		{"view", "/*!50001 CREATE ALGORITHM=UNDEFINED */\n/*!50013 DEFINER=`u`@`%` SQL SECURITY DEFINER */\n/*!50001 VIEW `v` */;\n",
			"/*!50001 CREATE ALGORITHM=UNDEFINED */\n/*!50013 SQL SECURITY DEFINER */\n/*!50001 VIEW `v` */;\n"},
		{"trigger", "DELIMITER ;;\n/*!50003 CREATE*/ /*!50017 DEFINER=`u`@`%`*/ /*!50003 TRIGGER `t` x */;;\nDELIMITER ;\n",
			"DELIMITER ;;\n/*!50003 CREATE*/ /*!50017 */ /*!50003 TRIGGER `t` x */;;\nDELIMITER ;\n"},
		{"event after settings", "DELIMITER ;;\n/*!50003 SET x = 1 */ ;;\n/*!50106 CREATE*/ /*!50117 DEFINER=`u`@`%`*/ EVENT\n;;\n",
			"DELIMITER ;;\n/*!50003 SET x = 1 */ ;;\n/*!50106 CREATE*/ /*!50117 */ EVENT\n;;\n"},
		{"routine, name with backticks", "DELIMITER ;;\nCREATE DEFINER=`a``b@c`@`%` PROCEDURE `p`()\nBEGIN END ;;\n",
			"DELIMITER ;;\nCREATE PROCEDURE `p`()\nBEGIN END ;;\n"},
		{"windows' line ends", "DELIMITER ;;\r\nCREATE OR REPLACE DEFINER=`u`@`%` PACKAGE x ;;\r\n",
			"DELIMITER ;;\r\nCREATE OR REPLACE PACKAGE x ;;\r\n"},
		{"after a long body", "DELIMITER ;;\nCREATE PROCEDURE x\n" + long + ";;\nCREATE DEFINER=`u`@`%` FUNCTION f\n",
			"DELIMITER ;;\nCREATE PROCEDURE x\n" + long + ";;\nCREATE FUNCTION f\n"},
		{"long line, then data", "INSERT (" + long + ");\nCREATE DEFINER=`u`@`%` x\n", ""},
		{"data", "INSERT INTO t VALUES\n('DEFINER=`u`@`%`'),\n/*!50013 DEFINER=`u`@`%` SQL SECURITY DEFINER */\n", ""},
		{"body", "DELIMITER ;;\nCREATE PROCEDURE p()\nBEGIN\nCREATE DEFINER=`u`@`%` VIEW v AS SELECT 1;\nEND ;;\n", ""},
		{"text of a body that has no definer", "DELIMITER ;;\nCREATE PROCEDURE p() SELECT 'DEFINER=`u`@`%`' ;;\n", ""},
		{"no line end", "SELECT 1", ""},
		{"nothing", "", ""},
	} {
		want := test.want
		if want == "" {
			want = test.dump
		}
		var got strings.Builder
		if err := copyWithoutDefiners(&got, iotest.HalfReader(strings.NewReader(test.dump))); err != nil || got.String() != want {
			t.Errorf("%s: %v, %.300q", test.name, err, got.String())
		}
	}
}

func TestTail(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"x\n-- Dump completed on 2026-01-02\n":   true,
		"-- Dump completed":                      true,
		"-- Dump completed\n\r\n \n":             true,
		"INSERT '-- Dump completed'\n":           false,
		"-- Dump completed\n" + "INSERT INTO t":  false,
		strings.Repeat("x", 999) + "\n-- Dump c": false,
		"":                                       false,
	} {
		for _, chunk := range []int{1, 7, len(text) + 1} {
			var end tail
			for rest := text; rest != ""; rest = rest[min(chunk, len(rest)):] {
				if _, err := end.Write([]byte(rest[:min(chunk, len(rest))])); err != nil {
					t.Fatal(err)
				}
			}
			if end.completed() != want {
				t.Errorf("%.40q in pieces of %d: %t", text, chunk, !want)
			}
		}
	}
}

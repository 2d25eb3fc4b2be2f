package instances

import (
	"slices"
	"strings"

	"mysql-broker/provisioner/engine"
	"mysql-broker/provisioner/plan"
)

// charsets are the character sets of MySQL and MariaDB. They are listed here because an instance with a dedicated
// server has no server yet when it is requested. If the list has a character set that the server lacks, the provision
// fails with a sentence for users.
var charsets = strings.Fields("armscii8 ascii big5 binary cp1250 cp1251 cp1256 cp1257 cp850 cp852 cp866 cp932 dec8 " +
	"eucjpms euckr gb2312 gbk geostd8 greek hebrew hp8 keybcs2 koi8r koi8u latin1 latin2 latin5 latin7 macce macroman " +
	"sjis swe7 tis620 ucs2 ujis utf16 utf16le utf32 utf8 utf8mb3 utf8mb4")

// plausibleCharset refuses a character set or collation that no server has.
func plausibleCharset(q plan.InstanceParameters) error {
	if q.Charset != "" && !slices.Contains(charsets, q.Charset) {
		return engine.Refuse(engine.Invalid, "Parameter \"charset\" is %q, which is no character set that MySQL knows; "+
			"utf8mb4 is the usual one.", q.Charset)
	}
	of, _, _ := strings.Cut(q.Collation, "_")
	switch {
	case q.Collation == "":
		return nil
	case !slices.Contains(charsets, of):
		return engine.Refuse(engine.Invalid, "Parameter \"collation\" is %q, which is no collation that MySQL knows; "+
			"utf8mb4_unicode_ci is a usual one.", q.Collation)
	case q.Charset != "" && of != q.Charset:
		return engine.Refuse(engine.Invalid, "Parameter \"collation\" is %q, which does not belong to the character set %q.",
			q.Collation, q.Charset)
	}
	return nil
}

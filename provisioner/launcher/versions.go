package launcher

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// Version is a version of a server.
type Version struct {
	Flavour string // "mysql" or "mariadb"
	Version string // "9.7.4", or fewer numbers where the launcher does not know more
}

// Is reports whether v has that flavour and version. "" matches any; a version with fewer numbers matches by prefix.
func (v Version) Is(flavour, version string) bool {
	return (flavour == "" || flavour == v.Flavour) &&
		(version == "" || strings.HasPrefix(v.Version+".", version+"."))
}

// Newest returns the newest of the offered versions with that flavour and version, or false if there is none. Where no
// flavour is named, it is that of the first.
func Newest(offered []Version, flavour, version string) (newest Version, found bool) {
	if flavour == "" && len(offered) > 0 {
		flavour = offered[0].Flavour
	}
	for _, v := range offered {
		if v.Is(flavour, version) && (!found || CompareVersions(v.Version, newest.Version) > 0) {
			newest, found = v, true
		}
	}
	return newest, found
}

// CompareVersions compares the numbers of two versions such as "9.7.4" and "10.11.19-MariaDB-log". Missing numbers are
// 0.
func CompareVersions(a, b string) int { return slices.Compare(numbers(a), numbers(b)) }

// SameSeries reports whether two versions differ in the third number at most. Between such versions, the system tables
// do not change.
func SameSeries(a, b string) bool { return slices.Equal(numbers(a)[:2], numbers(b)[:2]) }

func numbers(version string) []int {
	all := make([]int, 3)
	end := strings.IndexFunc(version, func(r rune) bool { return r != '.' && (r < '0' || r > '9') })
	if end >= 0 {
		version = version[:end]
	}
	for i, number := range strings.SplitN(version, ".", len(all)+1)[:min(len(all), 1+strings.Count(version, "."))] {
		all[i], _ = strconv.Atoi(number) // has only digits, or is missing
	}
	return all
}

// Full returns the version with three numbers, as a semantic version has them.
func (v Version) Full() string {
	n := numbers(v.Version)
	return strings.Join([]string{strconv.Itoa(n[0]), strconv.Itoa(n[1]), strconv.Itoa(n[2])}, ".")
}

// String is for people: "MariaDB 11.8.9".
func (v Version) String() string {
	name := map[string]string{"mysql": "MySQL", "mariadb": "MariaDB"}[v.Flavour]
	return strings.TrimSpace(cmp.Or(name, v.Flavour) + " " + v.Version)
}

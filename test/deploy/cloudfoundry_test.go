package deploy

import (
	"encoding/json"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// cf push asks for every variable of the manifest, and refuses none that is too many: they must not drift apart.
func TestManifestsVariables(t *testing.T) {
	t.Parallel()
	var wanted []string
	for _, m := range regexp.MustCompile(`\(\(([^)]*)\)\)`).FindAllStringSubmatch(readFile(t, "manifest.yml"), -1) {
		wanted = append(wanted, m[1])
	}
	var given map[string]string
	if err := yaml.UnmarshalWithOptions([]byte(readFile(t, "deploy/cloudfoundry/vars.example.yml")), &given,
		yaml.Strict()); err != nil {
		t.Fatal(err)
	}
	for _, name := range wanted {
		if _, ok := given[name]; !ok {
			t.Errorf("vars.example.yml lacks %s", name)
		}
	}
	for name := range given {
		if !slices.Contains(wanted, name) {
			t.Errorf("manifest.yml does not use %s", name)
		}
	}
}

// rule is one of a security group. https://docs.cloudfoundry.org/concepts/asg.html
type rule struct {
	Protocol    string `json:"protocol"`
	Destination string `json:"destination"`
	Ports       string `json:"ports"`
	Description string `json:"description"`
}

func TestSecurityGroups(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"broker", "apps"} {
		decoder := json.NewDecoder(strings.NewReader(readFile(t, "deploy/cloudfoundry/security-group-"+file+".json")))
		decoder.DisallowUnknownFields()
		var rules []rule
		if err := decoder.Decode(&rules); err != nil || len(rules) == 0 {
			t.Fatalf("%s: %v, %v", file, rules, err)
		}
		for _, r := range rules {
			if r.Protocol != "tcp" || r.Description == "" || !isDestination(r.Destination) || !arePorts(r.Ports) {
				t.Errorf("%s: Cloud Controller would refuse %+v", file, r)
			}
		}
	}
}

// isDestination takes an address, a network or a range of addresses.
func isDestination(text string) bool {
	low, high, isRange := strings.Cut(text, "-")
	if isRange {
		first, err1 := netip.ParseAddr(low)
		last, err2 := netip.ParseAddr(high)
		return err1 == nil && err2 == nil && first.Less(last)
	}
	if _, err := netip.ParsePrefix(text); err == nil {
		return true
	}
	_, err := netip.ParseAddr(text)
	return err == nil
}

// arePorts takes a port, or a range of ports.
func arePorts(text string) bool {
	low, high, isRange := strings.Cut(text, "-")
	if !isRange {
		high = low
	}
	first, err1 := strconv.ParseUint(low, 10, 16)
	last, err2 := strconv.ParseUint(high, 10, 16)
	return err1 == nil && err2 == nil && 0 < first && first <= last
}

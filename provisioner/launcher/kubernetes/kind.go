package kubernetes

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strconv"
	"strings"
	"time"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/launcher/kubernetes/api"
)

// Kind is how operators choose and configure this launcher.
func Kind() launcher.Kind {
	return launcher.Kind{Name: "kubernetes", Where: "in a Kubernetes cluster", Configure: configure, Places: true,
		Variables: []launcher.Variable{
			{Name: "LAUNCHER_NAMESPACE", Meaning: "namespace of the servers, and of nothing else; required"},
			{Name: "LAUNCHER_IMAGES", Meaning: "images of the servers, joined by commas, each FLAVOUR-VERSION=IMAGE, such as " +
				"mysql-9.7=registry.example.com/mysql@sha256:…; the newest of the first one's flavour is " +
				"that of plans that name none; required"},
			{Name: "LAUNCHER_API", Meaning: "URL of the API server; default: that of the cluster that the broker runs in"},
			{Name: "LAUNCHER_API_CA", Meaning: "CA of the API server's certificate, in PEM"},
			{Name: "LAUNCHER_API_TOKEN", Meaning: "token of the broker's ServiceAccount"},
			{Name: "LAUNCHER_KUBECONFIG", Meaning: "instead of the three, path of a kubeconfig, whose current context is used"},
			{Name: "LAUNCHER_SERVICE", Default: string(InCluster), Meaning: "how applications reach the servers: cluster " +
				"(only from its pods), node-port (at LAUNCHER_NODE_HOST) or load-balancer (one for each)"},
			{Name: "LAUNCHER_NODE_HOST", Meaning: "host name or address of the nodes, for node-port"},
			{Name: "LAUNCHER_STORAGE_CLASS", Meaning: "storage class of the volumes; default: the cluster's default one"},
			{Name: "LAUNCHER_USER", Default: "999",
				Meaning: "user and group that mysqld runs as; 0 leaves the choice to the cluster, as OpenShift wants it"},
			{Name: "LAUNCHER_NODE_TIMEOUT", Default: "5m",
				Meaning: "how long a new server may wait for a node with room, before there is none"},
			{Name: "LAUNCHER_START_TIMEOUT", Default: "10m",
				Meaning: "how long a new server may take besides, the fetch of its image included"},
		}}
}

func configure(env *launcher.Environment) launcher.Configured {
	c := Config{Namespace: env.Value("LAUNCHER_NAMESPACE"), Service: Access(env.Value("LAUNCHER_SERVICE")),
		Host: env.Value("LAUNCHER_NODE_HOST"), StorageClass: env.Value("LAUNCHER_STORAGE_CLASS")}
	if !validName.MatchString(c.Namespace) {
		env.Wrong("LAUNCHER_NAMESPACE", "is not the name of a namespace")
	}
	if _, known := serviceTypes[c.Service]; !known {
		env.Wrong("LAUNCHER_SERVICE", "is not one of cluster, node-port, load-balancer")
	}
	if (c.Service == NodePort) != (c.Host != "") {
		env.Wrong("LAUNCHER_NODE_HOST", "is needed for node-port, and for that alone")
	}
	var err error
	if c.Images, err = parseImages(env.Value("LAUNCHER_IMAGES")); err != nil {
		env.Wrong("LAUNCHER_IMAGES", "is wrong: %w", err)
	}
	if c.User, err = strconv.Atoi(env.Value("LAUNCHER_USER")); err != nil || c.User < 0 {
		env.Wrong("LAUNCHER_USER", "is not the number of a user such as 999, or 0")
	}
	for name, at := range map[string]*time.Duration{"LAUNCHER_NODE_TIMEOUT": &c.PlaceTimeout,
		"LAUNCHER_START_TIMEOUT": &c.LaunchTimeout} {
		if *at, err = time.ParseDuration(env.Value(name)); err != nil || *at <= 0 {
			env.Wrong(name, "is not a duration such as 5m or 90s")
		}
	}
	c.Credentials = configureCredentials(env)
	c.name = env.Name
	return c
}

func configureCredentials(env *launcher.Environment) (c api.Credentials) {
	if path := env.Value("LAUNCHER_KUBECONFIG"); path != "" {
		c, err := api.ReadKubeconfig(path)
		if err == nil {
			_, err = c.Client("")
		}
		if err != nil {
			env.Wrong("LAUNCHER_KUBECONFIG", "cannot be used: %w", err)
		}
		return c
	}
	c.URL, c.CA, c.Token = env.Value("LAUNCHER_API"), []byte(env.Value("LAUNCHER_API_CA")), env.Value("LAUNCHER_API_TOKEN")
	if c.URL == "" {
		return api.Credentials{InCluster: true}
	}
	if u, err := url.Parse(c.URL); err != nil || u.Scheme != "https" || u.Host == "" {
		env.Wrong("LAUNCHER_API", "is not a URL such as https://kubernetes.example.com:6443")
	}
	if c.Token == "" {
		env.Wrong("LAUNCHER_API_TOKEN", "is missing, and LAUNCHER_API needs it")
	}
	return c
}

// parseImages reads FLAVOUR-VERSION=IMAGE,…
func parseImages(text string) (all []Image, err error) {
	for entry := range strings.SplitSeq(text, ",") {
		key, name, _ := strings.Cut(strings.TrimSpace(entry), "=")
		flavour, version, _ := strings.Cut(key, "-")
		if program[flavour] == "" || version == "" || name == "" {
			return nil, fmt.Errorf("%q is not of the form mysql-9.7=IMAGE or mariadb-11.8=IMAGE", entry)
		}
		all = append(all, Image{Flavour: flavour, Version: version, Name: name})
	}
	return all, nil
}

// Open implements launcher.Configured.
func (c Config) Open(o launcher.Options) (launcher.Launcher, error) {
	c.Options = o
	l, err := New(c)
	if err != nil {
		return nil, err
	}
	return l, nil
}

// Beside implements launcher.Configured. Only the namespace separates the servers of two launchers.
func (c Config) Beside(other launcher.Configured) error {
	o, ok := other.(Config)
	if ok && c.Namespace == o.Namespace && c.Credentials.URL == o.Credentials.URL {
		return errors.New("both have the same namespace: set " + c.variable("LAUNCHER_NAMESPACE"))
	}
	return nil
}

// Attributes implements launcher.Configured.
func (c Config) Attributes() []slog.Attr {
	names := make([]string, len(c.Images))
	for i, image := range c.Images {
		names[i] = image.Flavour + " " + image.Version
	}
	return []slog.Attr{slog.String("namespace", c.Namespace), slog.Any("images", names),
		slog.String("service", string(c.Service))}
}

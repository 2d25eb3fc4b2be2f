package kubernetes

import "mysql-broker/provisioner/launcher/kubernetes/api"

// serviceHosts returns the host names of a server within its cluster.
func (c Config) serviceHosts(s *server) []string {
	host := s.name + "." + c.Namespace + ".svc"
	return []string{host, host + ".cluster.local", s.name + "." + c.Namespace, s.name}
}

// knownHost returns the host for applications, or "" if it depends on the Service.
func (c Config) knownHost(s *server) string {
	switch c.Service {
	case InCluster:
		return c.serviceHosts(s)[0]
	case NodePort:
		return c.Host
	}
	return ""
}

// publicAddress returns the address for applications; the host is "" if it is not known yet. The address of a ready
// server never changes, because bindings contain it.
func (c Config) publicAddress(s *server, address api.Service) (host string, publicPort int) {
	if s.state.Host != "" {
		return s.state.Host, s.state.Port
	}
	host = c.knownHost(s)
	switch c.Service {
	case NodePort:
		return host, address.Spec.Ports[0].NodePort
	case LoadBalancer:
		for _, ingress := range address.Status.LoadBalancer.Ingress {
			return ingress.Hostname + ingress.IP, port // it has one of them
		}
	}
	return host, port
}

// setEndpoint records the server's addresses. A broker in the cluster uses the Service's IP address, because a name
// server may cache for a while that the name does not exist.
func (c Config) setEndpoint(s *server, address api.Service) {
	s.state.Host, s.state.Port = c.publicAddress(s, address)
	s.state.AdminHost, s.state.AdminPort = "", 0
	if c.Credentials.InCluster || c.Service == InCluster {
		s.state.AdminHost, s.state.AdminPort = address.Spec.ClusterIP, port
	}
}

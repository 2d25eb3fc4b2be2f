package node

// Configurations of a node's programs, made with text/template of a machine.

const containerdConfig = `version = 2
root = "{{.Dir}}/containerd/root"
state = "{{.Dir}}/containerd/state"
disabled_plugins = ["io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs",
  "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.aufs", "io.containerd.internal.v1.opt"]
[grpc]
address = "{{.Dir}}/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "` + pauseImage + `"
restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".containerd]
default_runtime_name = "runc"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "/usr/lib/cni"
conf_dir = "{{.Dir}}/cni"
`

// ptp routes every pod by itself, so that kube-proxy sees all packets without bridge netfilter.
const cniConfig = `{"cniVersion": "0.4.0", "name": "test", "plugins": [
  {"type": "ptp", "mtu": 65535, "ipam": {"type": "host-local", "dataDir": "{{.Dir}}/ipam",
   "ranges": [[{"subnet": "{{.Pods}}"}]], "routes": [{"dst": "0.0.0.0/0"}]}}
]}
`

// The kubelet accepts control groups of version 1, and does not change those of the host.
const kubeletConfig = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: {{.Address}}
readOnlyPort: 0
authentication: {anonymous: {enabled: false}, webhook: {enabled: false}, x509: {clientCAFile: {{.Cluster}}/pki/ca.crt}}
authorization: {mode: AlwaysAllow}
tlsCertFile: {{.Cluster}}/pki/{{.Program "kubelet"}}.crt
tlsPrivateKeyFile: {{.Cluster}}/pki/{{.Program "kubelet"}}.key
containerRuntimeEndpoint: unix://{{.Dir}}/containerd.sock
cgroupDriver: cgroupfs
cgroupRoot: /{{.Group}}
failCgroupV1: false
failSwapOn: false
enforceNodeAllocatable: []
localStorageCapacityIsolation: false
resolvConf: {{.Dir}}/resolv.conf
clusterDNS: [` + Address + `]
clusterDomain: cluster.local
podLogsDir: {{.Dir}}/pods
volumePluginDir: {{.Dir}}/plugins
evictionHard: {memory.available: 100Mi}
shutdownGracePeriod: 0s
nodeStatusUpdateFrequency: 2s
`

const proxyConfig = `apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: iptables
clientConnection: {kubeconfig: {{.Cluster}}/pki/proxy.kubeconfig}
clusterCIDR: ` + pods + `
hostnameOverride: {{.Name}}
nodePortAddresses: [` + addresses + `]
conntrack: {maxPerCore: 0, min: 0}
`

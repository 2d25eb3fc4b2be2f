package node

// Configurations of the node's programs. %[1]s is the directory of the cluster's state.

const containerdConfig = `version = 2
root = "%[1]s/containerd/root"
state = "%[1]s/containerd/state"
disabled_plugins = ["io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs",
  "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.aufs", "io.containerd.internal.v1.opt"]
[grpc]
address = "%[1]s/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "` + pauseImage + `"
restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".containerd]
default_runtime_name = "runc"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "/usr/lib/cni"
conf_dir = "%[1]s/cni"
`

// ptp routes every pod by itself, so that kube-proxy sees all packets without bridge netfilter.
const cniConfig = `{"cniVersion": "0.4.0", "name": "test", "plugins": [
  {"type": "ptp", "mtu": 65535, "ipam": {"type": "host-local", "dataDir": "%[1]s/ipam",
   "ranges": [[{"subnet": "` + pods + `"}]], "routes": [{"dst": "0.0.0.0/0"}]}}
]}
`

// The kubelet accepts control groups of version 1, and does not change those of the host.
const kubeletConfig = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: ` + Address + `
readOnlyPort: 0
authentication: {anonymous: {enabled: false}, webhook: {enabled: false}, x509: {clientCAFile: %[1]s/pki/ca.crt}}
authorization: {mode: AlwaysAllow}
tlsCertFile: %[1]s/pki/kubelet.crt
tlsPrivateKeyFile: %[1]s/pki/kubelet.key
containerRuntimeEndpoint: unix://%[1]s/containerd.sock
cgroupDriver: cgroupfs
failCgroupV1: false
failSwapOn: false
enforceNodeAllocatable: []
localStorageCapacityIsolation: false
resolvConf: %[1]s/resolv.conf
clusterDNS: [` + Address + `]
clusterDomain: cluster.local
podLogsDir: %[1]s/pods
volumePluginDir: %[1]s/plugins
evictionHard: {memory.available: 100Mi}
shutdownGracePeriod: 0s
nodeStatusUpdateFrequency: 2s
`

const proxyConfig = `apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: iptables
clientConnection: {kubeconfig: %q}
clusterCIDR: ` + pods + `
hostnameOverride: ` + name + `
conntrack: {maxPerCore: 0, min: 0}
`

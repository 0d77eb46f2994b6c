#!/usr/bin/env bash
# Build the programs of Kubernetes 1.20.2 from Debian's source package, for the tests with AIPERF_KUBERNETES=FOLDER.
#
#     tests/rigs/kubernetes/build.sh FOLDER
#
# Needs deb-src lines for apt, and: apt-get install golang-go golang-github-modern-go-reflect2-dev dpkg-dev etcd-server
# Takes 5 min of two idle cores (28 min at load 20) and 4.3 GB.
#
# Nodes need root, control groups of version 1, and: apt-get install containerd runc containernetworking-plugins podman iproute2
# AIPERF_IMAGE=IMAGE names the image of all pods in podman's storage (docs/clusters.md, "Image"), and AIPERF_KUBERAY_CRDS=FOLDER
# the folder of KubeRay's CRDs. The unpacked image is kept in FOLDER/containerd-NUMBER (5 GB).
set -euo pipefail
[ $# -eq 1 ] || { echo "usage: $0 FOLDER" >&2; exit 2; }
mkdir -p "$1"
folder="$(cd "$1" && pwd)"
work="$(mktemp -d)"
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
cd "$work"
apt-get source --download-only kubernetes
root="$work/go/src/k8s.io/kubernetes"
mkdir -p "$(dirname "$root")"
dpkg-source -x kubernetes_*.dsc "$root"
cd "$root"
# the vendored reflect2 does not compile with Go 1.18 and newer
rm -rf vendor/github.com/modern-go/reflect2
cp -r /usr/share/gocode/src/github.com/modern-go/reflect2 vendor/github.com/modern-go/
# these two refuse `default: ""` in KubeRay's CRDs, as later versions do not
zero='if data == nil || reflect.DeepEqual(reflect.Zero(reflect.TypeOf(data)), reflect.ValueOf(data)) {'
sed -i "s/$zero/if data == nil {/" vendor/k8s.io/kube-openapi/pkg/validation/validate/type.go \
  vendor/github.com/go-openapi/validate/type.go
export GOPATH="$work/go" GO111MODULE=off GOCACHE="$work/cache" CGO_ENABLED=0
go build -p 2 -o "$work/openapi-gen" k8s.io/kubernetes/vendor/k8s.io/kube-openapi/cmd/openapi-gen
mapfile -t packages < <(
  grep -rl --include='*.go' '+k8s:openapi-gen=' pkg cmd staging/src/k8s.io |
    grep -vE '_test.go|zz_gen|/testdata/|/generated/|/(sample-|code-generator)' | xargs -n1 dirname | sort -u |
    sed 's#^staging/src/#vendor/#; s#^#k8s.io/kubernetes/#'
)
"$work/openapi-gen" --logtostderr -i "$(IFS=,; echo "${packages[*]}")" -p k8s.io/kubernetes/pkg/generated/openapi \
  -O zz_generated.openapi -h hack/boilerplate/boilerplate.generatego.txt -r "$work/violations"
for program in kube-apiserver kube-controller-manager kube-scheduler kubectl kubelet; do
  go build -p 2 -o "$folder/$program" "k8s.io/kubernetes/cmd/$program"
done

#!/usr/bin/env bash
# try_debian13_torch.sh - the adapter with the PyTorch 2.6 that Debian 13 has for CUDA: compiled against its
# headers, linked with its libraries, loaded and installed in its Python. There is no GPU in it.
#
# Needs root, build/libvramwise*.so, and 5 GB under build-debian13, 2 GB more while it downloads.
# Debian's nvidia-cudnn downloads from NVIDIA when it is installed; an empty package stands in for it, and
# for libcudnn a library whose functions do nothing: PyTorch has to find them and calls none here.
set -euo pipefail
cd "$(dirname "$0")/../.."
root=build-debian13/root
tried=$root/opt/try
in_root() { tools/debian_root.sh run $root "$@"; }
fail() { echo "try_debian13_torch: $*" >&2; exit 1; }
[ -e build/libvramwise-torch.so ] || fail "there is no build/libvramwise-torch.so; 'make' makes it"

get_packages() {
    tools/debian_root.sh make trixie $root g++ python3
    sed -i 's/ main$/ main contrib non-free/' $root/etc/apt/sources.list
    # shellcheck disable=SC2016  # the inner shell's
    in_root bash -euc '
        mkdir -p /opt/nvidia-cudnn/DEBIAN && cd /opt
        printf "%s\n" "Package: nvidia-cudnn" "Version: 9.9" "Architecture: all" \
            "Maintainer: nobody <nobody@localhost>" "Description: empty" >nvidia-cudnn/DEBIAN/control
        dpkg-deb -b nvidia-cudnn nvidia-cudnn.deb >/dev/null
        dpkg -i nvidia-cudnn.deb >/dev/null
        apt-get update -qq --error-on=any
        apt-get install -qq -y --no-install-recommends libtorch-cuda-dev python3-torch-cuda
        [ -e /usr/include/cuda_runtime_api.h ] || {
            apt-get download -qq nvidia-cuda-dev
            dpkg-deb --fsys-tarfile nvidia-cuda-dev_*.deb | tar -x -C / ./usr/include # the rest is 2 GB
            rm nvidia-cuda-dev_*.deb
        }
        apt-get clean' >>$root.log 2>&1 ||
        { tail -n 20 $root.log >&2; fail "PyTorch could not be installed; all that was said is in $root.log"; }
}

stand_in_for_cudnn() {
    # shellcheck disable=SC2016  # the inner shell's
    in_root bash -euc 'cd /opt
        for library in torch_cuda torch_python; do
            nm -D --undefined-only /usr/lib/x86_64-linux-gnu/lib$library.so
        done | sed -n "s/^ *U \(cudnn[A-Za-z0-9_]*\).*/void \1(void) {}/p" | sort -u >cudnn.c
        echo "libcudnn.so.9 { *; };" >cudnn.versions
        gcc -shared -fPIC -w -Wl,-soname,libcudnn.so.9,--version-script,cudnn.versions \
            -o /usr/lib/x86_64-linux-gnu/libcudnn.so.9 cudnn.c'
}

if [ ! -e $root/opt/has-torch ]; then
    get_packages
    stand_in_for_cudnn
    touch $root/opt/has-torch
fi
rm -rf $tried && mkdir -p $tried/build
cp -r python adapters include $tried/
cp -a build/libvramwise.so* build/libvramwise-torch.so* $tried/build/
cp tests/install/debian13_torch.py $tried/
in_root env XDG_CACHE_HOME=/opt/try/cache PYTHONPATH=/opt/try/python PYTHONDONTWRITEBYTECODE=1 \
    python3 /opt/try/debian13_torch.py

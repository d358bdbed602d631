#!/usr/bin/env bash
# make_wheel.sh [x86_64|aarch64] - dist/vramwise-*.whl, which needs glibc 2.31 and Python 3.9 only.
#
# It is built in a bare Debian 11, whose glibc is 2.31: a program linked there runs with that one and
# any later. zlib, liblzma, libzstd, ncurses and libmicrohttpd are linked into it statically. Debian's
# libmicrohttpd.a wants GnuTLS and all that it stands on, so it is built here from the source of Debian
# 12, without TLS, which we do not serve. For aarch64 the same root has a cross-compiler.
#
# TORCH_HEADERS names a folder of PyTorch's headers, VERSION/include each: then the wheel also has an
# adapter for each of these versions, so that users need no compiler. CUDA_HEADERS are the CUDA runtime's.
# For x86_64 only.
#
# The root stays in build-wheel/, and is used again. tools/check_shipped.py looks at the result.
set -euo pipefail
cd "$(dirname "$0")/.."
machine=${1:-x86_64}
case $machine in
x86_64) architecture=amd64 ;;
aarch64) architecture=arm64 ;;
*) echo "usage: tools/make_wheel.sh [x86_64|aarch64]" >&2; exit 2 ;;
esac
glibc=2.31 # Debian 11's
[ "$(uname -m)" = x86_64 ] || { echo "make_wheel: both wheels are built on x86_64" >&2; exit 3; }
triplet=$machine-linux-gnu
root=build-wheel/bullseye
in_root() { tools/debian_root.sh run "$root" "$@"; }

echo "== a Debian 11 to build in"
tools/debian_root.sh make bullseye "$root" gcc libc6-dev make cmake ninja-build python3 dpkg-dev scdoc
libraries="zlib1g-dev liblzma-dev libzstd-dev libncurses-dev"
# shellcheck disable=SC2086  # words
tools/debian_root.sh make bullseye "$root" $libraries # and their licences
foreign=/opt/$machine
if [ $machine != x86_64 ]; then
    tools/debian_root.sh make bullseye "$root" gcc-$triplet libc6-dev-$architecture-cross
    # shellcheck disable=SC2086
    [ -d "$root$foreign" ] || tools/debian_root.sh unpack $architecture "$root" "$foreign" $libraries
fi

http=/opt/microhttpd-$machine
if [ ! -e "$root$http/licenses/libmicrohttpd" ]; then # which comes last
    echo "== libmicrohttpd for $machine, without TLS"
    echo "deb-src ${DEBIAN_MIRROR:-http://deb.debian.org}/debian bookworm main" \
        >"$root/etc/apt/sources.list.d/source.list"
    echo "deb-src ${DEBIAN_MIRROR:-http://deb.debian.org}/debian-security bookworm-security main" \
        >>"$root/etc/apt/sources.list.d/source.list"
    in_root bash -euc '
        apt-get update -qq
        rm -rf /opt/source && mkdir -p /opt/source && cd /opt/source
        apt-get source -qq libmicrohttpd
        cd libmicrohttpd-*/
        ./configure --quiet --host="$1" --prefix="$2" --disable-shared --enable-static --with-pic \
            --disable-https --disable-doc --disable-examples --disable-curl --disable-postprocessor \
            CFLAGS="-O2 -fstack-protector-strong -D_FORTIFY_SOURCE=2"
        make -s -C src/microhttpd -j"$(nproc)" && make -s -C src/microhttpd install
        make -s -C src/include install
        mkdir -p "$2/licenses" && ls ../*.dsc | sed "s/.*\///; s/.dsc//" >"$2/licenses/libmicrohttpd-source"
        cp debian/copyright "$2/licenses/libmicrohttpd"
    ' in_root $triplet $http >build-wheel/microhttpd.log 2>&1 ||
        { tail -n 20 build-wheel/microhttpd.log >&2; exit 1; }
fi

echo "== the wheel for $machine"
source=$root/opt/vramwise
rm -rf "$source" "$root/opt/wheel" "$root/opt/licenses"
mkdir -p "$source" "$root/opt/wheel" "$root/opt/licenses" dist
tools/source_files.sh | tar -cf - --null --files-from=- | tar -xf - -C "$source"
for library in zlib1g liblzma5 libzstd1 libncursesw6; do
    cp "$root/usr/share/doc/$library/copyright" "$root/opt/licenses/$library"
done
cp "$root$http/licenses/libmicrohttpd" "$root/opt/licenses/"
cp "$root/usr/share/common-licenses/LGPL-2.1" "$root/opt/licenses/"
{
    echo "Linked into this wheel, as Debian has them; libmicrohttpd is built from its source without TLS."
    in_root dpkg-query -W -f '${source:Package} ${source:Version}\n' zlib1g-dev liblzma-dev libzstd-dev \
        libncurses-dev
    tr _ ' ' <"$root$http/licenses/libmicrohttpd-source"
} >"$root/opt/licenses/VERSIONS"
arguments="-DVW_STATIC_LIBRARIES=ON -DVW_EXAMPLES=OFF -DCMAKE_PREFIX_PATH=$http
 -DCMAKE_SHARED_LINKER_FLAGS=-s -DCMAKE_EXE_LINKER_FLAGS=-s"
if [ $machine != x86_64 ]; then
    arguments+=" -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=$machine -DCMAKE_C_COMPILER=$triplet-gcc
 '-DCMAKE_C_FLAGS=-isystem $foreign/usr/include/$triplet' -DCMAKE_FIND_ROOT_PATH=$foreign;$http
 -DCMAKE_FIND_ROOT_PATH_MODE_INCLUDE=ONLY -DCMAKE_FIND_ROOT_PATH_MODE_LIBRARY=ONLY"
fi
adapters=
if [ -n "${TORCH_HEADERS:-}" ] && [ $machine = x86_64 ]; then
    echo "== adapters for PyTorch"
    cuda=${CUDA_HEADERS:-/usr/local/cuda/include}
    [ -e "$cuda/cuda_runtime_api.h" ] ||
        { echo "make_wheel: $cuda has no cuda_runtime_api.h: set CUDA_HEADERS" >&2; exit 3; }
    tools/debian_root.sh make bullseye "$root" g++
    rm -rf "$root/opt/headers" "$root/opt/adapters"
    mkdir -p "$root/opt/headers/cuda"
    cp -r "$TORCH_HEADERS"/*/ "$root/opt/headers/"
    cp -rL "$cuda/." "$root/opt/headers/cuda/"
    install -D -t "$source/tools" tools/make_adapters.py tools/hipify_headers.py
    in_root bash -euc '
        cmake -S /opt/vramwise -B /opt/vramwise/build -G Ninja -DCMAKE_BUILD_TYPE=Release \
            -DVW_TESTS=OFF -DVW_BENCH=OFF $1 --log-level=NOTICE
        cmake --build /opt/vramwise/build --target program
        /opt/vramwise/tools/make_adapters.py /opt/headers /opt/adapters --cuda /opt/headers/cuda
    ' in_root "$arguments" >build-wheel/adapters.log 2>&1 || { tail -n 30 build-wheel/adapters.log >&2; exit 1; }
    sed -n 's/^adapter: /  /p' build-wheel/adapters.log
    adapters=/opt/adapters
else
    echo "make_wheel: without adapters: TORCH_HEADERS is not set, or this is not x86_64"
fi
in_root env VRAMWISE_WHEEL_ADAPTERS=$adapters VRAMWISE_WHEEL_PLATFORM=manylinux_${glibc/./_}_$machine VRAMWISE_WHEEL_LICENSES=/opt/licenses \
    VRAMWISE_BUILD_DIR=/opt/vramwise/build VRAMWISE_CMAKE_ARGUMENTS="$arguments" \
    python3 -B -c 'import sys
sys.path.insert(0, "/opt/vramwise/python")
import build_backend
build_backend.build_wheel("/opt/wheel")' >build-wheel/build-$machine.log 2>&1 ||
    { tail -n 30 build-wheel/build-$machine.log >&2; exit 1; }
if grep '^no [a-z]*: ' build-wheel/build-$machine.log; then
    echo "make_wheel: the wheel must have every part" >&2
    exit 1
fi
tools/check_shipped.py "$root"/opt/wheel/*.whl
rm -f dist/vramwise-*_$machine.whl
cp "$root"/opt/wheel/*.whl dist/

#!/usr/bin/env bash
# test_wheel.sh [x86_64|aarch64] - the wheel of dist/ in bare roots of Debian 11, 12 and 13, each with python3
# and python3-venv and nothing else; then the same from source, in one with a compiler. For aarch64 the
# wheel runs under an emulator, with the libraries of Debian 11.
set -euo pipefail
cd "$(dirname "$0")/../.."
recording=tests/data/recordings/streams.native.pickle.xz
fail() { echo "test_wheel: $*" >&2; exit 1; }
wheel=$(echo dist/vramwise-*-manylinux_*_"${1:-x86_64}".whl)
[ -e "$wheel" ] || fail "there is no $wheel; 'make wheel' makes it"

in_bare_roots() {
    local suite root
    for suite in bullseye bookworm trixie; do
        echo "== Debian $suite"
        root=build-wheel/bare-$suite
        tools/debian_root.sh make $suite "$root" python3 python3-venv
        rm -rf "$root/opt/try" && mkdir -p "$root/opt/try"
        cp "$wheel" $recording tests/install/use.py "$root/opt/try/"
        tools/debian_root.sh run "$root" python3 /opt/try/use.py "/opt/try/$(basename "$wheel")" \
            "/opt/try/$(basename $recording)"
    done
}

# A machine with a C compiler, make and CMake, the oldest that we take, and none of the libraries.
from_source() {
    local root=build-wheel/compiler
    echo "== from source, with a compiler and CMake alone"
    tools/debian_root.sh make bullseye $root gcc libc6-dev make cmake python3 python3-venv
    rm -rf $root/opt/source && mkdir -p $root/opt/source
    { tools/source_files.sh; printf '%s\0' Makefile tests/install/use.py $recording; } |
        tar -cf - --null --files-from=- | tar -xf - -C $root/opt/source
    tools/debian_root.sh run $root bash -euc 'cd /opt/source
        make 2>&1 | grep "^no " | tee said
        [ "$(wc -l <said)" = 5 ]
        apt-get install -qq -y --no-install-recommends zlib1g-dev >/dev/null # what was missing is found
        make 2>&1 | grep "^no " | tee said
        [ "$(wc -l <said)" = 4 ]
        apt-get purge -qq -y zlib1g-dev >/dev/null
        build/vramwise demo | tail -n 1
        make sdist
        rm -rf /tmp/environment && python3 -m venv /tmp/environment
        /tmp/environment/bin/pip install -q --no-index dist/*.tar.gz
        /tmp/environment/bin/vramwise plan --model gpt2 --card 24GiB | head -n 1
        /tmp/environment/bin/python -c "import vramwise; print(vramwise.__version__)"
    ' || fail "it cannot be built from source there"
}

emulated=build-wheel/bullseye/opt/emulated

if [ "${1:-}" = aarch64 ]; then
    emulator=$(command -v qemu-aarch64-static || command -v qemu-aarch64) ||
        fail "there is no qemu-aarch64 (tools/setup.sh package)"
    [ -d $emulated ] || tools/debian_root.sh unpack arm64 build-wheel/bullseye /opt/emulated libc6 \
        libcrypt1 libexpat1 libffi7 libgcc-s1 liblzma5 libssl1.1 libuuid1 zlib1g python3.9-minimal \
        libpython3.9-minimal libpython3.9-stdlib
    echo "== aarch64, emulated"
    python3 tests/install/use.py "$wheel" $recording --emulator "$emulator -L '$PWD/$emulated'" \
        --python "$PWD/$emulated/usr/bin/python3.9"
else
    in_bare_roots
    from_source
fi

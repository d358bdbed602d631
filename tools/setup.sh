#!/usr/bin/env bash
# setup.sh [--check] GROUP... - sees that this machine has what the groups need.
#
#   build   to build the libraries, the program and the man pages
#   test    to run `make test-quick` and `make fuzz`; includes site
#   site    to run `make site`
#   viewer  to build the page of `vramwise view` again, and to test it in a browser
#   bench   to run `make bench`
#   package to run `make wheel`, `make deb` and their tests
#   style   to run `make format` and `make tidy`
#
# It looks for what is used (commands, pkg-config modules, a compiler's parts), never for package
# names: a compiler built by hand is as good as Debian's. What is there is left alone, in whatever
# version it is; only what is missing is installed, through apt, as root or with a sudo that asks
# nothing. Where that cannot be, it says what is missing and the exact command, and exits with 3.
# When nothing is missing it only looks, which takes a moment and no network.
set -euo pipefail

# group | how to look | what | Debian packages that bring it | what for
needs='
build|c_compiler|cc|gcc libc6-dev|the C compiler and the C library headers
build|cmake_3_18|cmake|cmake|configuring; 3.18 or newer
build|any_of|ninja make|ninja-build|building
build|command|pkg-config|pkg-config|finding libraries
build|module|zlib|zlib1g-dev|recordings compressed with gzip
build|module|liblzma|liblzma-dev|recordings compressed with xz
build|module|libzstd|libzstd-dev|recordings compressed with zstd
build|module|libmicrohttpd|libmicrohttpd-dev|vramwise view --serve, vramwise exporter
build|module|sqlite3|libsqlite3-dev|vramwise report -o FILE.sqlite
build|module|ncursesw|libncurses-dev|vramwise top
build|command|scdoc|scdoc|the man pages
test|module|cmocka|libcmocka-dev|the unit tests
test|module|jansson|libjansson-dev|reading JSON, in tests, with another reader than ours
test|command|clang|clang|the second compiler
test|clang_runtime|fuzzer|@clang_runtime|sanitizers and fuzzing with clang
test|cxx_compiler|c++|g++|the public headers as C++11, and the adapter for PyTorch
site|command|python3|python3|the site, the checks and the command-line tests
test|python_module|ensurepip|python3-venv|the Python package, installed in an environment of its own
test|pytest|pytest|python3-pytest|the plugin for pytest, in tests
test|command|mypy|mypy|the types of the Python package
test|command|nm|binutils|the check of exported symbols
test|all_of|prometheus promtool|@programs_of:prometheus|the metrics and alerts, as Prometheus sees them
test|command|gzip|gzip|compressed recordings, in tests
test|command|xz|xz-utils|compressed recordings, in tests
test|command|zstd|zstd|compressed recordings, in tests
test|command|tmux|tmux|the screen of vramwise top, in tests
site|command|cmark-gfm|cmark-gfm|pages from Markdown
site|command|mandoc|mandoc|pages from man pages
viewer|node_18|node|nodejs|building the page; 18 or newer
viewer|command|npm|npm|the packages the page is built with
viewer|any_of|chromium chromium-browser google-chrome|chromium|the browser tests
bench|command|valgrind|valgrind|counting instructions
test|command|valgrind|valgrind|what files cost, in tests
package|command|debootstrap|debootstrap|a bare Debian to build and try packages in
package|path|/usr/share/keyrings/debian-archive-keyring.gpg|debian-archive-keyring|knowing that what comes is Debian
package|command|gpgv|gpgv|the same
package|any_of|qemu-aarch64-static qemu-aarch64|qemu-user-static|trying the wheel for aarch64
style|command|clang-format|clang-format|make format
style|command|clang-tidy|clang-tidy|make tidy
'

have() { command -v "$1" >/dev/null 2>&1; }

# cc alone is not enough: Debian's gcc comes without the C library's headers and start files.
has_c_compiler() {
    local start_file
    have cc && start_file=$(cc -print-file-name=crt1.o 2>/dev/null) && [ -e "$start_file" ]
}

# clang++ is nothing without a C++ library, which comes with g++.
has_cxx_compiler() {
    local name
    for name in c++ clang++ g++; do
        have "$name" && echo '#include <string>' | "$name" -x c++ -fsyntax-only - 2>/dev/null &&
            return 0
    done
    return 1
}

has_cmake_3_18() {
    local version
    have cmake && version=$(cmake --version 2>/dev/null | sed -n '1s/[^0-9]*\([0-9.]*\).*/\1/p') &&
        [ "$(printf '3.18\n%s\n' "$version" | sort -V | head -n 1)" = 3.18 ]
}

has_node_18() {
    local major
    have node && major=$(node -p 'process.versions.node.split(".")[0]' 2>/dev/null) &&
        [ "$major" -ge 18 ]
}

has_all_of() {
    local name
    for name in $1; do have "$name" || return 1; done
}

has_any_of() {
    local name
    for name in $1; do have "$name" && return 0; done
    return 1
}

# Debian's is found by Debian's Python alone, which may not be the first one.
has_pytest() {
    local python
    for python in python3 /usr/bin/python3; do
        have "$python" && "$python" -c 'import pytest' 2>/dev/null && return 0
    done
    return 1
}

# Linking is the proof; looking where clang says it would be is the same answer in a tenth of the
# time, where it is yes.
has_clang_runtime() {
    local folder file scratch status=1
    have clang || return 1
    folder=$(clang -print-runtime-dir 2>/dev/null) || folder=
    for file in "$folder"/libclang_rt.fuzzer*.a; do [ -e "$file" ] && return 0; done
    scratch=$(mktemp -d)
    echo 'int LLVMFuzzerTestOneInput(const unsigned char *d, unsigned long n) { return !d && n; }' |
        clang -fsanitize=fuzzer,address -x c - -o "$scratch/trial" 2>/dev/null && status=0
    rm -rf "$scratch"
    return $status
}

clang_runtime_package() {
    local major=
    if have clang; then major=$(clang -dumpversion | cut -d . -f 1); fi
    echo "libclang-rt-${major:+$major-}dev"
}

# Of packages that would start a service: @programs_of:NAME is what lies in its /usr/bin, alone.
own_folder=/usr/local/bin
install_programs_of() {
    local scratch
    scratch=$(mktemp -d)
    (
        cd "$scratch" && apt-get download -q "$1" && dpkg-deb -x "$1"_*.deb . &&
            "${as_root[@]}" install -m 755 usr/bin/* "$own_folder/"
    )
    rm -rf "$scratch"
}

is_there() {
    case $1 in
    command) have "$2" ;;
    path) [ -e "$2" ] ;;
    all_of) has_all_of "$2" ;;
    any_of) has_any_of "$2" ;;
    module) have pkg-config && pkg-config --exists "$2" 2>/dev/null ;;
    python_module) have python3 && python3 -c "import $2" 2>/dev/null ;;
    c_compiler | cxx_compiler | cmake_3_18 | node_18 | clang_runtime | pytest) "has_$1" ;;
    *) echo "setup: no way to look for '$1'" >&2; exit 2 ;;
    esac
}

# Fills `missing` (one line each, for people) and `packages`.
look() {
    local group how what package purpose names
    missing=() packages=()
    while IFS='|' read -r group how what package purpose; do
        [[ -n $group && " $groups " == *" $group "* ]] || continue
        is_there "$how" "$what" && continue
        missing+=("$what ($purpose)")
        if [ "$package" = @clang_runtime ]; then package=$(clang_runtime_package); fi
        read -r -a names <<<"$package"
        packages+=("${names[@]}")
    done <<<"$needs"
}

only_look=no groups=
for word in "$@"; do
    case $word in
    --check) only_look=yes ;;
    test) groups+=" test site" ;; # the tests make the site
    build | site | viewer | bench | package | style) groups+=" $word" ;;
    *) echo "usage: tools/setup.sh [--check] build|test|site|viewer|bench|package|style..." >&2; exit 2 ;;
    esac
done
groups=${groups:- build}

look
[ ${#missing[@]} -gt 0 ] || exit 0
printf 'setup: missing: %s\n' "${missing[@]}" >&2

if ! have apt-get; then
    echo "setup: no apt-get here; install the above by this system's own means (the Debian" \
        "packages are: ${packages[*]#@programs_of:})" >&2
    exit 3
fi
as_root=()
if [ "$(id -u)" != 0 ]; then as_root=(sudo -n); fi
if [ $only_look = yes ] || { [ "$(id -u)" != 0 ] && ! sudo -n true 2>/dev/null; }; then
    echo "setup: to install them: sudo apt-get install --no-install-recommends ${packages[*]#@programs_of:}" >&2
    exit 3
fi

echo "setup: installing ${packages[*]#@programs_of:}" >&2
export DEBIAN_FRONTEND=noninteractive
"${as_root[@]}" apt-get update -q
# A package this release does not have may be part of another one; the second look will tell.
known=()
unpacked=()
for package in "${packages[@]}"; do
    case $package in
    @programs_of:*) unpacked+=("${package#*:}"); continue ;;
    esac
    if apt-cache show "$package" >/dev/null 2>&1; then known+=("$package"); fi
done
if [ ${#known[@]} -gt 0 ]; then
    "${as_root[@]}" apt-get install -q -y --no-install-recommends "${known[@]}"
fi
for package in "${unpacked[@]}"; do install_programs_of "$package"; done
hash -r
look
if [ ${#missing[@]} -gt 0 ]; then
    printf 'setup: still missing: %s\n' "${missing[@]}" >&2
    exit 3
fi

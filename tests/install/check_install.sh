#!/usr/bin/env bash
# check_install.sh CMAKE BUILD_FOLDER CC - installs a build into a folder of its own, builds programs
# against it in the three ways people do, runs them, uninstalls, and looks that nothing is left.
set -euo pipefail
cmake=$1 build=$2 cc=$3
unset LD_LIBRARY_PATH
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
stage=$(mktemp -d)
manifest=$build/install_manifest.txt
kept_manifest=$stage/kept_manifest.txt

# The build folder remembers one installation; a real one must not be forgotten for this one.
if [ -e "$manifest" ]; then cp "$manifest" "$kept_manifest"; fi
clean_up() {
    rm -f "$manifest"
    if [ -e "$kept_manifest" ]; then cp "$kept_manifest" "$manifest"; fi
    rm -rf "$stage"
}
trap clean_up EXIT
fail() { echo "install: $*" >&2; exit 1; }

# Installed with DESTDIR and a prefix, then used from where DESTDIR put it: it may be moved.
export DESTDIR=$stage/root
prefix=/opt/vramwise
"$cmake" --install "$build" --prefix "$prefix" >"$stage/install.log" || {
    cat "$stage/install.log"; fail "cmake --install failed"; }
unset DESTDIR
place=$stage/root$prefix
(cd "$place" && find . -type f -o -type l | sort)

for file in bin/vramwise include/vramwise/version.h include/vramwise/device.h \
    share/vramwise/python/vramwise/_start/sitecustomize.py \
    include/vramwise/vramwise_torch_support.h share/doc/vramwise/THIRD_PARTY \
    share/bash-completion/completions/vramwise share/zsh/site-functions/_vramwise; do
    [ -e "$place/$file" ] || fail "$file was not installed"
done
if command -v scdoc >/dev/null; then
    [ -s "$place/share/man/man1/vramwise.1" ] || fail "the man page was not installed"
    if command -v man >/dev/null; then
        for page in "$place"/share/man/man1/*.1; do
            MANWIDTH=80 LC_ALL=C.UTF-8 man -l "$page" | grep '‐$' &&
                fail "$(basename "$page") cuts words in two"
        done
    fi
fi
[ "$("$place/bin/vramwise" --version)" != "" ] || fail "the installed program does not run"

"$place/bin/vramwise" run -- python3 -c 'import os; assert "VRAMWISE_RUN" in os.environ' ||
    fail "the installed program does not run a program"

mkdir "$stage/pages"
VRAMWISE_LIVE_DIR=$stage/pages PYTHONPATH=$root/tests/support/fake_torch_watch \
    "$place/bin/vramwise" run -- python3 -c 'import os, torch; torch._C.allocate(1)
assert len(os.listdir(os.environ["VRAMWISE_LIVE_DIR"])) == 1' ||
    fail "a program that the installed program runs has no page"

library_folder=$(dirname "$(find "$place" -name libvramwise.a)")
export PKG_CONFIG_PATH=$library_folder/pkgconfig
# The loader does not search this prefix, and what is linked here runs all the same.
# shellcheck disable=SC2046  # pkg-config answers with words
"$cc" -Wall -Werror "$here/consumer.c" -o "$stage/by_pkg_config" $(pkg-config --cflags --libs vramwise)
"$stage/by_pkg_config" || fail "the pkg-config program failed"
# shellcheck disable=SC2046
"$cc" -Wall -Werror "$here/analysis_consumer.c" -o "$stage/analysis_by_pkg_config" \
    $(pkg-config --cflags --libs vramwise-analysis)
"$stage/analysis_by_pkg_config" ||
    fail "the pkg-config program of the analysis library failed"
# The examples, as their first lines say; and what they write is a recording.
cxx=$(command -v c++ || command -v clang++ || command -v g++) || fail "no C++ compiler"
# shellcheck disable=SC2046
"$cc" -Wall -Werror "$root/examples/pool_in_c.c" -o "$stage/pool_in_c" \
    $(pkg-config --cflags --libs vramwise)
# shellcheck disable=SC2046
"$cxx" -std=c++17 -Wall -Werror "$root/examples/pool_in_cpp.cpp" -o "$stage/pool_in_cpp" \
    $(pkg-config --cflags --libs vramwise)
for example in pool_in_c pool_in_cpp; do
    "$stage/$example" "$stage/$example.pickle" ||
        fail "the example $example failed"
    "$place/bin/vramwise" stats "$stage/$example.pickle" >/dev/null ||
        fail "what the example $example wrote is no recording"
done

# Under /usr the loader searches by itself, and pkg-config adds nothing.
DESTDIR=$stage/usr "$cmake" --install "$build" --prefix /usr >/dev/null
[ -z "$(grep -rl --include="*.pc" -e -rpath "$stage/usr")" ] || fail "a .pc under /usr has an rpath"
rm -rf "$stage/usr"
DESTDIR=$stage/root "$cmake" --install "$build" --prefix "$prefix" >/dev/null # its manifest again

# libvramwise-torch finds libvramwise beside it, and asks for no search path.
found=$(env -u LD_LIBRARY_PATH ldd "$library_folder/libvramwise-torch.so")
[[ $found == *"$library_folder/libvramwise.so"* ]] ||
    fail "libvramwise-torch does not find libvramwise beside it"

readelf -d "$stage/by_pkg_config" | grep -q 'NEEDED.*libvramwise\.so\.[0-9]' ||
    fail "the program was not linked with the soname"

"$cmake" -S "$here" -B "$stage/by_cmake" -DCMAKE_PREFIX_PATH="$place" -DCMAKE_C_COMPILER="$cc" \
    >"$stage/configure.log" 2>&1 || { cat "$stage/configure.log"; fail "find_package failed"; }
"$cmake" --build "$stage/by_cmake" >"$stage/build.log" 2>&1 || {
    cat "$stage/build.log"; fail "the find_package project does not build"; }
for kind in vramwise static analysis analysis_static; do
    "$stage/by_cmake/consumer_$kind" || fail "the program with vramwise::$kind failed"
done

DESTDIR=$stage/root "$cmake" -DMANIFEST="$manifest" -P "$root/cmake/uninstall.cmake"
left=$(find "$stage/root" \( -not -type d -o -name vramwise -not -path "$place" \) -print)
[ -z "$left" ] || fail "left behind after uninstalling: $left"

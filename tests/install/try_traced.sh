#!/usr/bin/env bash
# try_traced.sh - plans by tracing, with the PyTorch that Debian 13 has, on a machine without a GPU.
#
# Needs root, build/vramwise, build/libvramwise*.so, and 2 GB under build-traced. The second time takes a minute.
set -euo pipefail
cd "$(dirname "$0")/../.."
root=build-traced/root
tried=$root/opt/try
in_root() { tools/debian_root.sh run $root "$@"; }
fail() { echo "try_traced: $*" >&2; exit 1; }
[ -x build/vramwise ] || fail "there is no build/vramwise; 'make' makes it"
mkdir -p build-traced
if [ ! -e $root/opt/has-torch ]; then
    tools/debian_root.sh make trixie $root python3 python3-torch python3-torchvision python3-pytest libmicrohttpd12t64
    touch $root/opt/has-torch
fi
rm -rf $tried && mkdir -p $tried/build
cp -r python include $tried/
cp -a build/vramwise build/libvramwise*.so* $tried/build/
cp tests/install/traced_*.py $tried/
in_try() {
    in_root env VRAMWISE_PYTHON=/opt/try/python VRAMWISE_LIBRARY_DIR=/opt/try/build \
        PYTHONPATH=/opt/try/python PYTHONDONTWRITEBYTECODE=1 "$@"
}
in_try python3 /opt/try/traced_torch.py
for words in "" "--amp"; do
    # shellcheck disable=SC2086  # no word has a space
    in_try /opt/try/build/vramwise plan --trace /opt/try/traced_script.py --card rtx4090 -- $words >$root.plan 2>$root.said ||
        { cat $root.said $root.plan >&2; fail "the script was not planned"; }
    grep -q "^fits: " $root.plan || fail "expected 'fits: ...', found $(head -n 1 $root.plan)"
done
in_try /opt/try/build/vramwise plan --trace /opt/try/traced_script.py -- --odd >$root.plan 2>$root.said &&
    fail "an operator without a fake was planned"
grep -q "traced_script.py:.*odd" $root.said || { cat $root.said >&2; fail "the line was not named"; }
in_try python3 -m pytest -q -p vramwise.pytest_plugin -p no:cacheprovider /opt/try/traced_marked.py >$root.marked 2>&1 &&
    fail "tests that exceed their memory passed"
for words in "peak: 256 MiB alive at once on a planned GPU, 64.0 MiB allowed" "256 MiB  traced_marked.py:.* test_large" \
    "growth: 4.00 MiB more alive after each repetition" "2 failed, 1 passed, 1 skipped"; do
    grep -q "$words" $root.marked || { cat $root.marked >&2; fail "expected '$words'"; }
done
echo "try_traced: all as expected"

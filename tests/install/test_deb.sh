#!/usr/bin/env bash
# test_deb.sh - the packages of dist/ in a bare Debian 12: installed with what they depend on, used, and
# removed again, which leaves the root as it was before.
set -euo pipefail
cd "$(dirname "$0")/../.."
bare=build-deb/bare root=build-deb/try
in_root() { tools/debian_root.sh run $root "$@"; }
fail() { echo "test_deb: $*" >&2; exit 1; }
# What is there, but for what apt, dpkg and the loader keep for themselves.
list() {
    (cd $root && find . -xdev \( -path ./var -o -path ./tmp -o -path ./opt -o -path ./etc/ld.so.cache \) \
        -prune -o -print | sort)
}

tools/debian_root.sh make bookworm $bare
rm -rf $root
cp -a $bare $root
mkdir -p $root/opt/try
cp dist/*.deb tests/data/recordings/streams.native.pickle.xz tests/install/consumer.c tests/install/use.py \
    $root/opt/try/

# What they depend on is taken from Debian first, so that removing ours removes ours alone.
in_root bash -euc 'apt-get update -qq
    apt-get install -qq -y --no-install-recommends gcc libc6-dev pkg-config python3 man-db \
        $(for file in /opt/try/*.deb; do dpkg-deb -f "$file" Depends; done | tr , "\n" |
            sed "s/|.*//; s/([^)]*)//; s/:any//; s/ //g" | grep -v vramwise | sort -u)' \
    >build-deb/try.log 2>&1 || { tail -n 20 build-deb/try.log >&2; fail "no root to try them in"; }
list >build-deb/before
in_root bash -euc 'dpkg -i /opt/try/*.deb' >>build-deb/try.log 2>&1 ||
    { tail -n 20 build-deb/try.log >&2; fail "the packages cannot be installed"; }

in_root python3 /opt/try/use.py installed /opt/try/streams.native.pickle.xz
# shellcheck disable=SC2016  # the inner shell's
in_root bash -euc 'cd /tmp
    cc -Wall -Werror /opt/try/consumer.c -o consumer $(pkg-config --cflags --libs vramwise) && ./consumer
    for page in vramwise vramwise-doctor; do man -w $page >/dev/null; done
    test -s /usr/share/bash-completion/completions/vramwise' || fail "what the packages bring does not work"

in_root bash -euc 'dpkg --purge vramwise python3-vramwise libvramwise-dev libvramwise0.2' \
    >>build-deb/try.log 2>&1 || { tail -n 20 build-deb/try.log >&2; fail "they cannot be removed"; }
list >build-deb/after
diff build-deb/before build-deb/after || fail "that is what removing the packages left, or took"
echo "the packages install, work, and go again"

#!/usr/bin/env bash
# make_deb.sh - dist/*.deb for Debian 12: vramwise, libvramwise0.2, libvramwise-dev, python3-vramwise.
#
# Built in a Debian 12 that has what debian/control asks for, then examined by lintian, which may find no
# error, and by tools/check_shipped.py. The root stays in build-deb/, and is used again.
set -euo pipefail
cd "$(dirname "$0")/.."
root=build-deb/bookworm
source=$root/opt/source/vramwise
version=$(sed -n 's/.*VW_VERSION_STRING "\(.*\)"/\1/p' include/vramwise/version.h)
in_root() { tools/debian_root.sh run "$root" "$@"; }

echo "== a Debian 12 to build in"
tools/debian_root.sh make bookworm "$root" build-essential lintian
rm -rf "$root/opt/source"
mkdir -p "$source" dist
tools/source_files.sh | tar -cf - --null --files-from=- | tar -xf - -C "$source"
cat >"$source/debian/changelog" <<END
vramwise ($version-1) unstable; urgency=medium

  * Version $version: /usr/share/doc/vramwise/changelog.gz says what changed.

 -- The vramwise authors <maintainers@vramwise.invalid>  $(git log -1 --format=%aD)
END
# shellcheck disable=SC2046  # words
tools/debian_root.sh make bookworm "$root" $(sed -n '/^Build-Depends:/,/^[A-Z]/{s/^Build-Depends://;/^[A-Z]/d
    s/([^)]*)//g;s/debhelper-compat/debhelper/;s/,//g;p}' debian/control)

echo "== the packages"
in_root bash -euc 'cd /opt/source/vramwise && dpkg-buildpackage -us -uc -b' >build-deb/build.log 2>&1 ||
    { tail -n 30 build-deb/build.log | cut -c 1-200 >&2; exit 1; }
in_root bash -euc 'cd /opt/source && lintian --allow-root --fail-on error *.changes'
rm -f "$root"/opt/source/*-dbgsym*.deb dist/*.deb
tools/check_shipped.py "$root"/opt/source/*.deb
cp "$root"/opt/source/*.deb dist/
ls -1 dist/*.deb

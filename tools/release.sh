#!/usr/bin/env bash
# release.sh [--dry-run] - everything that a release is, in dist/, and its tag.
#
# The version is the one that include/vramwise/version.h states. The tree must be committed, and CHANGELOG.md
# must have a section of that version with a date. Built and tried are the wheels, the source distribution
# and the Debian packages; with them go the notes, which are that section, and SHA256SUMS. The tag comes
# last, and is not pushed. --dry-run needs no date and makes no tag.
set -euo pipefail
cd "$(dirname "$0")/.."
fail() { echo "release: $*" >&2; exit 1; }
is_dry=no
case ${1:-} in
'') ;;
--dry-run) is_dry=yes ;;
*) echo "usage: tools/release.sh [--dry-run]" >&2; exit 2 ;;
esac

version=$(sed -n 's/.*VW_VERSION_STRING "\(.*\)"/\1/p' include/vramwise/version.h)
tag=v$version
heading=$(grep -m 1 "^## " CHANGELOG.md)
[[ $heading == "## $version ("* ]] || fail "CHANGELOG.md begins with '$heading', expected '## $version (DATE)'"
grep -q "^Package: libvramwise${version%.*}\$" debian/control ||
    fail "debian/control has no libvramwise${version%.*}: the soname changed, so must the package's name"
[ -z "$(git status --porcelain)" ] || fail "there are changes that are not committed"
if [ $is_dry = no ]; then
    [[ $heading =~ \([0-9]{4}-[0-9]{2}-[0-9]{2}\)$ ]] ||
        fail "the section of $version has no date: expected '## $version ($(date +%F))', found '$heading'"
    ! git rev-parse -q --verify "refs/tags/$tag" >/dev/null || fail "there is a tag $tag already"
fi

[ "$(id -u)" = 0 ] || fail "packages are made in roots of Debian, by root only: use sudo"

# Roots made anew have today's security updates of what the wheel contains.
rm -rf build-wheel build-deb dist
mkdir dist
make --no-print-directory test-wheel
make --no-print-directory test-wheel MACHINE=aarch64
make --no-print-directory sdist test-deb
awk '/^## / { sections++ } sections == 1' CHANGELOG.md >dist/NOTES.md
sums=$(cd dist && sha256sum -- *)
echo "$sums" >dist/SHA256SUMS
if [ $is_dry = no ]; then
    git tag -a "$tag" -F dist/NOTES.md --cleanup=whitespace
    echo "release: $tag is tagged here; 'git push origin $tag' makes it public"
fi
echo "release: dist/ has"
cat dist/SHA256SUMS

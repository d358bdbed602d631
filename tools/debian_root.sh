#!/usr/bin/env bash
# debian_root.sh make SUITE FOLDER [PACKAGE...] - a bare Debian in FOLDER, with these packages added.
# debian_root.sh run FOLDER COMMAND [WORD...]   - runs a command in it, with /proc, /dev/shm and terminals.
# debian_root.sh unpack ARCHITECTURE FOLDER PLACE PACKAGE... - puts another architecture's packages
#                                                 under PLACE of FOLDER, as files: nothing is installed.
#
# A root that is there is used again, and only what it lacks is installed; one whose change was
# interrupted is made anew. Needs root and, to make one, debootstrap and the keys of Debian. DEBIAN_MIRROR
# names another mirror than deb.debian.org. What a command starts ends with it, and its mounts are its own.
set -euo pipefail
mirror=${DEBIAN_MIRROR:-http://deb.debian.org}
keys=/usr/share/keyrings/debian-archive-keyring.gpg
usage() {
    echo "usage: tools/debian_root.sh make SUITE FOLDER [PACKAGE...] | run FOLDER COMMAND... |" \
        "unpack ARCHITECTURE FOLDER PLACE PACKAGE..." >&2
    exit 2
}
fail() { echo "debian_root: $*" >&2; exit 3; }

in_root() {
    local folder=$1
    shift
    unshare --mount --pid --fork --kill-child bash -euc '
        mount -t proc proc "$0/proc"
        mkdir -p "$0/dev/shm" "$0/dev/pts"
        mount -t tmpfs tmpfs "$0/dev/shm"
        mount -t devpts -o newinstance,ptmxmode=0666 devpts "$0/dev/pts"
        ln -sf pts/ptmx "$0/dev/ptmx"
        folder=$0
        cp --remove-destination -L /etc/resolv.conf "$folder/etc/resolv.conf" 2>/dev/null || true
        exec env -i ${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} \
            ${no_proxy:+no_proxy="$no_proxy"} HOME=/root \
            PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
            LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive chroot "$folder" "$@"' "$folder" "$@"
}

# Written beside its place and moved there, so that an interrupted run leaves no root.
bootstrap() {
    local suite=$1 folder=$2
    command -v debootstrap >/dev/null || fail "debootstrap is not installed (tools/setup.sh package)"
    rm -rf "$folder.part"
    mkdir -p "$(dirname "$folder")"
    [ -e $keys ] || fail "$keys is missing, without which nothing that comes can be trusted"
    debootstrap --force-check-gpg --keyring=$keys --variant=minbase "$suite" "$folder.part" \
        "$mirror/debian" >"$folder.log" 2>&1 ||
        { tail -n 20 "$folder.log" >&2; fail "debootstrap $suite failed; all it said is in $folder.log"; }
    printf '%s\n' "deb $mirror/debian $suite main" \
        "deb $mirror/debian-security $suite-security main" >"$folder.part/etc/apt/sources.list"
    in_root "$folder.part" apt-get update -qq --error-on=any
    in_root "$folder.part" apt-get upgrade -qq -y >>"$folder.log" 2>&1
    mv "$folder.part" "$folder"
}

# The version of the security archive; where that does not have the architecture, the suite's own.
unpack() {
    local architecture=$1 folder=$2 place=$3 suite
    shift 3
    suite=$(sed -n 's/^VERSION_CODENAME=//p' "$folder/etc/os-release")
    in_root "$folder" dpkg --add-architecture "$architecture"
    in_root "$folder" apt-get update -qq --error-on=any
    # shellcheck disable=SC2016  # the inner shell's
    in_root "$folder" bash -euc '
        architecture=$0 suite=$1 place=$2
        shift 2
        packages=$(mktemp -d) && cd "$packages"
        for package in "$@"; do
            apt-get download -qq "$package:$architecture" 2>/dev/null ||
                apt-get download -qq "$package:$architecture/$suite"
        done
        rm -rf "$place" "$place.part" && mkdir -p "$place.part"
        for package in *.deb; do dpkg-deb -x "$package" "$place.part"; done
        mv "$place.part" "$place"
        rm -rf "$packages"' "$architecture" "$suite" "$place" "$@" >>"$folder.log" 2>&1 ||
        { tail -n 20 "$folder.log" >&2; fail "$* could not be had for $architecture"; }
}

[ $# -ge 3 ] || usage
[ "$(id -u)" = 0 ] || fail "a root file system is made and entered by root only: use sudo"
order=$1
shift
case $order in
make)
    suite=$1 folder=$2
    shift 2
    if [ -e "$folder.changing" ]; then rm -rf "$folder" "$folder.changing"; fi
    [ -d "$folder" ] || bootstrap "$suite" "$folder"
    missing=()
    for package in "$@"; do
        in_root "$folder" dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null |
            grep -qx installed || missing+=("$package")
    done
    if [ ${#missing[@]} -gt 0 ]; then
        : >"$folder.changing"
        in_root "$folder" apt-get update -qq --error-on=any
        in_root "$folder" apt-get install -qq -y --no-install-recommends "${missing[@]}" \
            >>"$folder.log" 2>&1 ||
            { tail -n 20 "$folder.log" >&2; fail "${missing[*]} could not be installed in $folder"; }
        rm "$folder.changing"
    fi
    ;;
run)
    folder=$1
    shift
    in_root "$folder" "$@"
    ;;
unpack)
    [ $# -ge 4 ] || usage
    unpack "$@"
    ;;
*) usage ;;
esac

#!/usr/bin/env bash
# check_symbols.sh [BUILD_FOLDER] - what the libraries show to the programs they are loaded into.
#
# A shared library exports names that begin vw_ and are not vw__ (those are for inside), and no two
# of ours export the same one; an archive, where visibility cannot hide, has only vw_ and vw__ names,
# so that it cannot clash with anybody's. libvramwise asks for nothing beyond the C library's own,
# libvramwise-analysis for libvramwise and the libraries it reads files with. libvramwise-torch has no
# archive; its names begin vramwise_, and it stands on libvramwise. Everything reads the environment with
# secure_getenv(), which answers nothing in a setuid program: whoever runs one must not choose what it loads.
set -euo pipefail
build=${1:-build}
faults=0
fault() { echo "symbols: $*" >&2; faults=$((faults + 1)); }

# exported_by SHARED
exported_by() { nm -D --defined-only "$1" | awk '{ print $NF }'; }

# check NAME ALLOWED_PATTERN - libNAME.so and libNAME.a; it may need what the pattern matches.
check() {
    local shared=$build/lib$1.so archive=$build/lib$1.a allowed=$2 symbol needed library
    for library in "$shared" "$archive"; do
        [ -e "$library" ] || { echo "symbols: no $library; build first" >&2; exit 1; }
    done
    [ -n "$(exported_by "$shared")" ] || fault "$shared exports nothing"
    for symbol in $(exported_by "$shared"); do
        case $symbol in
        vw__*) fault "$shared exports $symbol, which is internal" ;;
        vw_*) ;;
        *) fault "$shared exports $symbol, which is not ours to name" ;;
        esac
    done
    for symbol in $(nm -g --defined-only "$archive" | awk 'NF == 3 { print $3 }'); do
        case $symbol in
        vw_*) ;;
        *) fault "$archive defines $symbol, which could clash" ;;
        esac
    done
    for needed in $(readelf -d "$shared" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'); do
        [[ $needed =~ ^($allowed)\.so ]] || fault "$shared needs $needed"
    done
}

c_library='libc|libm|libdl|libpthread|ld-linux[^.]*'
check vramwise "$c_library"
check vramwise-analysis "$c_library|libvramwise|libz|liblzma|libzstd"

torch=$build/libvramwise-torch.so
[ -n "$(exported_by "$torch")" ] || fault "$torch exports nothing"
for symbol in $(exported_by "$torch"); do
    case $symbol in
    vramwise_*) ;;
    *) fault "$torch exports $symbol, which is not ours to name" ;;
    esac
done
for needed in $(readelf -d "$torch" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'); do
    [[ $needed =~ ^($c_library|libvramwise)\.so ]] || fault "$torch needs $needed"
done

twice=$({ exported_by "$build/libvramwise.so"; exported_by "$build/libvramwise-analysis.so"; } |
    sort | uniq -d)
[ -z "$twice" ] || fault "exported by both libraries:" $twice

for file in "$build"/libvramwise.so "$build"/libvramwise-analysis.so "$torch" "$build/vramwise"; do
    if nm -D --undefined-only "$file" | grep -qw getenv; then
        fault "$file calls getenv(): secure_getenv() is for programs of any kind"
    fi
done

count=$({ exported_by "$build/libvramwise.so"; exported_by "$build/libvramwise-analysis.so"
    exported_by "$torch"; } | wc -l)
echo "symbols: $count exported, $faults faults"
[ $faults -eq 0 ]

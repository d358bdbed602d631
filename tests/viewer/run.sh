#!/usr/bin/env bash
# run.sh [VITEST'S OWN WORDS] - the page of `vramwise view` in a browser. The program is
# $VRAMWISE_BUILD/vramwise (build/), the browser the first of PATH or $VRAMWISE_CHROMIUM. One test:
# tests/viewer/run.sh timeline -t 'zooms'. Screenshots are left in build/viewer-screenshots.
set -euo pipefail
cd "$(dirname "$0")/../.."
exec node viewer/node_modules/vitest/vitest.mjs run --config tests/viewer/vitest.config.mjs "$@"

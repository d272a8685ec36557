# SPDX-License-Identifier: Apache-2.0
# Sourced by who runs what a manual says, literally.

# block FILE HEADING N: the N-th block of code behind the heading "## Train", as it stands.
block() {
  awk -v heading="$2" -v wanted="$3" '
    /^#/ && !code { here = $0 == heading; count = 0 }
    /^```/ { if (code) code = 0; else { code = 1; count += here; next } }
    code && here && count == wanted' "$1"
}

#!/bin/bash
# man-page.sh PROGRAM: a manual page of the program's --help, for a program without a written one.
set -euo pipefail
name=$(basename "$1")
section() { printf '.SH %s\n' "$1"; }
text() { sed -e 's/\\/\\e/g' -e "s/'/\\\\(aq/g" -e 's/-/\\-/g' -e 's/^\./\\\&./'; }
help=$("$1" --help)
case $name in
  tidelab) what='compare and check storage engines of MariaDB' ;;
  *) echo "$0: no line says what $name is" >&2 && exit 1 ;;
esac
printf '.TH %s 1\n' "${name^^}"
section NAME
printf '%s \\- %s\n' "${name/-/\\-}" "$what"
section SYNOPSIS
printf '.B %s\n\\-\\-help\n' "${name/-/\\-}"
section DESCRIPTION
printf '.nf\n'
text <<<"$help"
printf '.fi\n'

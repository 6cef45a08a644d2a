# Shared by the shell tools: where the project is, how they speak, how they fail. Sourced, not run.
# shellcheck shell=bash disable=SC2034  # what is set here is used by the scripts that source it

root=$(cd -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")/../.." && pwd)
build_dir=$root/build
tool=$(basename -- "$0")

# A line about what happens next.
say() { printf '%s: %s\n' "$tool" "$*"; }

# fail MESSAGE: the job could not be done (exit status 1).
fail() {
  printf '%s: %s\n' "$tool" "$*" >&2
  exit 1
}

# misuse MESSAGE: the command line is wrong (exit status 2).
misuse() {
  printf '%s: %s (see %s --help)\n' "$tool" "$*" "$tool" >&2
  exit 2
}

# The comment block at the head of the calling script, as its --help.
show_help() { awk 'NR > 1 && !/^#/ { exit } NR > 1 { sub(/^# ?/, ""); print }' "$0"; }

# missing_packages NAME...: those that dpkg does not hold as installed, on one line.
missing_packages() {
  local name missing=()
  for name in "$@"; do
    [[ $(dpkg-query -W -f='${db:Status-Status}' "$name" 2>/dev/null) == installed ]] ||
      missing+=("$name")
  done
  printf '%s' "${missing[*]}"
}

# prepare_apt NAME...: has apt ask its sources for their packages, and sets as_root, what installs these
# names; once. Returns 1, with the reason told, where this user cannot install.
apt_is=unasked as_root=()
prepare_apt() {
  [[ $apt_is == unasked ]] || { [[ $apt_is == ready ]]; return; }
  apt_is=useless
  if ! command -v apt-get >/dev/null; then
    say "this machine has no apt-get: install these packages' counterparts by hand" >&2
    return 1
  fi
  if [[ $(id -u) -ne 0 ]]; then
    if ! command -v sudo >/dev/null; then
      say "installing needs root: run this as root, or install sudo, or have an administrator run:" \
        "apt-get install $*" >&2
      return 1
    fi
    as_root=(sudo)
  fi
  apt_is=ready
  if ! "${as_root[@]}" apt-get -qq update; then
    say "apt-get update failed (is the network there?); going on with the package lists present" >&2
  fi
}

# unknown_packages NAME...: those that apt does not have, on one line. Asked for all at once: without
# a cache of its own, as in containers, apt reads its lists for every question.
unknown_packages() {
  local known name unknown=()
  known=$(apt-cache policy "$@" 2>/dev/null |
    awk '/^[^ ].*:$/ { name = $1 } / Candidate: [^(]/ { print name }')
  for name in "$@"; do
    [[ $'\n'$known$'\n' == *$'\n'"$name:"$'\n'* ]] || unknown+=("$name")
  done
  printf '%s' "${unknown[*]}"
}

# install_packages NAME...: gets what is missing with apt-get, after saying what. Returns 1, with
# the reason told, when it cannot; does nothing, and needs neither network nor root, when nothing is
# missing.
install_packages() {
  local missing unknown
  missing=$(missing_packages "$@")
  [[ -n $missing ]] || return 0
  say "installing with apt-get: $missing"
  # shellcheck disable=SC2086  # the list is meant to split
  prepare_apt $missing || return 1
  # shellcheck disable=SC2086
  unknown=$(unknown_packages $missing)
  if [[ -n $unknown ]]; then
    say "apt has no package $unknown: Debian 12 carries LLVM 22 in bookworm-security," \
      "the others in main; check /etc/apt for both" >&2
    return 1
  fi
  # shellcheck disable=SC2086
  if ! "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get -qq -y -o Dpkg::Use-Pty=0 --no-install-recommends install $missing; then
    say "apt-get could not install $missing; its messages stand above" >&2
    return 1
  fi
  missing=$(missing_packages "$@")
  [[ -z $missing ]] || { say "still missing after apt-get: $missing" >&2; return 1; }
}

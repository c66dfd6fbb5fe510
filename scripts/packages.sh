# What Tidemark needs from Debian or Ubuntu, and how a script gets it.
# Sourced by the other scripts; not run by itself.

# To build and run.
TIDEMARK_PACKAGES="gcc cmake ninja-build git pkg-config libyaml-dev libsqlite3-dev libjansson-dev libmd-dev liblzma-dev zlib1g-dev libzstd-dev libopenblas-dev gnuplot-nox"
# To test, on top.
TIDEMARK_TEST_PACKAGES="libcmocka-dev libxml2-utils sqlite3 clang python3"

# need_packages PACKAGE…: installs what is missing. Without the right to do
# so it prints the line to type and ends the script with 69.
need_packages() {
	local missing="" package
	for package in "$@"; do
		# any gnuplot will do
		if [ "$package" = gnuplot-nox ] && command -v gnuplot >/dev/null 2>&1; then
			continue
		fi
		if ! dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed'; then
			missing="$missing $package"
		fi
	done
	[ -z "$missing" ] && return 0
	echo "installing:$missing" >&2
	local sudo=""
	if [ "$(id -u)" != 0 ]; then
		if command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
			sudo="sudo -n"
		else
			echo "These packages are missing and this user may not install them. Type:" >&2
			echo "    sudo apt-get install -y --no-install-recommends$missing" >&2
			exit 69
		fi
	fi
	export DEBIAN_FRONTEND=noninteractive
	# An index that is a little old usually still serves; refresh only if not.
	# shellcheck disable=SC2086
	if ! $sudo apt-get install -y -qq --no-install-recommends $missing >/dev/null 2>&1; then
		$sudo apt-get update -qq || true
		if ! $sudo apt-get install -y -qq --no-install-recommends $missing >/dev/null; then
			echo "apt could not install:$missing" >&2
			exit 69
		fi
	fi
}
